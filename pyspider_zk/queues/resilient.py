"""Resilient queues: pyspider's own, which tolerate outages of the message queue.

pyspider's components handle empty and full queues well, but crash, or flood the log, on errors of
the client library. So one that is away appears full to writers, and empty to readers (`Consumer`),
and `BackOff` logs the real state.
"""

import copy
import logging
import queue
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any, NamedTuple, TypeVar

from pyspider.message_queue.redis_queue import RedisQueue

from pyspider_zk.errors import Unavailable, brief
from pyspider_zk.queues.back_off import BackOff
from pyspider_zk.queues.codec import pack
from pyspider_zk.queues.redis_link import RedisLink, target_of
from pyspider_zk.queues.redis_list import RedisList, check_size, first_call
from pyspider_zk.queues.redis_typed_keys import TypedKeys

FOREVER = float("inf")

log = logging.getLogger(__name__)

Answer = TypeVar("Answer")
Asking = Callable[[], AbstractContextManager[Any]]


class QueueAccess:
    """The way to one of pyspider's queues.

    Threads: those that the queue itself allows.

    Args:
        inner: any queue with the methods of `queue.Queue` that pyspider uses.
        back_off: of this process.

    Attributes:
        queue: the queue; one in Redis with few retries and short time-outs. How long pyspider's
            waits depends on the client library's version: ten seconds, or forever.
        keys: the way to its Redis; None if it is elsewhere.
    """

    def __init__(self, inner: Any, back_off: BackOff) -> None:
        self.queue = inner
        self.keys: TypedKeys | None = None
        self.asking: Asking = _sockets_only
        self._back_off = back_off
        if isinstance(inner, RedisQueue):
            link = RedisLink(target_of(inner), retries=1)
            self.asking = link.client
            self.keys = TypedKeys(link)
            self.queue = copy.copy(inner)
            self.queue.redis = RedisList(self.keys)

    def ask(self, question: Callable[[], Answer], away: type[Exception]) -> Answer:
        """Return the result; raise `away` if there is none, or if it is too early to try again."""
        if self._back_off.resting:
            raise away
        try:
            with self.asking():
                answer = question()
        except Unavailable as error:
            self._back_off.failed(error)
            raise away from None
        except (queue.Empty, queue.Full):
            self._back_off.answered()
            raise
        self._back_off.answered()
        return answer

    def __str__(self) -> str:
        return str(getattr(self.queue, "name", type(self.queue).__name__))


class ResilientQueue:
    """One of pyspider's queues, to put messages in; while it is unavailable it appears full.

    Threads: those that the queue itself allows.

    Args:
        inner: any queue with the methods of `queue.Queue` that pyspider uses.
        back_off: of this process.

    Attributes:
        sent: how many messages it took from us.
        takes_packed: whether ``put_packed`` takes bytes; other kinds of queues encode themselves.
    """

    Full = queue.Full

    def __init__(self, inner: Any, back_off: BackOff) -> None:
        self._access = QueueAccess(inner, back_off)
        self._inner = self._access.queue
        self.takes_packed = self._access.keys is not None
        self._back_off = back_off
        self.sent = 0

    def put_nowait(self, body: Any) -> None:
        """Append a message.

        Raises:
            queue.Full: there is no room, or the message queue is unavailable.
        """
        self._access.ask(partial(self._inner.put_nowait, body), queue.Full)
        self.sent += 1

    def await_room(self, until: float) -> None:
        """Wait for a moment, until there may be room.

        Args:
            until: by ``time.monotonic``.

        Raises:
            queue.Full: it is later than that.
            Unavailable: this process ends and the message queue is still unavailable or full.
        """
        left = until - time.monotonic()
        if left <= 0:
            raise queue.Full
        self._back_off.wait(left)

    def packed(self, body: Any) -> Any:
        """Return a message for ``put_packed``.

        Raises:
            Exception: it cannot be encoded, as ``put_nowait`` would say.
        """
        if not self.takes_packed:
            return body
        raw = pack(body)
        check_size(raw)
        return raw

    def put_packed(self, messages: Sequence[Any]) -> int:
        """Append messages in few calls; return how many of them need not come again.

        Those found room, or the queue cannot encode them, which is logged.
        """
        if self.takes_packed:
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
                pushed, _ = self._access.ask(push, queue.Full)
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
            with self._access.asking():
                return bool(
                    self._inner.full()
                )  # is no sign of life: without a limit no request is sent
        except Unavailable as error:
            self._back_off.failed(error)
            return True

    def __str__(self) -> str:
        return str(self._access)


class SendBuffer:
    """Buffer in front of a queue: messages are kept in it until they are sent, many in one call.

    All arrives in order. Threads: one.
    """

    def __init__(self, queue_: ResilientQueue) -> None:
        self._queue = queue_
        self._kept: deque[_KeptMessage] = deque()
        self.kept_bytes = 0

    def put(self, body: Any, sent: Callable[[], object] = lambda: None) -> None:
        """Keep a message for ``send``.

        Args:
            sent: called once it is in the queue.

        Raises:
            Exception: it cannot be encoded.
            BadMessage: it is too large.
        """
        packed = pack(body)
        check_size(packed)  # raises here, where the culprit is still known
        message = packed if self._queue.takes_packed else body
        self._kept.append(_KeptMessage(message, len(packed), sent))
        self.kept_bytes += len(packed)

    def send(self) -> bool:
        """Send kept messages as far as there is room; return whether nothing is left."""
        if self._kept:
            for _ in range(self._queue.put_packed([each.message for each in self._kept])):
                each = self._kept.popleft()
                self.kept_bytes -= each.size
                each.sent()
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
        while not self.send():
            self._queue.await_room(until)

    @property
    def kept(self) -> int:
        """The number of messages that are not sent yet."""
        return len(self._kept)


class _KeptMessage(NamedTuple):
    message: Any
    size: int
    sent: Callable[[], object]


def _named(body: Any) -> str:
    """Return what a message is called in the log."""
    if not isinstance(body, dict):
        return f"a message, a {type(body).__name__},"
    return f"task {body.get('project')}:{body.get('taskid')}"


@contextmanager
def _sockets_only() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise Unavailable(f"the message queue: {error}") from None
