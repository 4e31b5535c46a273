"""Hostile sites: what they may send, and what they may make a fetcher do."""

from edits.edit import Edit

_FILE = "pyspider/fetcher/tornado_fetcher.py"
_LIMITED = "a page is limited while it is read, and all pages together"
_STAYS = "a site's redirect leads to a robots.txt, too"

EDITS = (
    Edit(
        _FILE,
        "from pyspider.libs import utils, dataurl, counter\n",
        "from pyspider.libs import utils, dataurl, counter\n"
        "from pyspider.libs.destinations import Destinations\n"
        "from pyspider.libs.page_client import ROBOTS_LIMIT, PageClient, PageRequest\n",
        _LIMITED,
    ),
    Edit(
        _FILE,
        "class MyCurlAsyncHTTPClient(CurlAsyncHTTPClient):\n\n    def free_size(self):\n"
        "        return len(self._free_list)\n",
        "class MyCurlAsyncHTTPClient(PageClient):\n\n    def free_size(self):\n"
        "        return 0 if self.is_full else len(self._free_list)\n",
        _LIMITED,
    ),
    Edit(
        _FILE,
        "        return len(self._curls) - self.free_size()\n",
        "        return len(self._curls) - len(self._free_list)\n",
        "there may be none to be had, and none in use",
    ),
    Edit(
        _FILE,
        "    robot_txt_age = 60*60  # 1h\n",
        "    robot_txt_age = 60*60  # 1h\n"
        "    page_limit = 8 * 2**20\n"
        "    page_memory = 256 * 2**20\n"
        "    forbidden_networks = ()\n",
        _LIMITED,
    ),
    Edit(
        _FILE,
        "        callback(type, task, result)\n        self.on_result(",
        "        try:\n"
        "            callback(type, task, result)\n"
        "        finally:\n"
        "            self.http_client.release(task)\n"
        "        self.on_result(",
        "until then the page is in memory, and counts",
    ),
    Edit(
        _FILE,
        "                response = yield gen.maybe_future(self.http_client.fetch(\n"
        "                    urljoin(url, '/robots.txt'), connect_timeout=10,"
        " request_timeout=30))\n",
        "                response = yield gen.maybe_future(self.http_client.fetch(PageRequest(\n"
        "                    urljoin(url, '/robots.txt'), limit=ROBOTS_LIMIT,\n"
        "                    led_by=led_by, connect_timeout=10, request_timeout=30)))\n",
        _LIMITED,
    ),
    Edit(
        _FILE,
        "    def can_fetch(self, user_agent, url):\n",
        "    def can_fetch(self, user_agent, url, led_by=''):\n",
        _STAYS,
    ),
    Edit(
        "pyspider/libs/base_handler.py",
        "'max_redirects', 'robots_txt')\n",
        "'max_redirects', 'robots_txt', 'location_trusted')\n",
        "what a task sends is not for whatever origin its site names",
    ),
)
