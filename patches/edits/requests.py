"""Requests: what a script says is what is sent, or crawl() refuses it."""

from edits.edit import Edit, Span

_HANDLER = "pyspider/libs/base_handler.py"
_FETCHER = "pyspider/fetcher/tornado_fetcher.py"

_SENT = (
    "bytes, methods, headers, cookies and files arrived as something else, or leaked into others"
)
_OWN = "redirects, cookies and their time-out follow the standards in a module of their own"
_RENDERED = "what says that a page is not rendered, says why, and what is missing"
_BROWSED = "a cookie that is no quoted string lost those after it"

EDITS = (
    Edit(
        _HANDLER,
        "from pyspider.libs.url import (\n"
        "    quote_chinese, _build_url, _encode_params,\n"
        "    _encode_multipart_formdata, curl_to_arguments)\n",
        "from pyspider.libs import fetch_arguments, fetchable\n"
        "from pyspider.libs.curl_command import curl_to_arguments\n",
        _SENT,
    ),
    Span(
        _HANDLER,
        "            if hasattr(func, '_config'):\n",
        "        schedule = {}\n",
        "            kwargs = fetch_arguments.joined(getattr(func, '_config', {}), kwargs)\n"
        "\n"
        "        url = fetchable.task_url(url, kwargs.pop('params', None))\n"
        "        kwargs = fetch_arguments.request_of(kwargs)\n"
        "        config = fetch_arguments.config_of(self.crawl_config)\n"
        "\n",
        _SENT,
    ),
    Edit(
        _HANDLER,
        "            task = self.task_join_crawl_config(task, self.crawl_config)\n",
        "            config = storable.stored('crawl_config', config)\n"
        "            task = self.task_join_crawl_config(task, config)\n",
        _SENT,
    ),
    Edit(
        _HANDLER,
        "                self.save[each] = self.crawl_config\n",
        "                self.save[each] = fetch_arguments.told_config(self.crawl_config)\n",
        _SENT,
    ),
    Edit(
        _HANDLER,
        "            for each in url:\n",
        "            kwargs = fetch_arguments.read(kwargs)\n            for each in url:\n",
        "a file that is sent to several URLs was empty from the second on",
    ),
    Edit(
        _HANDLER,
        "        if isinstance(url, six.string_types) and url.startswith('curl '):\n",
        "        if isinstance(url, bytes):\n"
        "            url = url.decode()\n"
        "        if isinstance(url, six.string_types) and url.startswith('curl '):\n",
        "each byte of it was taken for a URL",
    ),
    Edit(
        _FETCHER,
        "from pyspider.libs.url import quote_chinese\n"
        "from .cookie_utils import extract_cookies_to_jar\n",
        "from pyspider.libs import (\n"
        "    fetch_arguments, fetchable, http_fetch, rendered_fetch, storable, wire)\n",
        _OWN,
    ),
    Edit(
        _FETCHER,
        "from six.moves import queue, http_cookies\n",
        "from six.moves import queue\n",
        _OWN,
    ),
    Edit(_FETCHER, "from requests import cookies\n", "", _OWN),
    Edit(
        _FETCHER,
        "        task_fetch = task.get('fetch', {})\n"
        "        for each in self.allowed_options:\n"
        "            if each in task_fetch:\n",
        "        task_fetch = fetch_arguments.request_of(task.get('fetch') or {})\n"
        "        for each in self.allowed_options:\n"
        "            if task_fetch.get(each) is not None:\n",
        _SENT,
    ),
    Edit(
        _FETCHER,
        "        fetch['headers'].update(task_fetch.get('headers', {}))\n",
        "        fetch['headers'].update(wire.headers(task_fetch))\n",
        _SENT,
    ),
    Span(
        _FETCHER,
        "            if '://' not in proxy_string:\n",
        "\n        # etag\n",
        "            fetch.update(http_fetch.proxied(proxy_string))\n",
        "the kind of a proxy was ignored, and a name without a password ended in an error",
    ),
    Span(
        _FETCHER,
        "        '''HTTP fetcher'''\n",
        "    @gen.coroutine\n    def phantomjs_fetch(",
        "        '''HTTP fetcher'''\n"
        "        self.on_fetch('http', task)\n"
        "        result = yield http_fetch.fetch(self, url, task)\n"
        "        raise gen.Return(result)\n"
        "\n",
        _OWN,
    ),
    Span(
        _FETCHER,
        "        '''Fetch with phantomjs proxy'''\n",
        "    @gen.coroutine\n    def splash_fetch(",
        "        '''Fetch with a renderer'''\n"
        "        self.on_fetch('phantomjs', task)\n"
        "        result = yield rendered_fetch.fetch(self, url, task)\n"
        "        raise gen.Return(result)\n"
        "\n"
        "    def posted(self, body):\n"
        "        '''How a renderer is asked'''\n"
        "        return {'body': body}\n"
        "\n",
        _RENDERED,
    ),
    Edit(
        _FETCHER,
        "get('fetch_type') in ('js', 'phantomjs'):",
        "get('fetch_type') in fetch_arguments.RENDERED:",
        "other browsers than PhantomJS render pages today, and scripts name them",
    ),
    Span(
        _FETCHER,
        "        request_conf = {\n            'follow_redirects': False,\n"
        "            'headers': {\n",
        "        fetch['lua_source'] = ",
        "        request_conf = {\n"
        "            'follow_redirects': False,\n"
        "            'headers': {'Content-Type': 'application/json'},\n"
        "            'connect_timeout': fetch.get('connect_timeout', 20),\n"
        "            'request_timeout': fetch.get('request_timeout', 120) + 1,\n"
        "        }\n"
        "        fetch = storable.stored('fetch', http_fetch.browsed(fetch))\n",
        _BROWSED,
    ),
)
