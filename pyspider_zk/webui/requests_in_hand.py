"""Requests in hand: which the web UI is answering, and since when."""

import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

WsgiApp = Callable[[dict[str, Any], Any], Iterable[bytes]]


class RequestsInHand:
    """A WSGI application that knows which requests it is answering. Threads: any.

    Args:
        inner: answers them.
        clock: in seconds.
    """

    def __init__(self, inner: WsgiApp, clock: Callable[[], float] = time.monotonic) -> None:
        self._inner = inner
        self._clock = clock
        self._since: dict[int, float] = {}  # by thread

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """Answer a request."""
        thread = threading.get_ident()
        self._since[thread] = self._clock()
        try:
            return self._inner(environ, start_response)
        finally:
            del self._since[thread]

    @property
    def age(self) -> float:
        """Seconds since the oldest came; 0 without one."""
        oldest = min(self._since.copy().values(), default=None)
        return 0.0 if oldest is None else self._clock() - oldest
