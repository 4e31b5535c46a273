"""A site of endless chains that knows how long each link took until it was fetched."""

import json
import re
import threading
import time

from tests.support.chain_site import Site, SiteAnswer

SCRIPT = """
from pyspider.libs.base_handler import BaseHandler

class Handler(BaseHandler):
    def on_start(self):
        self.crawl("{url}/0", callback=self.page)

    def page(self, response):
        self.crawl(response.json["next"], callback=self.page)
"""


class Chain(Site):
    """Serves ``/<number>``, which links to the next number.

    Threads: its own serve; the methods may be called from any.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._served: dict[int, float] = {}
        self._waits: list[float] = []
        super().__init__(_page(self))
        self.script = SCRIPT.format(url=self.url)

    def waits(self) -> list[float]:
        """Return for each link how long it took from its page to its child, in seconds."""
        with self._lock:
            return list(self._waits)

    def asked(self, number: int) -> bytes:
        """Note that a page was asked for; return it."""
        with self._lock:
            if number - 1 in self._served:
                self._waits.append(time.monotonic() - self._served.pop(number - 1))
        return json.dumps({"next": f"{self.url}/{number + 1}"}).encode()

    def served(self, number: int) -> None:
        """Note that a page is out."""
        with self._lock:
            self._served[number] = time.monotonic()


def _page(chain: Chain) -> type[SiteAnswer]:
    class Page(SiteAnswer):
        def get(self) -> None:
            found = re.fullmatch(r"/(\d+)", self.path)
            self.say(chain.asked(int(found[1])) if found else b"", 200 if found else 404)
            if found:
                chain.served(int(found[1]))

    return Page
