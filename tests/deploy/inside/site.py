"""The site that is crawled, in a container of its own: ``python -m tests.deploy.inside.site``.

``/<pages>/<project>/<page>`` is a page of a tree of so many; ``/asked/<project>`` tells how often
each was asked for.
"""

import json
import threading
import time
from collections import Counter, defaultdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.chaos.site import links

PORT = 8000


def latency(page: int) -> float:
    """Return how many seconds a page takes: most are quick, some outlive a takeover.

    Of those that are linked to by a slow one none is slow, so that a crawl takes no longer.
    """
    return 15.0 if page % 5 == 1 else 0.1 * (page % 5)


class PageCounts:
    """Counts requests by project and page. Threads: any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked: defaultdict[str, Counter[int]] = defaultdict(Counter)

    def note(self, project: str, page: int) -> None:
        """Count a request."""
        with self._lock:
            self._asked[project][page] += 1

    def of(self, project: str) -> dict[int, int]:
        """Return how often each page of a project was asked for."""
        with self._lock:
            return dict(self._asked[project])


class AskedSite(ThreadingHTTPServer):
    """Serves trees of pages, on all addresses."""

    request_queue_size = 256  # a connection that a burst drops is tried again only much later

    def __init__(self) -> None:
        super().__init__(("", PORT), AskedPage)
        self.asked = PageCounts()


class AskedPage(BaseHTTPRequestHandler):
    """Answers one request, after the page's latency."""

    server: AskedSite

    def do_GET(self) -> None:
        first, project, *page = self.path.strip("/").split("/")
        if first == "asked":
            self._answer(self.server.asked.of(project))
            return
        self.server.asked.note(project, int(page[0]))
        time.sleep(latency(int(page[0])))
        self._answer({"links": links(project, int(page[0]), int(first))})

    def _answer(self, found: Any) -> None:
        body = json.dumps(found).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing; the counts tell."""


if __name__ == "__main__":
    AskedSite().serve_forever()
