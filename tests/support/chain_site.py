"""Sites that tests crawl; above all one of endless chains.

There every page has one link, so a lost page is never found again. A chain goes on until the test
says that it is enough; then whatever was told of must be crawled.
"""

import json
import re
import threading
from collections import Counter, defaultdict
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

CHAINS = 3
_PAGE = re.compile(r"/(\w+)/(\d+)")

_SCRIPT = """
from pyspider.libs.base_handler import BaseHandler

class Handler(BaseHandler):
    def on_start(self):
        for number in range({chains}):
            self.crawl("{url}/{name}/%d" % number, callback=self.page)

    def page(self, response):
        for link in response.json["links"]:
            self.crawl(link, callback=self.page)
        return {{"url": response.url}}
"""


def chain_script(url: str, name: str) -> str:
    """Return the handler script that crawls a project's chains."""
    return _SCRIPT.format(chains=CHAINS, url=url, name=name)


class SiteAnswer(BaseHTTPRequestHandler):
    """Answers a request by ``get`` or ``post``; logs nothing."""

    get: Callable[..., None]
    post: Callable[..., None]

    def do_GET(self) -> None:
        self.get()

    def do_POST(self) -> None:
        self.post()

    def say(self, body: bytes, status: int = 200, kind: str = "") -> None:
        """Send a whole answer."""
        self.send_response(status)
        if kind:
            self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


class Site:
    """An HTTP server, which listens at once and serves while the block runs.

    Threads: its own serve.
    """

    def __init__(
        self, answer: type[BaseHTTPRequestHandler], address: str = "127.0.0.1", port: int = 0
    ) -> None:
        self._server = _SiteServer((address, port), answer)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self.url = f"http://{address}:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _SiteServer(ThreadingHTTPServer):
    request_queue_size = 256  # a connection that a burst drops is tried again only much later


class ChainSite(Site):
    """Serves ``/<project>/<number>``, which links to the number three further on.

    Threads: its own serve; the methods may be called from any.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._told: defaultdict[str, set[str]] = defaultdict(set)
        self._served: Counter[str] = Counter()
        self._ended: set[str] = set()
        super().__init__(_pages(self._links))

    def told(self, project: str) -> set[str]:
        with self._lock:
            return set(self._told[project])

    def served(self) -> Counter[str]:
        """Return how many pages each project fetched."""
        with self._lock:
            return self._served.copy()

    def end_chains(self, projects: list[str]) -> None:
        """Link to nothing any more for these projects."""
        with self._lock:
            self._ended |= set(projects)

    def _links(self, project: str, number: int) -> list[str]:
        with self._lock:
            self._served[project] += 1
            self._told[project] |= {self._url(project, first) for first in range(CHAINS)}
            following = self._url(project, number + CHAINS)
            if project in self._ended and following not in self._told[project]:
                return []  # who fetches a page again is told what was told before
            self._told[project].add(following)
            return [following]

    def _url(self, project: str, number: int) -> str:
        return f"{self.url}/{project}/{number}"


def _pages(links: Any) -> type[SiteAnswer]:
    class ChainPage(SiteAnswer):
        def get(self) -> None:
            found = _PAGE.fullmatch(self.path)
            told = {"links": links(found[1], int(found[2])) if found else []}
            self.say(json.dumps(told).encode(), 200 if found else 404)

    return ChainPage
