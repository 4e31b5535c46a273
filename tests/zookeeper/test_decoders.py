"""Every decoder of a znode: what anybody may have written there is read, or refused as no record.

What is read can be written again: a leader or a claimant does so with a value of its own in it.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, is_dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspider_zk.cluster.cluster_settings import ClusterSettings
from pyspider_zk.cluster.events import Checkpoint, Event
from pyspider_zk.cluster.records import (
    Assignment,
    Component,
    LeaseTerms,
    Load,
    Member,
    Meta,
    Slot,
    decode_acks,
    decode_scale,
    encode_acks,
)
from pyspider_zk.cluster.weighing import SlotRates
from pyspider_zk.errors import BadMessage
from pyspider_zk.groups.barriers import BarrierArrivals, BarrierState
from pyspider_zk.groups.group import Holder, Participant
from pyspider_zk.groups.ids import MemberId
from pyspider_zk.jobs.model import BatchRecord, Job
from pyspider_zk.zookeeper.codec import plain

A = MemberId(0, "a1b2")
RECORDS = [
    Assignment(1, (Slot(A, 1), Slot(A, 1, MemberId(1, "b")))),
    BarrierArrivals(("a",)),
    BarrierState(2, 1, {"a": 1}),
    BatchRecord({"total": 1}, 1.0, 2, 1),
    Checkpoint("0-a1b2", ("0-a1b2",), 3),
    ClusterSettings(5.0, 1.0, evicted=(1,), pins={1: 2}),
    Component("h", 1, "v", 1.0),
    Event("batch", "text", 1.0, "who", {"batch": "b"}),
    Holder("monday", "abc"),
    Job({"projects": ["p"]}, 1.0, progress={"done": 1}),
    LeaseTerms(5.0),
    Load(away=("taskdb",), slot_rates={1: 2}),
    Member("h:1", "h", 1, "v", 1.0),
    Meta(4),
    Participant(1, "n", "h", 1, 1.0),
    SlotRates({1: 2}),
]
DECODERS: dict[str, tuple[Callable[[bytes], Any], Callable[[Any], bytes], object]] = {
    **{type(one).__name__: (type(one).decode, type(one).encode, one) for one in RECORDS},
    "acks": (decode_acks, encode_acks, {1: 2}),
    "scale": (decode_scale, plain, 3),
}

DIGITS = 400
RAW = [
    *("9" * DIGITS, "-" + "9" * DIGITS, "9" * 5000, "9" * 20, "1e308", "-1e308", "1e400"),
    *("NaN", "Infinity", "-Infinity", "-0", "null", "true", "[]", "{}", '""', '"9-9"'),
    *(r'"\ud800"', r'"\udfff\ud800"', r'{"\ud800": 1}', '{"%s": 1}' % ("9" * DIGITS)),
    *(
        "[" * 600 + "]" * 600,
        "[" * 9000,
        "[" * 9000 + "]" * 9000,
        '{"a":' * 9000 + "1" + "}" * 9000,
    ),
]
"""JSON that a value may be, and what only looks like JSON."""

MARK = "a value that is put here"


def marked(value: Any) -> Iterator[Any]:
    """Yield copies of plain values in which one, or the name of one, is the mark."""
    yield MARK
    if isinstance(value, Mapping):
        for key in value:
            yield from ({**value, key: other} for other in marked(value[key]))
            yield {**{k: v for k, v in value.items() if k != key}, MARK: value[key]}
    if isinstance(value, list):
        for place in range(len(value)):
            yield from (
                [*value[:place], other, *value[place + 1 :]] for other in marked(value[place])
            )


def check(name: str, data: bytes) -> None:
    """Read it; what is read can be written again, and shown."""
    decode, encode, _ = DECODERS[name]
    try:
        found = decode(data)
    except BadMessage:
        return
    assert decode(encode(found)) == found
    if is_dataclass(found):
        asdict(found)


@pytest.mark.parametrize("raw", RAW, ids=[f"{raw:.12}-{len(raw)}" for raw in RAW])
@pytest.mark.parametrize("name", DECODERS)
def test_strange_json_in_every_place_is_read_or_refused(name: str, raw: str) -> None:
    _, encode, record = DECODERS[name]
    for value in marked(json.loads(encode(record))):
        check(name, json.dumps(value).replace(json.dumps(MARK), raw).encode("utf-8"))


@pytest.mark.parametrize("name", DECODERS)
@given(st.binary(max_size=64))
def test_any_bytes_are_read_or_refused(name: str, data: bytes) -> None:
    check(name, data)
