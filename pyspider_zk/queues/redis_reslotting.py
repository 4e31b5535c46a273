"""Reslotting in Redis: what belongs to slots moves to the slots of another number of them.

First all keys of the old slots are renamed, in one script, for the new ones have the same names.
From then on each thing moves in one step of its own. So whatever interrupts this, the rest is still
there under its old name, and the same calls go on with it. Nobody else may use the keys meanwhile.
"""

import heapq
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from pyspider_zk.errors import BadMessage
from pyspider_zk.projects.slots import slot_of
from pyspider_zk.queues import caps
from pyspider_zk.queues.api import Parked
from pyspider_zk.queues.codec import decode_record
from pyspider_zk.queues.names import (
    DEAD_LETTERS,
    PARKED_READY,
    QueueKind,
    parked_key,
    ready_key,
    record_key,
    slot_queue,
)
from pyspider_zk.queues.redis_link import RedisLink
from pyspider_zk.queues.redis_records import RedisSlotRecords
from pyspider_zk.queues.redis_typed_keys import TypedKeys, script
from pyspider_zk.queues.routing import RoutedMessage, route
from pyspider_zk.tasks.writes import batches

STATE = "reslotting"
"""The hash that exists while this is under way."""

PAGE = 50  # entries of one stream that are read at once
TAGS = 100_000  # of messages, in memory: their bodies are read when they move
AT_ONCE = 100  # moves per round trip
BYTES = 4 * 2**20  # of messages that move in one round trip, but for one that is larger
RECORDS = 128 * 2**20
"""Bytes of old records that are read at once, but for one that is larger.

Decoded they take five times as much memory. All new records are written anew for each such batch.
"""
_NEW_LETTERS = f"{STATE}:{DEAD_LETTERS}"

_BEGIN, _TAGS = script("begin_reslotting"), script("tags")
_MOVE, _MOVE_PARKED = script("reslot_message"), script("reslot_parked")


@dataclass(frozen=True)
class Reslotting:
    """A change of the number of slots that is under way.

    Attributes:
        before, after: the numbers.
        epoch: at which all new slots are vacant.
    """

    before: int
    after: int
    epoch: int


@dataclass(frozen=True)
class _OldMessage:
    """A message of an old slot queue.

    Attributes:
        size: bytes of its body.
    """

    kind: QueueKind
    slot: int
    tag: bytes
    size: int

    @property
    def stream(self) -> str:
        """Its queue's key."""
        return _old_stream(self.kind, self.slot)

    @property
    def age_order(self) -> tuple[int, int, bool]:
        """Sort key: the order of publication; of the same moment, new tasks come first."""
        time, _, number = self.tag.partition(b"-")
        return int(time), int(number), self.kind is QueueKind.STATUS


class RedisReslotting:
    """Moves what belongs to slots. One thread; blocks for as long as it takes."""

    def __init__(self, link: RedisLink) -> None:
        self._link = link
        self._keys = TypedKeys(link)
        self._records = RedisSlotRecords(self._keys)

    def under_way(self) -> Reslotting | None:
        """Return what was begun and not ended, None if nothing was.

        Raises:
            BadMessage: somebody else wrote it.
        """
        with self._link.client() as client:
            found: Any = client.hgetall(STATE)
        try:
            state = {name.decode(): int(value) for name, value in found.items()}
            return Reslotting(**state) if state else None
        except (TypeError, ValueError):
            raise BadMessage(f"Redis's key {STATE} holds {found!r:.100}: delete it") from None

    def begin(self, plan: Reslotting) -> None:
        """Rename all keys of the old slots, unless that was done."""
        names = [f"{kind.value}:" for kind in QueueKind]
        names += [key(0).removesuffix("0") for key in (parked_key, record_key)]
        about = (plan.before, plan.after, plan.epoch, f"{STATE}:")
        with self._link.client() as client:
            client.eval(_BEGIN, 1, STATE, *about, *names)

    def move_messages(self, plan: Reslotting) -> None:
        """Move the messages of all old slot queues, in the order of their publication."""
        streams = [(kind, slot) for kind in QueueKind for slot in self._old(kind, plan)]
        page = max(1, min(PAGE, TAGS // max(1, len(streams))))
        queues = [self._messages(kind, slot, page) for kind, slot in streams]
        messages = heapq.merge(*queues, key=lambda each: each.age_order)
        for batch in batches(messages, lambda each: each.size, AT_ONCE, BYTES):
            self._move(batch, plan.after)

    def move_parked(self, plan: Reslotting) -> None:
        """Move what is parked; a field that is none stays under the old key."""
        for slot in range(plan.before):
            self._move_lot(slot, plan.after)

    def _move_lot(self, slot: int, slots: int) -> None:
        old = f"{STATE}:{parked_key(slot)}"
        names = self._keys.run({old: "hash"}, lambda it: it.hkeys(old))
        moves = list(_parked(slot, names, slots))

        def carry_out(pipe: Any) -> None:
            for name, new in moves:
                pipe.eval(_MOVE_PARKED, 3, old, parked_key(new), PARKED_READY, name, new)

        types = {parked_key(new): "hash" for _, new in moves}
        self._keys.pipelined({**types, PARKED_READY: "set"}, carry_out)

    def old_records(self, plan: Reslotting) -> Iterator[dict[int, dict[str, Any]]]:
        """Yield the records of the old slots that can be read, some at a time."""
        with self._link.client() as client, client.pipeline(transaction=False) as pipe:
            for slot in range(plan.before):
                pipe.strlen(f"{STATE}:{record_key(slot)}")
            sizes = pipe.execute(raise_on_error=False)  # what is of another type is no record
        there = ((slot, size) for slot, size in enumerate(sizes) if isinstance(size, int) and size)
        for slots in batches(there, lambda each: each[1], plan.before, RECORDS):
            yield self._read([slot for slot, _ in slots])

    def _read(self, slots: list[int]) -> dict[int, dict[str, Any]]:
        with self._link.client() as client:
            raws: Any = client.mget([f"{STATE}:{record_key(slot)}" for slot in slots])
        found: dict[int, dict[str, Any]] = {}
        for slot, raw in zip(slots, raws, strict=True):
            try:
                if raw is not None:
                    found[slot] = decode_record(slot, raw)
            except BadMessage:
                continue  # nobody could use it before either
        return found

    def save_records(self, records: Mapping[int, Mapping[str, Any]]) -> None:
        """Add to the records of new slots, one by one; the old ones stay until the end.

        A record of another epoch was left behind by a cluster that had more slots.
        """
        for slot, record in records.items():
            former = self._records.load(slot) or {}
            known = former["projects"] if former.get("epoch") == record["epoch"] else {}
            projects = {**known, **record["projects"]}
            self._records.save_many({slot: {**record, "projects": projects}})

    def move_dead_letters(self) -> None:
        """Take the slots out of the dead letters: one that is replayed finds its own anew."""
        with self._link.client() as client:
            client.unlink(_NEW_LETTERS)
            letters = self._pages(
                DEAD_LETTERS,
                PAGE,
                lambda after, it: it.xrange(DEAD_LETTERS, min=after, count=PAGE),
            )
            for tag, fields in letters:
                kept: Any = {name: value for name, value in fields.items() if name != b"slot"}
                client.xadd(_NEW_LETTERS, kept, id=tag)
            if client.exists(_NEW_LETTERS):
                client.rename(_NEW_LETTERS, DEAD_LETTERS)

    def clear(self, plan: Reslotting) -> None:
        """Delete the old records, which are saved anew, and the old queues, which are empty.

        All in one step: records that are saved once more must be made of all of the old ones.
        """
        slots = range(plan.before)
        keys = [f"{STATE}:{record_key(slot)}" for slot in slots]
        keys += [_old_stream(kind, slot) for kind in QueueKind for slot in slots]
        with self._link.client() as client:
            client.unlink(*keys)

    def end(self) -> None:
        """Forget that anything was under way."""
        with self._link.client() as client:
            client.unlink(STATE)

    def _old(self, kind: QueueKind, plan: Reslotting) -> list[int]:
        """Return the old slots whose queue of a kind exists."""
        there = self._keys.pipelined(
            {}, lambda pipe: [pipe.exists(_old_stream(kind, slot)) for slot in range(plan.before)]
        )
        return [slot for slot, is_there in enumerate(there) if is_there]

    def _messages(self, kind: QueueKind, slot: int, page: int) -> Iterator[_OldMessage]:
        stream = _old_stream(kind, slot)
        pages = self._pages(stream, page, lambda after, it: it.eval(_TAGS, 1, stream, after, page))
        return (_OldMessage(kind, slot, tag, size) for tag, size in pages)

    def _pages(self, stream: str, count: int, read: Callable[[str, Any], Any]) -> Iterator[Any]:
        """Yield what is read of a stream, page by page; what came may be deleted meanwhile.

        Args:
            count: entries of a page.
            read: reads a page from a tag on; the first item of each entry is its tag.
        """
        after = "-"
        while True:
            page = self._keys.run({stream: "stream"}, partial(read, after))
            yield from page
            if len(page) < count:
                return
            after = f"({page[-1][0].decode()}"

    def _move(self, messages: list[_OldMessage], slots: int) -> None:
        """Move messages, each in one step, in this order."""
        found = self._keys.pipelined(
            {each.stream: "stream" for each in messages},
            lambda pipe: [pipe.xrange(each.stream, each.tag, each.tag) for each in messages],
        )
        bodies = [entries[0][1].get(b"body", b"") if entries else b"" for entries in found]
        routes = [
            (message, route(message.kind, raw, slots))
            for message, raw in zip(messages, bodies, strict=True)
        ]
        types = dict.fromkeys(map(ready_key, QueueKind), "set") | {DEAD_LETTERS: "stream"}
        for message, its in routes:
            types |= {slot_queue(message.kind, slot): "stream" for slot in its.parts}

        def carry_out(pipe: Any) -> None:
            for message, its in routes:
                _queue_move(pipe, message, its)

        self._keys.pipelined(types, carry_out)


def _queue_move(pipe: Any, message: _OldMessage, target: RoutedMessage) -> None:
    kind = message.kind
    streams = [slot_queue(kind, slot) for slot in target.parts]
    keys = [message.stream, ready_key(kind), DEAD_LETTERS, *streams]
    about = [message.tag, kind.value, caps.LETTERS]
    pipe.eval(_MOVE, len(keys), *keys, *about, *target.arguments)


def _old_stream(kind: QueueKind, slot: int) -> str:
    return f"{STATE}:{slot_queue(kind, slot)}"


def _parked(slot: int, names: list[bytes], slots: int) -> Iterator[tuple[bytes, int]]:
    """Yield the names of parked messages, with their new slots."""
    for name in names:
        try:
            yield name, slot_of(Parked.named(slot, name).project, slots)
        except BadMessage:
            continue
