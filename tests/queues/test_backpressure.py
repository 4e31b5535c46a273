"""A lazy limit: queues are measured only when they were full."""

from collections.abc import Collection, Mapping

import pytest

from pyspider_zk.errors import Unavailable
from pyspider_zk.queues.names import QueueKind, SlotQueue
from pyspider_zk.queues.slot_queues import PAUSE, Backpressure

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
