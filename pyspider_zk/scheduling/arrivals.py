"""Arrivals of messages: which slot queues to read, and whether the inbox, in this round."""

import time
from collections.abc import Callable, Collection
from functools import partial

from pyspider_zk.cluster.ownership import Fence
from pyspider_zk.errors import Unavailable
from pyspider_zk.loop import Loop
from pyspider_zk.queues.api import WakeUps
from pyspider_zk.queues.names import SlotQueue

LISTEN = 2.0
"""Seconds that one wait for wake-ups lasts at most."""

READ_INTERVAL = 1.0
"""Seconds until all slot queues are read again, woken or not."""

INBOX_INTERVAL = 0.5
"""Seconds between two looks into the inbox, of which nobody wakes us."""

HEAD_START = 0.003
"""Seconds that the loop which was woken runs alone: Python runs one thread at a time, and to listen
again takes as long as to read the message."""

AWAY_PAUSE = 0.5
"""Seconds until a message queue that is away is listened to again."""


class Arrivals:
    """Listener for messages of the held slots, with its own thread.

    Reading all queues takes several calls, and ten rounds a second find nothing most of the time.
    Who is woken knows which one to read.

    Threads: ``start``, ``stop``, ``due`` and ``is_inbox_due`` belong to the scheduler loop.

    Args:
        post: has a call made by the loop.
        wake: called when there is something to read; must not block.
        clock: in seconds.
    """

    def __init__(
        self,
        wake_ups: WakeUps,
        fence: Fence,
        post: Callable[[Callable[[], object]], object],
        wake: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._wake_ups = wake_ups
        self._fence = fence
        self._post = post
        self._wake = wake
        self._clock = clock
        self._loop = Loop("arrivals", self.listen)
        self._woken: set[SlotQueue] = set()
        self._due = self._inbox_due = float("-inf")

    def start(self) -> None:
        """Begin to listen."""
        self._loop.start()

    def stop(self) -> None:
        """Stop listening; does not wait for a wait that is in progress."""
        self._loop.end()

    def due(self) -> Collection[SlotQueue] | None:
        """Return which queues to read now, None for all, and count them as read."""
        woken, self._woken = self._woken, set()
        now = self._clock()
        if now < self._due:
            return woken
        self._due = now + READ_INTERVAL
        return None

    def is_inbox_due(self) -> bool:
        """Return whether to look into the inbox now, and count it as looked into."""
        now = self._clock()
        if now < self._inbox_due:
            return False
        self._inbox_due = now + INBOX_INTERVAL
        return True

    def listen(self) -> float:
        """Wait for messages of our slots; return how many seconds to pause afterwards."""
        try:
            queues = self._wake_ups.wait(LISTEN)
        except Unavailable:
            return AWAY_PAUSE  # the scheduler loop logs it
        ours = {(kind, slot) for kind, slot in queues if slot in self._fence.held}
        if ours:
            self._post(partial(self._note, ours))
            self._wake()
            return HEAD_START  # what comes meanwhile is heard then: the loop works, and may rest
        return 0

    def _note(self, queues: set[SlotQueue]) -> None:
        self._woken |= queues
