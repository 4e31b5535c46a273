"""Queue as a worker reads it: what it cannot use is skipped, and it does something before."""

import logging
import queue
import time
from collections.abc import Callable
from typing import Any

from pyspider_zk.errors import BadMessage
from pyspider_zk.queues.packs import who

FOREVER = float("inf")
IN_A_ROW = 1000  # bad messages that one read skips
AGAIN = 0.1  # seconds until a queue that failed is read again


class CheckedQueue:
    """One of pyspider's queues, without the messages that its reader cannot use.

    Threads: those that the queue itself allows.

    Args:
        inner: the queue.
        check: raises ``BadMessage`` for an unusable message.
        logger: logs each of these, in one line.
        before: called by ``get`` before it waits.
        wait: sleeps that many seconds after an error of ``get``, or of ``before``: pyspider's
            loops try again at once, forever.

    Attributes:
        passed_over: how many there were.
    """

    Empty, Full = queue.Empty, queue.Full

    def __init__(
        self,
        inner: Any,
        check: Callable[[Any], None],
        logger: logging.Logger,
        before: Callable[[], object] = lambda: None,
        wait: Callable[[float], object] = time.sleep,
    ) -> None:
        self._inner = inner
        self._check = check
        self._logger = logger
        self._before = before
        self._wait = wait
        self.passed_over = 0

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """Return the oldest usable message; see ``queue.Queue.get``."""
        try:
            self._before()
            return self._get(block, timeout)
        except queue.Empty:
            raise
        except Exception:
            self._wait(AGAIN)
            raise

    def _get(self, block: bool, timeout: float | None) -> Any:
        if not block:
            return self.get_nowait()
        until = time.monotonic() + (FOREVER if timeout is None else timeout)
        while (left := until - time.monotonic()) > 0:
            body = self._inner.get(timeout=None if timeout is None else left)
            if self._is_good(body):
                return body
        raise queue.Empty

    def get_nowait(self) -> Any:
        """Return the oldest usable message; see ``queue.Queue.get_nowait``."""
        for _ in range(IN_A_ROW):
            body = self._inner.get_nowait()
            if self._is_good(body):
                return body
        raise queue.Empty

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def _is_good(self, body: Any) -> bool:
        try:
            self._check(body)
        except BadMessage as error:
            self.passed_over += 1
            self._logger.error(
                "%s: passed over a message %s, the %d. of no use: %s",
                self._inner,
                who(body),
                self.passed_over,
                error,
            )
            return False
        return True
