"""A site of endless chains that knows how long each link took until it was fetched."""

import json
import re
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SCRIPT = """
from pyspider.libs.base_handler import BaseHandler

class Handler(BaseHandler):
    def on_start(self):
        self.crawl("{url}/0", callback=self.page)

    def page(self, response):
        self.crawl(response.json["next"], callback=self.page)
"""


class Chain:
    """Serves ``/<number>``, which links to the next number.

    Threads: its own serve; the methods may be called from any.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._served: dict[int, float] = {}
        self._waits: list[float] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _page(self))
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self.script = SCRIPT.format(url=self._url)

    def __enter__(self) -> "Chain":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def waits(self) -> list[float]:
        """Return for each link how long it took from its page to its child, in seconds."""
        with self._lock:
            return list(self._waits)

    def asked(self, number: int) -> bytes:
        """Note that a page was asked for; return it."""
        with self._lock:
            if number - 1 in self._served:
                self._waits.append(time.monotonic() - self._served.pop(number - 1))
        return json.dumps({"next": f"{self._url}/{number + 1}"}).encode()

    def served(self, number: int) -> None:
        """Note that a page is out."""
        with self._lock:
            self._served[number] = time.monotonic()

    @property
    def _url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"


def _page(chain: Chain) -> type[BaseHTTPRequestHandler]:
    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = re.fullmatch(r"/(\d+)", self.path)
            body = chain.asked(int(found[1])) if found else b""
            self.send_response(200 if found else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            if found:
                chain.served(int(found[1]))

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    return Page
