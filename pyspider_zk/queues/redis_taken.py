"""Messages in Redis that a process has taken from a list and that nobody else has yet.

They stay in a hash of their own, by number, until the taker says that the next stage has them. If
it dies, they go back to the list from there.
"""

import logging
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgpack

from pyspider_zk.queues import caps
from pyspider_zk.queues.codec import CODING_ERRORS, pack
from pyspider_zk.queues.names import (
    WORK_QUEUES,
    deaths_key,
    taken_key,
    takers_key,
    wake_ups_key,
)
from pyspider_zk.queues.redis_typed_keys import TypedKeys, script
from pyspider_zk.queues.redis_wake_ups import LATEST

log = logging.getLogger(__name__)

KEPT = 3600  # seconds that Redis remembers a taker that has nothing; a late call may come
CALL = 2**20  # bytes after which a call takes no more
DEATHS_KEPT = 24 * 3600  # seconds that Redis remembers which messages takers died with

BEGINNING = 2**16  # bytes of a message in which its task is looked for
LOOKED_AT = 2**26  # bytes of a queue that are looked at, about

TASKS, PAGES, _ = WORK_QUEUES
FETCHED = (TASKS, PAGES)
"""The queues of tasks whose status packs are to come, in the order in which a task goes."""

_TAKE, _GIVE_BACK, _UNDER_WAY = script("take"), script("give_back"), script("under_way")


class RawMessage(NamedTuple):
    """A message that was taken.

    Attributes:
        number: of its taker's.
        raw: its bytes.
        deaths: how many takers died before they were done with it.
    """

    number: int
    raw: bytes
    deaths: int


class RedisTaken:
    """What one taker has of one list. Threads: one.

    A call without a reply may have been done. The next one gets what that took, once; also if it is
    another process's with the same name, whose predecessor has died.

    Args:
        queue: the list.
        taker: the name of this taker, which no other uses at the same time.
    """

    def __init__(self, keys: TypedKeys, queue: str, taker: str) -> None:
        self._keys = keys
        self._queue = queue
        self._taker = taker
        self._next = 1

    def take(self, most: int, done: Sequence[int]) -> list[RawMessage]:
        """Return the next messages; one that is too large is dropped by the server.

        Args:
            most: how many, at most; 0: only what an earlier call took without being answered.
            done: the numbers of messages that somebody else has by now.

        Raises:
            Unavailable: no reply; make the same call again.
        """
        last, numbers, raws, deaths, dropped = self._keys.eval(
            _TAKE,
            _keys_of(self._queue, self._taker),
            self._taker,
            self._next,
            most,
            CALL,
            caps.PAGE,
            KEPT,
            pack(list(done)),
        )
        self._next = max(self._next, last + 1)
        for size in dropped:
            log.error(
                "dropped a message of %s: %d bytes, the limit is %d", self._queue, size, caps.PAGE
            )
        return [RawMessage(*each) for each in zip(numbers, raws, deaths, strict=True)]

    def give_back(self, *, died: bool) -> int:
        """Put what is taken back to where it was; see ``give_back``."""
        return give_back(self._keys, self._queue, self._taker, died=died)


def give_back(keys: TypedKeys, queue: str, taker: str, *, died: bool) -> int:
    """Put what somebody has taken back to where it was; return how many messages that are.

    Args:
        died: whether the taker did, maybe of one of them.

    Raises:
        Unavailable: no reply; it may have been done.
    """
    types = {**_keys_of(queue, taker), wake_ups_key(queue): "stream"}
    return int(keys.eval(_GIVE_BACK, types, taker, int(died), DEATHS_KEPT, LATEST))


def _keys_of(queue: str, taker: str) -> dict[str, str]:
    return {
        queue: "list",
        taken_key(queue, taker): "hash",
        takers_key(queue): "set",
        deaths_key(queue): "hash",
    }


class RedisWorkQueues:
    """`WorkQueues` in Redis."""

    def __init__(self, keys: TypedKeys) -> None:
        self._keys = keys

    def lengths(self) -> dict[str, int]:
        """See `WorkQueues.lengths`."""
        types = dict.fromkeys(WORK_QUEUES, "list")
        lengths = self._keys.pipelined(types, lambda pipe: [pipe.llen(each) for each in types])
        return dict(zip(WORK_QUEUES, lengths, strict=True))

    def takers(self, queue: str) -> set[str]:
        """See `WorkQueues.takers`."""
        key = takers_key(queue)
        found = self._keys.run({key: "set"}, lambda it: it.smembers(key))
        return {name.decode(errors="replace") for name in found}

    def give_back(self, queue: str, taker: str) -> int:
        """See `WorkQueues.give_back`."""
        return give_back(self._keys, queue, taker, died=True)

    def under_way(self) -> list[dict[str, Any]]:
        """See `WorkQueues.under_way`.

        A task goes from one queue to the next, where it is before it leaves the first: so the first
        is looked at first.
        """
        found = [(raw, queue) for queue in FETCHED for raw in self._beginnings(queue)]
        tasks = (_task_of(raw, is_page=queue == PAGES) for raw, queue in found)
        return [task for task in tasks if isinstance(task, dict)]

    def _beginnings(self, queue: str) -> list[bytes]:
        types = {queue: "list", takers_key(queue): "set"}
        found: list[bytes] = self._keys.eval(
            _UNDER_WAY, types, BEGINNING, LOOKED_AT, taken_key(queue, "")
        )
        return found


def _task_of(raw: bytes, *, is_page: bool) -> object:
    """Return the task that a message is, or begins with; None if that is not whole, or junk."""
    unpacker = msgpack.Unpacker(raw=False, strict_map_key=False)
    unpacker.feed(raw)
    try:
        if is_page:
            unpacker.read_array_header()
        return unpacker.unpack()
    except (msgpack.UnpackException, *CODING_ERRORS):
        return None
