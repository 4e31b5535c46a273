"""How far a process has read, how it shares, and when a queue is full."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspider_zk.errors import Unavailable
from pyspider_zk.queues.api import Delivery
from pyspider_zk.queues.names import QueueKind, SlotQueue
from pyspider_zk.queues.slot_queues import OLDEST, PAUSE, Backpressure, Offsets, gather, tags_of

NEW = QueueKind.NEWTASK


class Streams:
    """Slot queues as plain lists, which count how often they are asked."""

    def __init__(self, lengths: Mapping[int, int]) -> None:
        self.held = {
            slot: [(str(tag), b"") for tag in range(1, length + 1)]
            for slot, length in lengths.items()
        }
        self.passes = 0

    def fetch(
        self, after: Mapping[int, str], count: int
    ) -> Mapping[int, Sequence[tuple[str, bytes]]]:
        self.passes += 1
        return {slot: self.held[slot][int(tag) :][:count] for slot, tag in after.items()}


LENGTHS = st.dictionaries(st.integers(0, 50), st.integers(0, 30), max_size=20)


@given(LENGTHS, st.integers(0, 100))
def test_gather_takes_all_there_is_up_to_the_limit(lengths: dict[int, int], limit: int) -> None:
    found = gather(Streams(lengths).fetch, dict.fromkeys(lengths, OLDEST), limit)
    assert len(found) == min(limit, sum(lengths.values()))


@given(LENGTHS, st.integers(1, 100))
def test_gather_keeps_the_order_of_each_slot(lengths: dict[int, int], limit: int) -> None:
    found = gather(Streams(lengths).fetch, dict.fromkeys(lengths, OLDEST), limit)
    for slot in lengths:
        tags = [int(tag) for its, tag, _ in found if its == slot]
        assert tags == list(range(1, len(tags) + 1))


@given(LENGTHS, st.integers(1, 100))
def test_gather_gives_nobody_more_while_another_wants(lengths: dict[int, int], limit: int) -> None:
    found = gather(Streams(lengths).fetch, dict.fromkeys(lengths, OLDEST), limit)
    got = Counter(slot for slot, _, _ in found)
    hungry = [got[slot] for slot, length in lengths.items() if got[slot] < length]
    if hungry:
        assert max(got.values(), default=0) <= min(hungry) + 1


def test_gather_needs_few_passes() -> None:
    streams = Streams(dict.fromkeys(range(255), 1) | {255: 10_000})
    assert len(gather(streams.fetch, dict.fromkeys(range(256), OLDEST), 1000)) == 1000
    assert streams.passes <= 3


def test_gather_asks_nobody_when_there_is_nobody() -> None:
    streams = Streams({})
    assert gather(streams.fetch, {}, 10) == []
    assert streams.passes == 0


def test_a_slot_is_read_from_its_oldest_message_when_all_is_acknowledged() -> None:
    positions = Offsets()
    positions.take([1])
    deliveries = [Delivery(NEW, 1, tag, None) for tag in ("5", "6")]
    positions.delivered(tags_of(deliveries))
    assert positions.turn(NEW, [1], 9) == {1: "6"}
    positions.acknowledged(tags_of(deliveries[:1]))
    assert positions.turn(NEW, [1], 9) == {1: "6"}
    positions.acknowledged(tags_of(deliveries[1:]))
    assert positions.turn(NEW, [1], 9) == {1: OLDEST}


def test_turns_pass_over_slots_that_are_not_ready_or_not_taken() -> None:
    positions = Offsets()
    positions.take([1, 2, 3])
    assert positions.turn(NEW, [2, 3, 4], 9) == {2: OLDEST, 3: OLDEST}


@given(st.sets(st.integers(0, 100), min_size=1, max_size=30), st.integers(1, 40))
def test_every_slot_has_its_turn_within_a_round(slots: set[int], limit: int) -> None:
    positions = Offsets()
    positions.take(slots)
    rounds = -(-len(slots) // limit)
    seen = [slot for _ in range(rounds) for slot in positions.turn(NEW, slots, limit)]
    assert set(seen) == slots


ONE, TWO = (QueueKind.NEWTASK, 1), (QueueKind.STATUS, 2)


class Scale:
    """Measures queues, and remembers what it was asked."""

    def __init__(self) -> None:
        self.lengths: dict[SlotQueue, int] = {}
        self.asked: list[set[SlotQueue]] = []

    def measure(self, queues: Collection[SlotQueue]) -> Mapping[SlotQueue, int]:
        self.asked.append(set(queues))
        return {queue: self.lengths.get(queue, 0) for queue in queues}


def test_a_queue_below_its_limit_is_not_measured() -> None:
    scale = Scale()
    room = Backpressure(10, scale.measure)
    room.note({ONE: 9})
    assert not room.full([ONE, TWO])
    assert scale.asked == []


def test_only_queues_at_the_limit_are_measured() -> None:
    scale = Scale()
    room = Backpressure(10, scale.measure)
    room.note({ONE: 10, TWO: 1})
    scale.lengths[ONE] = 12
    assert room.full([ONE, TWO])
    assert scale.asked == [{ONE}]


def test_without_a_limit_nothing_is_ever_full() -> None:
    scale = Scale()
    room = Backpressure(0, scale.measure)
    room.note({ONE: 10**9})
    assert not room.full([ONE])
    assert scale.asked == []


def test_waiting_ends_when_each_queue_has_room() -> None:
    scale = Scale()
    scale.lengths = {ONE: 3, TWO: 3}
    pauses: list[float] = []

    def wait(seconds: float) -> None:
        pauses.append(seconds)
        scale.lengths = {ONE: 1, TWO: 3} if len(pauses) == 1 else {ONE: 1, TWO: 1}

    room = Backpressure(2, scale.measure, wait)
    room.note(scale.lengths)
    room.wait_for([ONE, TWO])
    assert pauses == [PAUSE, PAUSE]


def test_close_ends_the_wait() -> None:
    scale = Scale()
    scale.lengths = {ONE: 3}
    room = Backpressure(2, scale.measure, lambda _: room.close())
    room.note(scale.lengths)
    with pytest.raises(Unavailable, match="closed"):
        room.wait_for([ONE])
