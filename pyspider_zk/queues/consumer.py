"""Consumer of a queue between pyspider's components: takes messages, and acknowledges them.

What a process has taken stays in Redis, under its name, until the next stage has it. So nothing is
lost with a process: what it had goes back to the queue, at once when it ends in order, and soon
after its death (``scheduling/redelivery.py``).
"""

import logging
import queue
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, Protocol

import umsgpack  # type: ignore[import-untyped]  # ships no types

from pyspider_zk.errors import BadMessage
from pyspider_zk.queues.back_off import BackOff
from pyspider_zk.queues.codec import CODING_ERRORS
from pyspider_zk.queues.packs import who
from pyspider_zk.queues.redis_taken import RawMessage, RedisTaken
from pyspider_zk.queues.resilient import QueueAccess

POLL = 0.1  # seconds between two looks into a queue of a kind without wake-ups
LOOK = 0.5  # seconds of waiting before the queue, and the end of this process, is checked
FOREVER = float("inf")
IN_A_ROW = 1000  # bad messages that one call passes over
AGAIN = 0.1  # seconds until a queue that failed is read again
MOST_AT_ONCE = 10  # messages that ``get`` takes in one call
SOON = 0.05  # seconds in which these are done, or it takes fewer: others could have them
MOST_DEATHS = 3
"""Processes that may die of a message, or with it, until no other begins it."""

_UNDECODABLE = (umsgpack.UnpackException, MemoryError, *CODING_ERRORS)


class Taken(NamedTuple):
    """A message that was taken, and its number."""

    number: int
    body: Any


class MessageSource(Protocol):
    """Where a consumer takes messages from; see ``RedisTaken``."""

    def take(self, most: int, done: Sequence[int]) -> list[RawMessage]:
        """Return the next messages."""

    def give_back(self, *, died: bool) -> int:
        """Put what is taken back; it may be what the taker has died of."""


class Consumer:
    """Consumer of one of pyspider's queues; while that is unavailable it appears empty.

    Messages that its process cannot use are logged and passed over.

    Threads: one; another may ``wait`` meanwhile.

    Args:
        inner: the queue; one in memory, which has no other consumers, keeps what is taken here.
        back_off: of this process.
        check: raises ``BadMessage`` for an unusable message.
        logger: logs each of these, in one line.
        name: of this consumer; no other process uses it at the same time.
        before: called before more is taken, when all that ``get`` returned is done: the next stage
            must get what came of it; raises ``queue.Empty`` if nothing more is to be taken.
        refuse: is given a message that several processes have died with, and the reason.
        deaths: how many.
        sleep: sleeps that many seconds after an error of ``get``, or of ``before``: pyspider's
            loops try again at once, forever.
        clock: seconds that only grow.

    Attributes:
        passed_over: how many there were.
    """

    Empty, Full = queue.Empty, queue.Full

    def __init__(
        self,
        inner: Any,
        back_off: BackOff,
        check: Callable[[Any], None],
        logger: logging.Logger,
        name: str = "",
        *,
        before: Callable[[], object] = lambda: None,
        refuse: Callable[[Any, str], object] = lambda _body, _reason: None,
        deaths: int = MOST_DEATHS,
        sleep: Callable[[float], object] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._access = QueueAccess(inner, back_off)
        keys = self._access.keys
        self._source: MessageSource = (
            RedisTaken(keys, inner.name, name) if keys else _InMemory(inner)
        )
        self._decode = umsgpack.unpackb if keys else _same
        self._back_off = back_off
        self._check = check
        self._logger = logger
        self._before = before
        self._refuse = refuse
        self._deaths = deaths
        self._sleep = sleep
        self._clock = clock
        self._most = 1
        self._began: float | None = None
        self._ready: deque[Taken] = deque()  # taken, and for ``get`` to return
        self._returned: list[int] = []
        self._taken: set[int] = set()
        self._done: list[int] = []
        self._found: list[RawMessage] = []  # by a call that was to tell something
        self.passed_over = 0

    # -- taking -----------------------------------------------------------------------------------

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """Return the oldest usable message; see ``queue.Queue.get``.

        Some are taken in one call, and come one by one, as long as they are done soon.

        Raises:
            queue.Empty: there was none in time.
        """
        if not self._ready:
            self._adapt()
            self._ready.extend(self.get_some(self._most, timeout if block else 0))
            self._began = self._clock()
        message = self._ready.popleft()
        self._returned.append(message.number)
        return message.body

    def get_nowait(self) -> Any:
        """Return the oldest usable message.

        Raises:
            queue.Empty: there is none, or the message queue is unavailable.
        """
        return self.get(block=False)

    def _adapt(self) -> None:
        """Take more at once next time if the last ones were done soon, otherwise fewer."""
        if self._began is not None:
            is_soon = self._clock() - self._began < SOON
            self._most = min(2 * self._most, MOST_AT_ONCE) if is_soon else max(1, self._most // 2)
        self._began = None

    def get_some(self, most: int, timeout: float | None) -> list[Taken]:
        """Return the oldest usable messages, ``most`` of them at most; wait until there is one.

        Raises:
            queue.Empty: there was none in time.
        """
        until = time.monotonic() + (FOREVER if timeout is None else timeout)
        try:
            self._before()
            while not self._back_off.over:
                if found := self.take(most):
                    return found
                left = until - time.monotonic()
                if left <= 0:
                    break
                self.wait(left)
        except queue.Empty:
            raise
        except Exception:
            self._sleep(AGAIN)
            raise
        raise queue.Empty

    def take(self, most: int) -> list[Taken]:
        """Return the oldest usable messages, as many as there are; nothing blocks.

        Args:
            most: how many, at most; 0: only what was taken under this name before, by a process
                that died or in a call without a reply.
        """
        for _ in range(IN_A_ROW):
            found = self._take(most)
            self._taken.update(each.number for each in found)
            usable = [Taken(each.number, body) for each in found for body in self._usable(each)]
            if usable or not found:
                return usable
        return []

    def _take(self, most: int) -> list[RawMessage]:
        if most and self._found:
            found, self._found = self._found, []
            return found
        done = self._done[:]
        try:
            found = self._access.ask(partial(self._source.take, most, done), queue.Empty)
        except queue.Empty:
            return []
        self._done = self._done[len(done) :]
        return found

    def _usable(self, message: RawMessage) -> list[Any]:
        """Return the body of a message, if it is usable; otherwise it is done."""
        try:
            body = self._decode(message.raw)
        except _UNDECODABLE as error:
            self._logger.error("dropped a message of %s: it cannot be decoded: %.200r", self, error)
            self.acknowledge(message.number)
            return []
        try:
            self._check(body)
        except BadMessage as error:
            self._pass_over(message, body, error)
            return []
        if message.deaths >= self._deaths:
            reason = f"{message.deaths} processes have died of it, or with it"
            self._refuse(body, reason)  # first: if that fails, the message is not done
            self._pass_over(message, body, reason)
            return []
        return [body]

    def _pass_over(self, message: RawMessage, body: Any, why: object) -> None:
        self.passed_over += 1
        told = "%s: passed over a message %s, the %d. of no use: %s"
        self._logger.error(told, self, who(body), self.passed_over, why)
        self.acknowledge(message.number)

    def wait(self, seconds: float) -> None:
        """Wait until there may be a message, for that many seconds or ``LOOK`` at most."""
        if self._access.keys is None:
            time.sleep(min(seconds, POLL))
        else:
            listen = partial(self._access.queue.redis.wait, self._access.queue.name)
            with suppress(queue.Empty):
                self._access.ask(partial(listen, min(seconds, LOOK)), queue.Empty)
        self._back_off.rest(seconds)

    # -- handing over -----------------------------------------------------------------------------

    def acknowledge(self, *numbers: int) -> None:
        """Note that the next stage has these messages; it is told with the next ``take``."""
        known = self._taken.intersection(numbers)
        self._taken -= known
        self._done += known

    def leave(self) -> None:
        """Leave undone what ``get`` returned last, if it did: it is given back in the end."""
        del self._returned[-1:]

    def done(self) -> None:
        """Note that the next stage has all that ``get`` returned."""
        self.acknowledge(*self._returned)
        self._returned.clear()

    def settle(self) -> None:
        """Tell now what was acknowledged, if anything was."""
        if self._done:
            self._found += self._take(0)

    def give_back(self, *, died: bool = False) -> int:
        """Put what is not acknowledged back to where it was; return how many messages that are.

        While the message queue is unavailable it stays where it is, and goes back later.

        Args:
            died: a process before this one did, of what this one had taken under its name.
        """
        self.settle()
        try:
            count = self._access.ask(partial(self._source.give_back, died=died), queue.Empty)
        except (queue.Empty, queue.Full):
            if self._taken:
                self._logger.warning("%d messages of %s go back later", len(self._taken), self)
            return 0
        for each in (self._taken, self._found, self._ready, self._returned):
            each.clear()
        return count

    def __str__(self) -> str:
        return str(self._access)


class _InMemory:
    """Source that keeps what was taken from a queue of this process. Threads: one."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self._last = 0
        self._taken: dict[int, Any] = {}

    def take(self, most: int, done: Sequence[int]) -> list[RawMessage]:
        for number in done:
            self._taken.pop(number, None)
        found: list[RawMessage] = []
        while len(found) < most:
            try:
                body = self._inner.get_nowait()
            except queue.Empty:
                break
            self._last += 1
            self._taken[self._last] = body
            found.append(RawMessage(self._last, body, 0))
        return found

    def give_back(self, *, died: bool) -> int:  # noqa: ARG002 - nothing outlives its taker
        """Put what is taken at the end of the queue, as far as there is room."""
        count = 0
        while self._taken:
            number = next(iter(self._taken))
            self._inner.put_nowait(self._taken[number])
            del self._taken[number]
            count += 1
        return count


def _same(body: Any) -> Any:
    return body
