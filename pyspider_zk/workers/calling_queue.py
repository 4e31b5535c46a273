"""Queue that calls a function before its reader waits."""

import queue
import time
from collections.abc import Callable
from typing import Any

AGAIN = 0.1
"""Seconds until a queue that failed is read again."""


class CallingQueue:
    """One of pyspider's queues, whose reader calls a function before it waits.

    Args:
        before: called by the reader.
        wait: sleeps that many seconds after an error: the reader tries again at once, forever.
    """

    def __init__(
        self,
        inner: Any,
        before: Callable[[], None],
        wait: Callable[[float], object] = time.sleep,
    ) -> None:
        self._inner = inner
        self._before = before
        self._wait = wait

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """Return the oldest message; see ``queue.Queue.get``."""
        try:
            self._before()
            return self._inner.get(block, timeout)
        except queue.Empty:
            raise
        except Exception:
            self._wait(AGAIN)
            raise

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)
