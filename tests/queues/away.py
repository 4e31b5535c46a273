"""A queue of pyspider's kind that can go away."""

import queue
import threading
from typing import Any


class AwayQueue(queue.Queue[Any]):
    """A queue in memory whose client raises while it is away.

    Attributes:
        away: whether every call fails.
        asked: how often it was called while it was away.
        refused: set by each call that fails.
    """

    def __init__(self, maxsize: int = 0, away: bool = False) -> None:
        super().__init__(maxsize)
        self.away = away
        self.asked = 0
        self.refused = threading.Event()

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        self._answer()
        super().put(item, block, timeout)

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        self._answer()
        return super().get(block, timeout)

    def full(self) -> bool:
        self._answer()
        return super().full()

    def empty(self) -> bool:
        self._answer()
        return super().empty()

    def qsize(self) -> int:
        self._answer()
        return super().qsize()

    def _answer(self) -> None:
        if self.away:
            self.asked += 1
            self.refused.set()
            raise ConnectionError("nobody listens")
