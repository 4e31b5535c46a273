"""Resilient queues: pyspider's own, which tolerate outages of the message queue.

pyspider's components handle empty and full queues well, but crash, or flood the log, on errors of
the client library. So an unavailable queue appears empty to readers and full to writers, and
`BackOff` logs the real state.
"""

import copy
import logging
import queue
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from typing import Any, TypeVar

import umsgpack  # type: ignore[import-untyped]  # ships no types
from pyspider.message_queue.redis_queue import RedisQueue

from pyspider_zk.errors import Unavailable, brief
from pyspider_zk.queues.back_off import BackOff
from pyspider_zk.queues.codec import pack
from pyspider_zk.queues.redis_link import RedisLink, target_of
from pyspider_zk.queues.redis_list import RedisList, check_size, first_call
from pyspider_zk.queues.redis_typed_keys import TypedKeys

POLL = 0.1  # seconds between two looks into a queue of a kind without wake-ups
LOOK = 0.5  # seconds of waiting before the queue, and the end of this process, is checked
FOREVER = float("inf")

log = logging.getLogger(__name__)

_UNDECODABLE = (
    umsgpack.UnpackException,
    RecursionError,
    TypeError,
    ValueError,
    OverflowError,
    MemoryError,
)

Answer = TypeVar("Answer")
Asking = Callable[[], AbstractContextManager[Any]]
Listen = Callable[[float], None]


class ResilientQueue:
    """One of pyspider's queues; it appears empty and full while the message queue is unavailable.

    Threads: those that the queue itself allows.

    Args:
        inner: any queue with the methods of `queue.Queue` that pyspider uses.
        back_off: of this process.

    Attributes:
        sent: how many messages it took from us.
    """

    Empty, Full = queue.Empty, queue.Full

    def __init__(self, inner: Any, back_off: BackOff) -> None:
        self._inner, self._asking, self._listen = _wrapped(inner)
        self._is_ours = self._inner is not inner
        self._back_off = back_off
        self.sent = 0

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """Return the oldest message; wait for one, `timeout` seconds at most.

        Raises:
            queue.Empty: there was none in time.
        """
        if not block:
            return self.get_nowait()
        until = time.monotonic() + (FOREVER if timeout is None else timeout)
        while (left := until - time.monotonic()) > 0 and not self._back_off.over:
            with suppress(queue.Empty):
                return self._get(min(left, LOOK))
            self._back_off.rest(left)
        raise queue.Empty

    def wait(self, seconds: float) -> None:
        """Wait until there may be a message, for that many seconds or ``LOOK`` at most.

        Threads: one; others may use the other methods meanwhile.
        """
        if self._listen is None:
            time.sleep(min(seconds, POLL))
            return
        with suppress(queue.Empty):
            self._ask(partial(self._listen, min(seconds, LOOK)), queue.Empty)
        self._back_off.rest(seconds)

    def get_nowait(self) -> Any:
        """Return the oldest message.

        Raises:
            queue.Empty: there is none, or the message queue is unavailable.
        """
        return self._ask(self._inner.get_nowait, queue.Empty)

    def put(self, body: Any, block: bool = True, timeout: float | None = None) -> None:
        """Append a message; wait for room, `timeout` seconds at most.

        Raises:
            queue.Full: there was none in time.
            Unavailable: this process ends and the message queue is still unavailable or full.
        """
        until = time.monotonic() + (FOREVER if timeout is None else timeout)
        while True:
            try:
                return self.put_nowait(body)
            except queue.Full:
                left = until - time.monotonic()
                if not block or left <= 0:
                    raise
            self._back_off.wait(left)

    def put_nowait(self, body: Any) -> None:
        """Append a message.

        Raises:
            queue.Full: there is no room, or the message queue is unavailable.
        """
        self._ask(partial(self._inner.put_nowait, body), queue.Full)
        self.sent += 1

    def packed(self, body: Any) -> Any:
        """Return a message for ``put_packed``.

        Raises:
            Exception: it cannot be encoded, as ``put_nowait`` would say.
        """
        if not self._is_ours:
            return body
        raw = pack(body)
        check_size(raw)
        return raw

    def put_packed(self, messages: Sequence[Any]) -> int:
        """Append messages in few calls; return how many of them need not come again.

        Those found room, or the queue cannot encode them, which is logged.
        """
        if self._is_ours:
            return self._put_all(messages)
        for count, body in enumerate(messages):
            try:
                self.put_nowait(body)
            except (queue.Full, Unavailable):
                return count
            except Exception as error:  # each kind of queue has its own
                log.error("%s cannot be sent to %s: %s", _named(body), self, brief(error))
        return len(messages)

    def _put_all(self, messages: Sequence[bytes]) -> int:
        put = 0
        while put < len(messages):
            some = first_call(messages[put:])
            push = partial(self._inner.redis.push, self._inner.name, some, self._inner.maxsize)
            try:
                pushed, _ = self._ask(push, queue.Full)
            except queue.Full:
                break
            put += pushed
            self.sent += pushed
            if pushed < len(some):
                break
        return put

    def full(self) -> bool:
        """Return whether there is no room, or the message queue is unavailable."""
        if self._back_off.resting:
            return True
        try:
            with self._asking():
                return bool(
                    self._inner.full()
                )  # is no sign of life: without a limit no request is sent
        except Unavailable as error:
            self._back_off.failed(error)
            return True

    def empty(self) -> bool:
        """Return whether there is no message, or the message queue is unavailable."""
        with suppress(queue.Empty):
            return bool(self._ask(self._inner.empty, queue.Empty))
        return True

    def qsize(self) -> int:
        """Return the number of messages.

        Raises:
            Unavailable: the message queue does not answer.
        """
        with self._asking():
            return int(self._inner.qsize())

    def _get(self, seconds: float) -> Any:
        if self._listen is None:
            return self._ask(partial(self._inner.get, timeout=seconds), queue.Empty)
        with suppress(queue.Empty):
            return self.get_nowait()
        self.wait(seconds)
        raise queue.Empty

    def _ask(self, question: Callable[[], Answer], away: type[Exception]) -> Answer:
        """Return the result; raise `away` if there is none, or if it is too early to try again."""
        if self._back_off.resting:
            raise away
        try:
            with self._asking():
                answer = question()
        except Unavailable as error:
            self._back_off.failed(error)
            raise away from None
        except (queue.Empty, queue.Full):
            self._back_off.answered()
            raise
        except _UNDECODABLE as error:
            if away is queue.Full:
                raise  # the message is at fault
            log.error("dropped a message of %s that cannot be decoded: %.200r", self, error)
            raise queue.Empty from None
        self._back_off.answered()
        return answer

    def __str__(self) -> str:
        return str(getattr(self._inner, "name", type(self._inner).__name__))


class SendBuffer:
    """Buffer in front of a queue; it never waits, but keeps messages and sends them later.

    All arrives in order. Threads: one.
    """

    def __init__(self, queue_: ResilientQueue) -> None:
        self._queue = queue_
        self._kept: deque[tuple[Any, int]] = deque()

    def put(self, body: Any) -> None:
        """Send a message, or keep it.

        Raises:
            umsgpack.PackException: it cannot be encoded.
            BadMessage: it is too large.
        """
        if self.send():
            with suppress(queue.Full):
                self._queue.put_nowait(body)
                return
        packed = umsgpack.packb(body)
        check_size(packed)  # raises here, where the culprit is still known
        self._kept.append((body, len(packed)))

    def send(self) -> bool:
        """Send kept messages as far as there is room; return whether nothing is left."""
        with suppress(queue.Full):
            while self._kept:
                self._queue.put_nowait(self._kept[0][0])
                self._kept.popleft()
        return not self._kept

    def full(self) -> bool:
        """Send the kept messages; return whether there was too little room, or is none left."""
        return not self.send() or self._queue.full()

    def flush(self, timeout: float | None = None) -> None:
        """Wait until all kept messages are sent, `timeout` seconds at most.

        Raises:
            queue.Full: it could not be sent in time.
            Unavailable: this process ends and the message queue is still unavailable or full.
        """
        until = time.monotonic() + (FOREVER if timeout is None else timeout)
        while self._kept:
            self._queue.put(self._kept[0][0], timeout=until - time.monotonic())
            self._kept.popleft()

    @property
    def kept(self) -> int:
        """The number of messages that are not sent yet."""
        return len(self._kept)

    @property
    def kept_bytes(self) -> int:
        """The bytes of the messages that are not sent yet."""
        return sum(size for _, size in self._kept)


def _named(body: Any) -> str:
    """Return what a message is called in the log."""
    if not isinstance(body, dict):
        return f"a message, a {type(body).__name__},"
    return f"task {body.get('project')}:{body.get('taskid')}"


def _wrapped(inner: Any) -> tuple[Any, Asking, Listen | None]:
    """Return a queue with time-outs and few retries, what translates its errors, and how to wait.

    How long pyspider's queue in Redis waits and retries depends on the client library's version:
    ten seconds, or forever. Its caller may be an event loop.
    """
    if not isinstance(inner, RedisQueue):
        return inner, _sockets_only, None
    link = RedisLink(target_of(inner), retries=1)
    ours = copy.copy(inner)
    ours.redis = RedisList(TypedKeys(link))
    return ours, link.client, partial(ours.redis.wait, ours.name)


@contextmanager
def _sockets_only() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise Unavailable(f"the message queue: {error}") from None
