"""Backpressure: the limit of a slot queue, kept as pyspider's ``lazy_limit`` keeps it."""

from collections.abc import Callable, Collection, Mapping
from threading import Event

from pyspider_zk.errors import Unavailable
from pyspider_zk.queues.names import SlotQueue

PAUSE = 0.1  # seconds between two checks of a full queue

Wait = Callable[[float], object]


class Backpressure:
    """Remembers which slot queues are at their limit, and waits for room.

    Every publish returns lengths. Only a queue that was at the limit then is
    measured again. Threads: any.
    """

    def __init__(
        self,
        limit: int,
        measure: Callable[[Collection[SlotQueue]], Mapping[SlotQueue, int]],
        wait: Wait | None = None,
    ) -> None:
        self._limit = limit
        self._measure = measure
        self._closed = Event()
        self._wait = self._closed.wait if wait is None else wait
        self._known: dict[SlotQueue, int] = {}

    def note(self, lengths: Mapping[SlotQueue, int]) -> None:
        """Remember lengths that a publish returned."""
        if self._limit:
            self._known.update(lengths)

    def full(self, queues: Collection[SlotQueue]) -> bool:
        """Return whether one of the queues is at its limit."""
        suspects = self._at_limit(queues)
        if suspects:
            self.note(self._measure(suspects))
        return bool(self._at_limit(suspects))

    def wait_for(self, queues: Collection[SlotQueue]) -> None:
        """Block until each of the queues is below its limit.

        Raises:
            Unavailable: after `close`.
        """
        self._check_open()
        while self.full(queues):
            self._wait(PAUSE)
            self._check_open()

    def close(self) -> None:
        """Wake all waiters; nothing can be published any more."""
        self._closed.set()

    def _at_limit(self, queues: Collection[SlotQueue]) -> list[SlotQueue]:
        if not self._limit:
            return []
        return [queue for queue in queues if self._known.get(queue, 0) >= self._limit]

    def _check_open(self) -> None:
        if self._closed.is_set():
            raise Unavailable("the message queue was closed by this process")
