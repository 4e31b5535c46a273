"""List in Redis that messages are put in once, also if a reply was lost."""

import os
from collections import Counter, deque
from collections.abc import Sequence
from hashlib import blake2b
from threading import Lock
from typing import Any
from uuid import uuid4

from pyspider_zk.errors import BadMessage
from pyspider_zk.queues import caps
from pyspider_zk.queues.codec import pack
from pyspider_zk.queues.names import wake_ups_key
from pyspider_zk.queues.redis_typed_keys import TypedKeys, script
from pyspider_zk.queues.redis_wake_ups import LATEST, RedisWakeUps
from pyspider_zk.tasks.writes import batches

KEPT = 3600  # seconds that Redis remembers a caller
BATCH = 200  # messages of a call, at most
CALL = 2**20  # bytes of a call of several messages, at most: it must be answered in time
LATE = 5 * BATCH  # messages after which no earlier call can arrive
MOST = 5 * BATCH  # messages of a process that Redis may have received without a reply

_PUSH = script("push")


class RedisList:
    """The commands of redis-py that pyspider's queue sends to put, and waiting for a message.

    A message is put once, even if Redis did it and the reply was lost: Redis recognizes the
    repeated call. Threads: any; one after the other.
    """

    def __init__(self, keys: TypedKeys) -> None:
        self._keys = keys
        self._lock = Lock()
        self._caller = _Caller()
        self._wake_ups: dict[str, RedisWakeUps] = {}

    def llen(self, name: str) -> int:
        """Return the number of messages."""
        return int(self._keys.run({name: "list"}, lambda it: it.llen(name)))

    def rpush(self, name: str, raw: bytes) -> int:
        """Append a message; return the number of messages.

        A message that is sent again after a call without a reply is the same message.

        Raises:
            BadMessage: it is larger than readers accept.
            Unavailable: no reply; it may or may not be in the list.
        """
        check_size(raw)
        return self.push(name, [raw])[1]

    def push(self, name: str, messages: Sequence[bytes], limit: int = 0) -> tuple[int, int]:
        """Append messages in one call, as long as the list is shorter than ``limit`` (0: any).

        Args:
            messages: ``BATCH`` at most; see ``first_call``.

        Returns:
            How many of them are appended, and how many messages there are now.

        Raises:
            Unavailable: no reply; as with ``rpush``.
        """
        with self._lock:
            caller = self._present_caller()
            numbers = caller.numbers_of(messages)
            both = pack(list(numbers)), pack(caller.spare(len(messages)))
            try:
                pushed, length = self._call(_PUSH, name, KEPT, LATEST, limit, *both, *messages)
                caller.answered(numbers[:pushed])
            except BaseException:  # also of a signal: Redis may have received them
                caller.unanswered(messages, numbers)
                raise
        return int(pushed), int(length)

    def wait(self, name: str, seconds: float) -> None:
        """Return when a list that was empty got a message, or after so many seconds.

        Nothing is taken. A message that came after the last call to this method, or that a stock
        component put, may be there already. Threads: one at a time; others may push meanwhile.

        Raises:
            Unavailable: no answer.
        """
        if name not in self._wake_ups:
            self._wake_ups[name] = RedisWakeUps(self._keys, wake_ups_key(name))
        self._wake_ups[name].wait(seconds)

    def _call(self, text: str, name: str, *what: bytes | int) -> Any:
        key, wake_ups = f"{name}:{self._caller.name}", wake_ups_key(name)
        return self._keys.eval(text, {name: "list", key: "hash", wake_ups: "stream"}, *what)

    def _present_caller(self) -> "_Caller":
        """Return the caller: a forked process is another one."""
        if self._caller.pid != os.getpid():
            self._caller = _Caller()
        return self._caller


class _Caller:
    """Calling process, with numbers of the messages that it puts; a repeated one keeps its number.

    Only messages of a call without a reply can be repeated. They are recognized by their digests;
    as long as every call is answered, none is computed.
    """

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.name = uuid4().hex[:12]
        self._last = 0
        self._open: dict[bytes, int] = {}
        self._answered: deque[int] = deque()

    def numbers_of(self, messages: Sequence[bytes]) -> Sequence[int]:
        """Return the numbers of the messages of a call."""
        if self._open:
            return [self._open.get(key) or self._next() for key in _keys(messages)]
        before = self._last
        self._last += len(messages)
        return range(before + 1, self._last + 1)

    def _next(self) -> int:
        self._last += 1
        return self._last

    def answered(self, numbers: Sequence[int]) -> None:
        """Record that messages were put.

        The others of their call found no room. One that an earlier call gave its number keeps it:
        Redis may have received it.
        """
        self._answered.extend(numbers)
        if self._open:
            put = set(numbers)
            self._open = {key: each for key, each in self._open.items() if each not in put}

    def unanswered(self, messages: Sequence[bytes], numbers: Sequence[int]) -> None:
        """Record that a call got no reply."""
        for key, number in zip(_keys(messages), numbers, strict=True):
            self._open.setdefault(key, number)
            if len(self._open) > MOST:
                del self._open[next(iter(self._open))]

    def spare(self, most: int) -> list[int]:
        """Return numbers that Redis need not remember, one more than so many at most.

        A call may arrive after its repetition was answered, so some are remembered for longer.
        """
        count = min(most + 1, max(0, len(self._answered) - LATE + 1))
        return [self._answered.popleft() for _ in range(count)]


def _keys(messages: Sequence[bytes]) -> list[bytes]:
    """Return by what messages are recognized; equal ones of a call are different messages."""
    seen: Counter[bytes] = Counter()
    keys = []
    for raw in messages:
        digest = blake2b(raw, digest_size=16).digest()
        keys.append(digest + bytes(str(seen[digest]), "ascii"))
        seen[digest] += 1
    return keys


def first_call(messages: Sequence[bytes]) -> Sequence[bytes]:
    """Return the first messages, as many as one call may have; at least one, if there is any."""
    return next(batches(messages, len, BATCH, CALL), [])


def check_size(raw: bytes) -> None:
    """Check that a message may be sent.

    Raises:
        BadMessage: it is too large.
    """
    if len(raw) > caps.PAGE:
        raise BadMessage(f"has {len(raw)} bytes, the limit is {caps.PAGE}")
