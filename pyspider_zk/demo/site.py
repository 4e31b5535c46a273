"""A web site on a loopback port that serves a folder and counts requests."""

from collections import Counter
from collections.abc import Callable
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock, Thread
from types import TracebackType
from typing import Any, Self

from pyspider_zk.local.ports import LOOPBACK


class Site:
    """Serves a folder, one thread per connection, from ``start`` to ``stop``.

    Threads: any.

    Args:
        folder: the files to serve.
        port: the port; 0 for any free one.
    """

    def __init__(self, folder: Path, port: int = 0) -> None:
        self._requests: Counter[str] = Counter()
        self._lock = Lock()
        handler = partial(_SiteHandler, directory=str(folder), count=self._count)
        self._server = ThreadingHTTPServer((LOOPBACK, port), handler)
        self._thread = Thread(target=self._server.serve_forever, name="site", daemon=True)

    @property
    def url(self) -> str:
        """The address of the folder itself, with a slash at the end."""
        return f"http://{LOOPBACK}:{self._server.server_address[1]}/"

    def start(self) -> None:
        """Begin to answer; returns at once."""
        self._thread.start()

    def stop(self) -> None:
        """End; blocks until the server's own thread has ended."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def requests(self) -> Counter[str]:
        """Return how often each path was requested."""
        with self._lock:
            return self._requests.copy()

    def forget(self) -> None:
        """Count from zero again."""
        with self._lock:
            self._requests.clear()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _count(self, path: str) -> None:
        with self._lock:
            self._requests[path] += 1


def repeats(requests: Counter[str]) -> int:
    """Return how many requests repeated an earlier one."""
    return requests.total() - len(requests)


class _SiteHandler(SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # keeps connections open
    disable_nagle_algorithm = True  # else head and body, sent apart, wait for each other

    def __init__(self, *args: Any, count: Callable[[str], None], **options: Any) -> None:
        self._count = count
        super().__init__(*args, **options)

    def do_GET(self) -> None:
        self._count(self.path)
        super().do_GET()

    def log_message(self, *_: object) -> None:
        """Stay quiet."""
