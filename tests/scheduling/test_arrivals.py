"""A scheduler hears of messages for its slots at once, and reads its queues only when need be."""

from collections.abc import Callable
from typing import Any, cast

import pytest

from pyspider_zk.cluster.ownership import Fence
from pyspider_zk.errors import DatabaseAway, Unavailable
from pyspider_zk.projects.slots import slot_of
from pyspider_zk.queues.api import Message
from pyspider_zk.queues.names import QueueKind, SlotQueue
from pyspider_zk.scheduling.arrivals import (
    HEAD_START,
    INBOX_INTERVAL,
    READ_INTERVAL,
    Arrivals,
)
from pyspider_zk.scheduling.intake import PAUSES
from pyspider_zk.scheduling.member import ClusterScheduler
from tests.support.clock import Clock
from tests.support.memory_queues import MemoryBroker
from tests.support.sole_owner import SoleOwner
from tests.support.stand_ins import running
from tests.support.world import MOMENT, SLOTS, World, crawling

MakeTask = Callable[..., dict[str, Any]]
TASK = {"taskid": "t", "project": "p", "url": "http://site.example/"}


@pytest.fixture
def broker() -> MemoryBroker:
    return MemoryBroker()


def arrivals_of(broker: MemoryBroker, clock: Clock, woken: list[str]) -> Arrivals:
    fence = Fence(SLOTS)
    fence.held = {3: 1}
    wake_ups = broker.queues(SLOTS).wake_ups
    return Arrivals(wake_ups, fence, at_once, lambda: woken.append("woken"), clock)


def at_once(call: Callable[[], object]) -> None:
    call()


def publish(broker: MemoryBroker, slot: int) -> None:
    broker.queues(SLOTS).slot_queues.publish([Message(QueueKind.NEWTASK, slot, TASK)])


def test_messages_of_held_slots_wake_the_loop(broker: MemoryBroker) -> None:
    woken: list[str] = []
    arrivals = arrivals_of(broker, Clock(), woken)
    assert arrivals.due() is None, "nobody knows what was there before"
    assert arrivals.due() == set()

    publish(broker, 3)
    pause = arrivals.listen()

    assert woken == ["woken"]
    assert pause == HEAD_START, "the loop is not alone with the interpreter"
    assert arrivals.due() == {(QueueKind.NEWTASK, 3)}
    assert arrivals.due() == set()


def test_messages_of_others_wake_nobody(broker: MemoryBroker) -> None:
    woken: list[str] = []
    arrivals = arrivals_of(broker, Clock(), woken)
    arrivals.due()

    publish(broker, 4)
    pause = arrivals.listen()

    assert woken == []
    assert pause == 0
    assert arrivals.due() == set()


def test_what_was_heard_several_times_is_read_at_once(broker: MemoryBroker) -> None:
    arrivals = arrivals_of(broker, Clock(), [])
    arrivals.due()
    pack = Message(QueueKind.STATUS, 3, TASK)

    publish(broker, 3)
    arrivals.listen()
    broker.queues(SLOTS).slot_queues.publish([pack])
    arrivals.listen()

    assert arrivals.due() == {(QueueKind.NEWTASK, 3), (QueueKind.STATUS, 3)}


def test_queues_are_read_from_time_to_time_though_nothing_was_heard(broker: MemoryBroker) -> None:
    clock = Clock()
    arrivals = arrivals_of(broker, clock, [])
    arrivals.due()

    clock.now += READ_INTERVAL
    assert arrivals.due() is None
    assert arrivals.due() == set()


def test_the_inbox_is_looked_into_at_its_own_pace(broker: MemoryBroker) -> None:
    clock = Clock()
    arrivals = arrivals_of(broker, clock, [])
    assert arrivals.is_inbox_due()
    assert not arrivals.is_inbox_due()

    clock.now += INBOX_INTERVAL
    assert arrivals.is_inbox_due()
    assert not arrivals.is_inbox_due()


def test_a_message_queue_that_is_away_is_listened_to_after_a_pause() -> None:
    class Away:
        def wait(self, _seconds: float) -> set[SlotQueue]:
            raise Unavailable("it is away")

    assert Arrivals(Away(), Fence(SLOTS), at_once, lambda: None).listen() > 0


class SlowMember(ClusterScheduler):
    """A member whose whole rounds never come again."""

    LOOP_INTERVAL = 3600


def test_a_new_task_is_sent_between_two_rounds(
    world: World, task: MakeTask, eventually: Callable[..., None]
) -> None:
    world.project("p")
    world.script_is_known("p")
    made = world.member(SlowMember, SoleOwner(SLOTS))
    with running(made.run):
        eventually(lambda: made.projects and not made.projects["p"].waiting_get_info)
        world.dispatched()
        world.new(task("p"))
        eventually(lambda: not world.fetcher.empty())
        assert [each["taskid"] for each in world.dispatched()] == ["t"]

        world.new(task("p", "next"))
        eventually(lambda: not world.fetcher.empty())
        made.quit()


def away(*_: Any) -> None:
    raise DatabaseAway("taskdb is away")


def test_a_task_is_sent_before_its_message_is_acknowledged(
    world: World, task: MakeTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = crawling(world)
    scheduler.run_once()
    put_packed, unread = scheduler.engine.out_queue.put_packed, []

    def look(packed: list[Any]) -> int:
        unread.append(world.queues.slot_queues.lengths()[QueueKind.NEWTASK])
        return cast(int, put_packed(packed))

    monkeypatch.setattr(scheduler.engine.out_queue, "put_packed", look)
    world.new(task("p"))
    scheduler.take_arrivals()

    assert unread[-1] == 1
    assert [each["taskid"] for each in world.dispatched()][-1] == "t"
    assert world.queues.slot_queues.lengths()[QueueKind.NEWTASK] == 0


def test_what_is_committed_is_acknowledged_though_it_cannot_be_sent(
    world: World, task: MakeTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = crawling(world)
    scheduler.run_once()

    monkeypatch.setattr(scheduler.selection, "select", away)
    world.new(task("p"))
    with pytest.raises(DatabaseAway):
        scheduler.take_arrivals()

    assert world.statuses("p").keys() == {"t"}
    assert sum(world.queues.slot_queues.lengths().values()) == 0


def test_a_refused_row_is_no_task_that_was_acknowledged_though_nothing_can_be_sent(
    world: World, task: MakeTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = crawling(world)
    scheduler.run_once()
    bulk = scheduler.engine.taskdb._bulk
    write_many = bulk.write_many

    def refuse(*_: Any, **__: Any) -> None:
        raise ValueError("too long")

    with monkeypatch.context() as patch:
        patch.setattr(bulk, "write_many", refuse)
        patch.setattr(scheduler.selection, "select", away)
        world.new(task("p"))
        with pytest.raises(DatabaseAway):
            scheduler.take_arrivals()
    assert world.statuses("p") == {}
    assert bulk.write_many == write_many

    for _ in range(int(PAUSES[0] / MOMENT) + 2):
        scheduler.run_once()
    assert world.statuses("p").keys() == {"t"}


def test_a_round_for_new_messages_alone_does_not_count_for_those_that_pause(
    world: World, task: MakeTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = crawling(world)
    insert = scheduler.engine.insert_task
    failed: list[str] = []

    def fail_once(new: dict[str, Any]) -> Any:
        if not failed:
            failed.append(new["taskid"])
            raise ValueError("not now")
        return insert(new)

    monkeypatch.setattr(scheduler.engine, "insert_task", fail_once)
    world.new(task("p", "fails"))
    scheduler.take_arrivals()
    assert failed == ["fails"]

    for number in range(50):
        world.new(task("p", str(number)))
        scheduler.take_arrivals()
    assert "fails" not in world.statuses("p")
    assert len(world.statuses("p")) == 50
    for _ in range(50):
        scheduler.run_once()
    assert "fails" in world.statuses("p")
    assert slot_of("p", SLOTS) in scheduler.fence.held
