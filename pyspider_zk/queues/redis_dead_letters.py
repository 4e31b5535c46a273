"""The dead letters in Redis: one stream, whose entries name the queue they were found in."""

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pyspider_zk.limits import MOST_SLOTS
from pyspider_zk.queues import caps
from pyspider_zk.queues.api import DeadLetter
from pyspider_zk.queues.names import DEAD_LETTERS, QueueKind, ready_key
from pyspider_zk.queues.redis_typed_keys import TypedKeys, script

BATCH = 100  # letters per round trip
FOREIGN = "is no dead letter of ours: it cannot be put back, only dropped"

log = logging.getLogger(__name__)

# Redis refuses a whole command because of one invalid id.
_TAG = re.compile(r"\d{1,20}-\d{1,20}", re.ASCII)
_LETTERS = {DEAD_LETTERS: "stream"}
_REPLAY, _TRIM = script("replay"), script("trim_dead_letters")


class RedisDeadLetters:
    """The dead letters of `SlotQueues`. Threads: any."""

    def __init__(self, keys: TypedKeys) -> None:
        self._keys = keys

    def count(self) -> int:
        """See `SlotQueues.dead`."""
        return int(self._keys.run(_LETTERS, lambda it: it.xlen(DEAD_LETTERS)))

    def trim(self) -> None:
        """Drop the oldest while all together are too large; one round trip."""
        if dropped := self._keys.eval(_TRIM, _LETTERS, caps.DEAD):
            told = "dropped the oldest %d dead letters: all together may have %d bytes"
            log.warning(told, dropped, caps.DEAD)

    def latest(self, limit: int, skipped: int) -> list[DeadLetter]:
        """See `SlotQueues.dead_letters`."""
        last = "+"
        while page := self._before(last, min(skipped, BATCH)):
            last, skipped = f"({page[-1][0].decode()}", skipped - len(page)
        entries = [] if skipped > 0 else self._before(last, limit)
        return [_letter(tag, fields) for tag, fields in entries]

    def _before(self, last: str, limit: int) -> list[Any]:
        if limit < 1:
            return []  # 0 means no limit to Redis
        page: list[Any] = self._keys.run(
            _LETTERS, lambda it: it.xrevrange(DEAD_LETTERS, last, count=limit)
        )
        return page

    def tags(self, until: str | None) -> list[str]:
        """See `SlotQueues.dead_letter_tags`."""
        found: list[str] = []
        while page := self._page(f"({found[-1]}" if found else "-", until or "+"):
            found += [tag.decode() for tag, _ in page]
        return found

    def _page(self, first: str, last: str) -> list[Any]:
        page: list[Any] = self._keys.run(
            _LETTERS, lambda it: it.xrange(DEAD_LETTERS, first, last, count=BATCH)
        )
        return page

    def replay(self, tags: Iterable[str]) -> int:
        """See `SlotQueues.replay`; two round trips for each hundred."""
        return sum(self._replay(batch) for batch in _batches(tags))

    def discard(self, tags: Iterable[str]) -> int:
        """See `SlotQueues.discard`; one round trip for each hundred."""
        return sum(map(self._discard, _batches(tags)))

    def _discard(self, tags: Sequence[str]) -> int:
        return int(self._keys.run(_LETTERS, lambda it: it.xdel(DEAD_LETTERS, *tags)))

    def _replay(self, tags: Sequence[str]) -> int:
        found = self._keys.pipelined(
            _LETTERS, lambda pipe: [pipe.xrange(DEAD_LETTERS, tag, tag) for tag in tags]
        )
        letters = [_letter(tag, fields) for entries in found for tag, fields in entries]
        moves = [(each, _types(each)) for each in letters if each.reason != FOREIGN]

        def put_back(pipe: Any) -> None:
            for letter, types in moves:
                slot = [] if letter.slot is None else [letter.slot]
                pipe.eval(_REPLAY, len(types), *types, letter.tag, *slot)

        types = {key: kind for _, types in moves for key, kind in types.items()}
        return sum(self._keys.pipelined(types, put_back))


def _types(letter: DeadLetter) -> dict[str, str]:
    """Return the keys that a letter comes from and goes back to, with their types."""
    target = {letter.queue: "list" if letter.slot is None else "stream"}
    return {**_LETTERS, **target, ready_key(letter.kind): "set"}


def _batches(tags: Iterable[str]) -> list[list[str]]:
    usable = [tag for tag in dict.fromkeys(tags) if _TAG.fullmatch(tag)]
    return [usable[start : start + BATCH] for start in range(0, len(usable), BATCH)]


def _letter(tag: bytes, fields: Mapping[bytes, bytes]) -> DeadLetter:
    """Return a letter; a foreign entry is shown as one, but cannot be put back."""
    name, time = tag.decode(), seconds_of(tag)
    try:
        slot = fields.get(b"slot")
        if slot is not None and not 0 <= int(slot) < MOST_SLOTS:
            raise ValueError(slot)
        kind = QueueKind(fields[b"kind"].decode())
        reason = fields[b"reason"].decode(errors="replace")
        number = None if slot is None else int(slot)
        return DeadLetter(name, kind, number, reason, time, fields[b"body"])
    except (KeyError, ValueError):
        return DeadLetter(name, QueueKind.NEWTASK, None, FOREIGN, time, repr(fields).encode())


def seconds_of(tag: bytes) -> float:
    """Return when Redis took an entry, in seconds since the epoch, on its own clock."""
    return int(tag.partition(b"-")[0]) / 1000
