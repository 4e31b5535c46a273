"""Messages are applied, then acknowledged; what fails waits its turn."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from pyspider_zk.errors import BadMessage, FenceClosed, Unavailable
from pyspider_zk.queues.api import Delivery, Message, Queues, SlotQueues
from pyspider_zk.queues.names import QueueKind, SlotQueue
from pyspider_zk.scheduling.intake import PAUSES, Apply, Intake
from pyspider_zk.scheduling.parking import Disposition, InFlightMessage, Parking
from tests.support.clock import Clock
from tests.support.memory_queues import MemoryBroker, MemorySlotQueues

SLOTS = 4
LIMIT = 100


class TaskTable:
    """Remembers what was applied, and what is to happen instead, by task id."""

    def __init__(self) -> None:
        self.applied: list[str] = []
        self.waits: set[str] = set()
        self.raises: dict[str, Exception] = {}

    def apply(self, entry: InFlightMessage) -> Disposition:
        taskid: str = entry.delivery.body["taskid"]
        if taskid in self.raises:
            raise self.raises[taskid]
        if taskid in self.waits:
            return Disposition.WAITS_FOR_PROJECT
        self.applied.append(taskid)
        return Disposition.APPLIED


def body(taskid: str) -> dict[str, str]:
    """Return a task of a project of its own."""
    return {"taskid": taskid, "project": taskid}


@pytest.fixture
def broker() -> MemoryBroker:
    return MemoryBroker()


@pytest.fixture
def queues(broker: MemoryBroker) -> Queues:
    return broker.queues(SLOTS)


@pytest.fixture
def table() -> TaskTable:
    return TaskTable()


@pytest.fixture
def send(queues: Queues) -> Callable[..., None]:
    def send(*taskids: str, slot: int = 0, kind: QueueKind = QueueKind.STATUS) -> None:
        queues.slot_queues.publish([Message(kind, slot, body(each)) for each in taskids])

    return send


def intake_of(
    queues: Queues,
    pauses: Sequence[float] = (0.0, 0.0),
    clock: Callable[[], float] = lambda: 0.0,
) -> Intake:
    made = Intake(queues.slot_queues, Parking(queues.parking_lot), pauses, clock)
    made.take(range(SLOTS))
    return made


def round_of(
    intake: Intake,
    apply: Apply,
    limit: int = LIMIT,
    kind: QueueKind = QueueKind.STATUS,
    due: Collection[SlotQueue] | None = None,
) -> None:
    """Read, run and settle."""
    intake.read(limit, due=due)
    intake.run_parked(intake.parked(lambda _: True), apply)
    intake.run(kind, apply)
    intake.settle()


def left(queues: Queues) -> int:
    """Return how many messages are not acknowledged, in their queue or parked."""
    parked = sum(each.length for each in queues.parking_lot.waiting().values())
    return queues.slot_queues.lengths()[QueueKind.STATUS] + parked


def test_messages_are_applied_in_order_and_acknowledged(
    queues: Queues, table: TaskTable, send: Callable[..., None]
) -> None:
    send("a", "b", "c")
    round_of(intake_of(queues), table.apply)
    assert table.applied == ["a", "b", "c"]
    assert left(queues) == 0


class AskedQueues:
    """Slot queues that remember which of them were looked into."""

    def __init__(self, queues: SlotQueues) -> None:
        self._queues = queues
        self.asked: list[tuple[QueueKind, Collection[int] | None]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._queues, name)

    def read(self, kind: QueueKind, limit: int, ready: Collection[int] | None = None) -> Any:
        self.asked.append((kind, ready))
        return self._queues.read(kind, limit, ready)


@dataclass
class Looking:
    """An intake that has read everything, and which queues it looks into from now on."""

    intake: Intake
    queues: AskedQueues

    def asked(self, due: Collection[SlotQueue] | None) -> list[tuple[Any, Any]]:
        """Read, and return which queues were looked into for that."""
        self.queues.asked.clear()
        self.intake.read(LIMIT, due=due)
        return self.queues.asked


@pytest.fixture
def looking(queues: Queues) -> Looking:
    intake = intake_of(queues)
    intake.read(LIMIT)
    intake._queues = AskedQueues(intake._queues)  # type: ignore[assignment]
    return Looking(intake, intake._queues)  # type: ignore[arg-type]


def test_who_was_woken_looks_into_nothing_else(looking: Looking) -> None:
    assert looking.asked(due=()) == []

    assert looking.asked(due={(QueueKind.NEWTASK, 0)}) == [(QueueKind.NEWTASK, {0})]


def test_with_a_pack_the_new_tasks_of_its_slot_are_read(
    looking: Looking, send: Callable[..., None]
) -> None:
    """Those that were published before it wake nobody if their queue was not empty."""
    send("a")

    assert looking.asked(due={(QueueKind.STATUS, 0)}) == [
        (QueueKind.STATUS, {0}),
        (QueueKind.NEWTASK, {0}),
    ]


def test_what_was_read_is_read_again_until_nothing_is_found(
    looking: Looking, table: TaskTable, send: Callable[..., None]
) -> None:
    """For a queue that is not empty wakes nobody."""
    send("a")
    round_of(looking.intake, table.apply, due={(QueueKind.STATUS, 0)})

    assert looking.asked(due=()) == [(QueueKind.STATUS, {0}), (QueueKind.NEWTASK, {0})]
    assert looking.asked(due=()) == []


def test_after_something_was_found_somewhere_all_is_read(
    looking: Looking, send: Callable[..., None]
) -> None:
    send("a")
    looking.intake.read(LIMIT)

    assert looking.asked(due=()) == [(QueueKind.STATUS, None), (QueueKind.NEWTASK, None)]


def test_queues_of_which_something_waits_are_read_with_those_that_woke(
    looking: Looking, send: Callable[..., None]
) -> None:
    """They are not empty, so their publishers wake nobody."""
    send("a")
    looking.intake.read(LIMIT, due={(QueueKind.STATUS, 0)})
    looking.intake.read(LIMIT, due=())  # nothing more; what was read still waits

    assert looking.asked(due={(QueueKind.STATUS, 1)}) == [(QueueKind.STATUS, {0, 1})]


def test_a_backlog_is_as_much_as_a_round_may_read(
    queues: Queues, table: TaskTable, send: Callable[..., None]
) -> None:
    intake = intake_of(queues)
    send("a", "b", "c")
    seen = []
    for _ in range(3):
        round_of(intake, table.apply, limit=2)
        seen.append((len(table.applied), intake.has_backlog))
    assert seen == [(2, True), (3, False), (3, False)]


def test_what_must_wait_is_tried_again_before_what_is_new(
    queues: Queues, table: TaskTable, send: Callable[..., None]
) -> None:
    # given
    intake = intake_of(queues)
    send("a", "b", "c", "d")
    table.waits = {"a", "c"}
    round_of(intake, table.apply)
    assert table.applied == ["b", "d"]
    assert left(queues) == 2
    # when
    send("e")
    table.waits = {"a"}
    round_of(intake, table.apply)
    table.waits = set()
    send("f")
    round_of(intake, table.apply)
    # then
    assert table.applied == ["b", "d", "c", "e", "a", "f"]
    assert left(queues) == 0


def test_a_message_that_is_no_task_is_rejected_at_once(
    queues: Queues, table: TaskTable, send: Callable[..., None]
) -> None:
    send("a", "b")
    table.raises["a"] = BadMessage("is no task")
    round_of(intake_of(queues), table.apply)
    (letter,) = queues.slot_queues.dead_letters(9)
    assert (letter.reason, letter.slot) == ("is no task", 0)
    assert table.applied == ["b"]
    assert left(queues) == 0


def test_a_message_that_fails_again_and_again_is_rejected_with_the_reason(
    queues: Queues, table: TaskTable, send: Callable[..., None]
) -> None:
    # given
    intake = intake_of(queues, pauses=(0, 0))
    send("a", "b")
    table.raises["a"] = KeyError("track")
    # when
    for _ in range(2):
        round_of(intake, table.apply)
    # then it is still there
    assert table.applied == ["b"]
    assert left(queues) == 1
    # when
    round_of(intake, table.apply)
    # then
    (letter,) = queues.slot_queues.dead_letters(9)
    assert letter.reason == "failed 3 times: KeyError('track')"
    assert left(queues) == 0


def test_a_message_that_cannot_be_rejected_now_holds_up_no_other(
    broker: MemoryBroker, queues: Queues, table: TaskTable, send: Callable[..., None]
) -> None:
    # given a message queue that is out of memory
    class OutOfMemory(MemorySlotQueues):
        is_out = True

        def reject(self, delivery: Delivery, reason: str) -> None:
            if self.is_out:
                self.is_out = False
                raise Unavailable("out of memory")
            super().reject(delivery, reason)

    intake = Intake(OutOfMemory(broker), Parking(queues.parking_lot))
    intake.take(range(SLOTS))
    send("a", "b", "c")
    table.raises["a"] = BadMessage("is no task")
    # when
    round_of(intake, table.apply)
    # then
    assert table.applied == ["b", "c"]
    assert (left(queues), queues.slot_queues.dead()) == (1, 0)
    # and
    round_of(intake, table.apply)
    assert (left(queues), queues.slot_queues.dead()) == (0, 1)


def test_a_message_of_no_use_is_rejected_though_the_others_could_not_be_acknowledged_at_first(
    broker: MemoryBroker, queues: Queues, table: TaskTable, send: Callable[..., None]
) -> None:
    class WithoutReply(MemorySlotQueues):
        is_away = True

        def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
            super().acknowledge(deliveries)
            if self.is_away:
                raise Unavailable("no reply")

    away = WithoutReply(broker)
    intake = Intake(away, Parking(queues.parking_lot))
    intake.take(range(SLOTS))
    send("a", "b")
    table.raises["a"] = BadMessage("is no task")
    with pytest.raises(Unavailable):
        round_of(intake, table.apply)
    away.is_away = False
    round_of(intake, table.apply)

    assert (left(queues), queues.slot_queues.dead()) == (0, 1)


def test_a_message_that_failed_is_left_alone_for_longer_and_longer(
    queues: Queues, send: Callable[..., None]
) -> None:
    # given
    tries: list[float] = []
    clock = Clock(0.0)
    intake = intake_of(queues, (2, 4), clock)
    send("a")

    def failing(_: InFlightMessage) -> Disposition:
        tries.append(clock.now)
        raise OSError("the database is away")

    # when
    for _ in range(10):
        round_of(intake, failing)
        clock.now += 1
    # then
    assert tries == [0, 2, 6]


def test_a_database_that_is_away_for_half_a_minute_makes_no_dead_letters(
    queues: Queues, table: TaskTable, send: Callable[..., None]
) -> None:
    # given
    clock = Clock(0.0)
    intake = intake_of(queues, PAUSES, clock)
    send("a", "b", "c")
    table.raises = dict.fromkeys("abc", OSError("the database is away"))
    for _ in range(30):
        round_of(intake, table.apply)
        clock.now += 1
    # when it is back
    table.raises = {}
    for _ in range(64):
        round_of(intake, table.apply)
        clock.now += 1
    # then
    assert sorted(table.applied) == ["a", "b", "c"]
    assert queues.slot_queues.dead() == 0


@pytest.mark.parametrize("error", [FenceClosed("not ours"), Unavailable("no Redis")])
def test_a_closed_fence_leaves_the_rest_waiting_and_what_is_done_to_be_acknowledged(
    queues: Queues, table: TaskTable, send: Callable[..., None], error: Exception
) -> None:
    # given
    intake = intake_of(queues)
    send("a", "b", "c", "d")
    table.waits = {"a"}
    table.raises["c"] = error
    # when
    with pytest.raises(type(error)):
        round_of(intake, table.apply)
    # then
    assert table.applied == ["b"]
    assert intake.unsettled == {0}
    intake.settle()
    assert left(queues) == 3
    # when
    table.waits, table.raises = set(), {}
    round_of(intake, table.apply)
    # then
    assert table.applied == ["b", "a", "c", "d"]
    assert left(queues) == 0


def test_a_closed_fence_is_no_failure_of_the_message(
    queues: Queues, table: TaskTable, send: Callable[..., None]
) -> None:
    intake = intake_of(queues, pauses=())
    send("a")
    table.raises["a"] = FenceClosed("not ours")
    for _ in range(3):
        with pytest.raises(FenceClosed):
            round_of(intake, table.apply)
    table.raises = {}
    round_of(intake, table.apply)
    assert left(queues) == 0
    assert queues.slot_queues.dead() == 0


def test_what_waits_of_a_dropped_slot_is_the_next_owners(
    broker: MemoryBroker, queues: Queues, table: TaskTable, send: Callable[..., None]
) -> None:
    # given
    intake = intake_of(queues)
    send("a", slot=0)
    send("b", slot=1)
    table.waits = {"a", "b"}
    round_of(intake, table.apply)
    # when
    intake.drop([0])
    table.waits = set()
    round_of(intake, table.apply)
    # then
    assert table.applied == ["b"]
    # and
    successor, applied = (
        Intake(broker.queues(SLOTS).slot_queues, Parking(queues.parking_lot)),
        TaskTable(),
    )
    successor.take([0])
    round_of(successor, applied.apply)
    assert applied.applied == ["a"]


def test_a_slot_that_comes_back_is_read_from_its_oldest_message(
    queues: Queues, table: TaskTable, send: Callable[..., None]
) -> None:
    intake = intake_of(queues)
    send("a", "b")
    table.waits = {"a"}
    round_of(intake, table.apply)
    intake.drop([0])
    intake.take([0])
    table.waits = set()
    round_of(intake, table.apply)
    assert table.applied == ["b", "a"]


def test_the_kinds_wait_apart(queues: Queues, table: TaskTable, send: Callable[..., None]) -> None:
    intake = intake_of(queues)
    send("a")
    send("n", kind=QueueKind.NEWTASK)
    table.waits = {"a"}
    round_of(intake, table.apply)
    round_of(intake, table.apply, kind=QueueKind.NEWTASK)
    assert table.applied == ["n"]
