"""Bad input into Redis's keys themselves: sets, records, and keys of the wrong type."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import msgpack
from redis.client import Pipeline

from tests.fuzz.catalogue.entry import Place, Poison, Put
from tests.fuzz.grip import Grip

TOLD = (Place.QUEUE, Place.LOG)
ASIDE = ":aside"

_MEMBERS = {
    "junk": b"junk",
    "nothing": b"",
    "a negative slot": b"-1",
    "a slot beyond the last": b"256",
    "a slot of 20 digits": b"9" * 20,
    "a slot of 5,000 digits": b"9" * 5000,
    "half a slot": b"3.5",
    "a slot with a space": b" 5",
    "a slot in other digits": "\u0665".encode(),
    "bytes that are no text": b"\xff\xfe",
    "a slot with zeros": b"0005",
    "infinity": b"inf",
}

_TYPES: dict[str, Callable[[Any, str], object]] = {
    "a text": lambda client, key: client.set(key, b"junk"),
    "a list": lambda client, key: client.rpush(key, b"junk"),
    "a set": lambda client, key: client.sadd(key, b"junk"),
    "a sorted set": lambda client, key: client.zadd(key, {b"junk": 1}),
    "a hash": lambda client, key: client.hset(key, b"junk", b"junk"),
    "a stream": lambda client, key: client.xadd(key, {b"junk": b"junk"}),
}

_SHARED = {
    "newtask_queue:ready": "a set",
    "status_queue:ready": "a set",
    "newtask_queue": "a list",
    "status_queue": "a list",
    "dead_letters": "a stream",
    "scheduler2fetcher": "a list",
    "fetcher2processor": "a list",
    "processor2result": "a list",
}
"""Keys that all need, with their type."""

_RECORDS: dict[str, bytes] = {
    "nothing": b"",
    "no msgpack": b"\xc1junk",
    "a record cut short": b"\xdf\xff\xff\xff\xff\xa1a",
    "a list": msgpack.packb([1, 2]),
    "a number": msgpack.packb(7),
    "null": msgpack.packb(None),
    "nested 100,000 deep": b"\x91" * 100_000 + b"\xc0",
    "mappings 100,000 deep": b"\x81\xa1a" * 100_000 + b"\xc0",
    "5 MB of zeros": b"\x00" * 5_000_000,
    "text that is no UTF-8": b"\x81\xa3\xff\xfe\xfd\x01",
    "a foreign extension": b"\x81\xa1a\xd4\x7f\x01",
    "parts of the wrong types": msgpack.packb(
        {
            "epoch": "x",
            "clean": "maybe",
            "projects": [1],
            "cnt": 7,
            "state": {"a": [{}]},
            "version": {},
        }
    ),
    "projects that are none": msgpack.packb(
        {"epoch": 10**9, "clean": True, "projects": {"a b": 7, "": None, "x": [], 7: {}}}
    ),
    "numbers that are none": msgpack.packb(
        {"epoch": float("nan"), "clean": True, "projects": {}, "at": float("inf")}
    ),
}


def entries() -> Iterator[Poison]:
    """Yield everything that is done to keys."""
    for queue in ("newtask_queue", "status_queue"):
        for what, member in _MEMBERS.items():
            put = partial(_ready, f"{queue}:ready", member)
            yield Poison("keys", f"{queue}:ready names {what}", put, TOLD)
    for queue in ("newtask_queue", "status_queue"):
        for kind in _TYPES:
            if kind != "a stream":
                put = partial(_mistyped, queue, kind)
                yield Poison("keys", f"the {queue} of a slot is {kind}", put, TOLD)
    for key, right in _SHARED.items():
        for kind in ("a text", "a hash", "a sorted set"):
            yield shared_key(key, kind, right)
    yield from _slot_records()
    put = partial(_letter_fields)
    yield Poison("keys", "a dead letter without its parts", put, (Place.QUEUE, Place.LETTER))


def _ready(key: str, member: bytes, grip: Grip) -> Put:
    grip.redis.sadd(key, member)
    return Put(key)


def _mistyped(queue: str, kind: str, grip: Grip) -> Put:
    slot = grip.spoilt_slot()
    key = f"{queue}:{slot}"
    grip.redis.delete(key)
    _TYPES[kind](grip.redis, key)
    grip.redis.sadd(f"{queue}:ready", slot)
    return Put(key)


def shared_key(key: str, kind: str, right: str) -> Poison:
    """Return a key that all need and that has another type for a while."""
    put, back = partial(_take_away, key, kind), partial(_put_back, key, right)
    return Poison("keys", f"{key} is {kind}", put, TOLD, spot=f"key {key}", mend=back)


def _take_away(key: str, kind: str, grip: Grip) -> Put:
    """Put the wrong thing in a key's place; what was there is kept."""

    def swap(at_once: Pipeline) -> None:
        there = at_once.exists(key)
        at_once.multi()
        if there:
            at_once.rename(key, key + ASIDE)
        _TYPES[kind](at_once, key)

    grip.redis.transaction(swap, key)
    return Put(key)


def _put_back(key: str, right: str, grip: Grip) -> None:
    """Delete the wrong thing if it still stands, and give back what was there.

    Messages come at any time: whatever stands there by then is watched, so that none is lost here.
    """
    name = {"a set": b"set", "a list": b"list", "a stream": b"stream"}[right]
    aside = key + ASIDE

    def restore(at_once: Pipeline) -> None:
        stands, kept = at_once.type(key), at_once.exists(aside)
        at_once.multi()
        if stands != name:
            at_once.delete(key)
            if kept:
                at_once.rename(aside, key)

    grip.redis.transaction(restore, key, aside)
    _append(grip, aside, key, right)


def _append(grip: Grip, aside: str, key: str, right: str) -> None:
    """Add what is still aside to what came meanwhile."""
    if right == "a set":
        grip.redis.sunionstore(key, key, aside)
    elif right == "a list":
        while grip.redis.lmove(aside, key, "RIGHT", "LEFT"):
            pass
    else:
        _prepend(grip, aside, key)
    grip.redis.delete(aside)


def _prepend(grip: Grip, aside: str, key: str) -> None:
    """Put what is aside before what came meanwhile; their numbers stay, and are looked for."""

    def merge(at_once: Pipeline) -> None:
        there, came = at_once.exists(aside), at_once.xrange(key)
        at_once.multi()
        if there:
            at_once.rename(aside, key)
            for tag, fields in came:
                at_once.xadd(key, fields, id=tag)

    grip.redis.transaction(merge, key, aside)


def _slot_records() -> Iterator[Poison]:
    """Yield records of slots whose owner is about to die, for only a successor reads them."""
    shown = (*TOLD, Place.QUARANTINE, Place.GONE)
    for what, raw in _RECORDS.items():
        put = partial(_record, raw)
        yield Poison("slot records", f"a record is {what}", put, shown, stage="visit")
    for kind in _TYPES:
        if kind != "a text":
            put = partial(_mistyped_record, kind)
            counts_as_none = (Place.NOBODY,)  # whoever saves next writes over it
            name = f"a record is {kind} of Redis"
            yield Poison("slot records", name, put, counts_as_none, stage="visit")


def _record(raw: bytes, grip: Grip) -> Put:
    key = f"slot_record:{_slot(grip)}"
    grip.redis.set(key, raw)
    return Put(key, data=raw)


def _mistyped_record(kind: str, grip: Grip) -> Put:
    key = f"slot_record:{_slot(grip)}"
    grip.redis.delete(key)
    _TYPES[kind](grip.redis, key)
    return Put(key)


def _slot(grip: Grip) -> int:
    """Return a slot of the fourth scheduler; several entries take turns at those it has."""
    slots = grip.slots_of_visitor()
    return slots[grip.turn() % len(slots)]


def _letter_fields(grip: Grip) -> Put:
    tag = grip.redis.xadd("dead_letters", {b"junk": b"junk"})
    return Put(tag.decode())
