"""What must wait waits in the parking lot, in order, and blocks nobody."""

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgpack
import pytest

from pyspider_zk.errors import FenceClosed, Unavailable
from pyspider_zk.projects.slots import slot_of
from pyspider_zk.queues import caps
from pyspider_zk.queues.api import Delivery, Message, Parked, ParkingMove, SlotQueues
from pyspider_zk.queues.names import QueueKind
from pyspider_zk.scheduling import parking
from pyspider_zk.scheduling.intake import PAUSES
from pyspider_zk.scheduling.scheduler import SlotScheduler
from tests.support.sole_owner import SoleOwner
from tests.support.world import MOMENT, SLOTS, World, granted

Task = Callable[..., dict[str, Any]]
ACTIVE, SUCCESS = 1, 2
PARTS = ("fetch", "process")
TRIES = int(sum(PAUSES) / MOMENT) + len(PAUSES)
"""Rounds until a message that always fails has failed often enough."""


@pytest.fixture
def running(world: World) -> World:
    """Give a world with two running projects of one slot, whose scripts are known."""
    for name in ("p", NEIGHBOUR):
        world.project(name)
        world.script_is_known(name)
    return world


NEIGHBOUR = next(f"z{n}" for n in range(1000) if slot_of(f"z{n}", SLOTS) == slot_of("p", SLOTS))


def parked(world: World) -> int:
    return sum(each.length for each in world.queues.parking_lot.waiting().values())


def queued(world: World) -> int:
    return sum(world.queues.slot_queues.lengths().values())


def rounds(scheduler: SlotScheduler, count: int = 1) -> None:
    for _ in range(count):
        scheduler.run_once()


def _away(_: Any) -> None:
    raise Unavailable("no Redis")


# -- tasks under way -----------------------------------------------------------------------------


def test_a_thousand_requests_for_one_task_under_way_stop_nobody(running: World, task: Task) -> None:
    scheduler = running.scheduler()
    scheduler.engine.LOOP_LIMIT = 100
    running.new(task("p"))
    rounds(scheduler, 2)
    (sent,) = running.dispatched()

    running.new(*(task("p", "t", force_update=True, priority=n) for n in range(1000)))
    running.new(task(NEIGHBOUR, "new"))
    rounds(scheduler, 12)

    assert [each["taskid"] for each in running.dispatched()] == ["new"]
    assert (queued(running), parked(running)) == (0, 1)
    # and the last of them counts
    running.finish(sent)
    rounds(scheduler)
    (again,) = running.dispatched()
    assert again["schedule"]["priority"] == 999
    assert parked(running) == 0


def test_what_is_put_off_is_not_parked_if_the_pack_is_at_hand(running: World, task: Task) -> None:
    scheduler = running.scheduler()
    running.new(task("p"))
    rounds(scheduler, 2)
    (sent,) = running.dispatched()
    moves: list[ParkingMove] = []
    lot = scheduler.queues.parking_lot
    original = lot.park
    lot.park = lambda found, limit=0: (moves.extend(found), original(found, limit))[1]  # type: ignore[method-assign]

    running.new(task("p", "t", force_update=True))
    running.finish(sent)
    rounds(scheduler)

    assert len(running.dispatched()) == 1
    assert moves == []


def test_tasks_under_way_are_parked_and_others_go_on(running: World, task: Task) -> None:
    scheduler = running.scheduler()
    running.new(task("p", "a"), task("p", "b"))
    rounds(scheduler, 2)
    sent = {each["taskid"]: each for each in running.dispatched()}
    forced = [task("p", name, force_update=True) for name in "ab"]
    junk = {"project": "p", "url": "http://x.example/"}

    running.new(*forced, task("p", "c"), junk)
    rounds(scheduler)

    assert [each["taskid"] for each in running.dispatched()] == ["c"]
    assert (queued(running), parked(running)) == (0, 2)
    assert running.queues.slot_queues.dead() == 1
    running.finish(sent["a"])
    rounds(scheduler)
    assert [each["taskid"] for each in running.dispatched()] == ["a"]
    assert parked(running) == 1


def test_the_next_owner_merges_with_what_was_parked(running: World, task: Task) -> None:
    first = running.scheduler()
    running.new(task("p"))
    rounds(first, 2)
    (sent,) = running.dispatched()
    running.new({**task("p", "t", force_update=True), "fetch": {"timeout": 1}})
    rounds(first)
    owner = first.fence.ownership
    assert isinstance(owner, SoleOwner)
    owner.ask_back(range(SLOTS))
    rounds(first)

    after = running.scheduler(granted(2))
    later = task("p", "t", force_update=True, priority=5)
    del later["fetch"]
    running.new(later)
    rounds(after)
    assert parked(running) == 1
    running.finish(sent)
    rounds(after)

    (again,) = running.dispatched()
    assert (again["fetch"], again["schedule"]["priority"]) == ({"timeout": 1}, 5)


def test_a_request_that_is_too_large_with_the_one_before_stops_nobody(
    running: World, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(caps, "MESSAGE", 4000)
    scheduler = running.scheduler()
    running.new(task("p"))
    rounds(scheduler, 2)
    (sent,) = running.dispatched()
    first, second = (
        {**task("p", "t", force_update=True), part: {"x": "x" * 2500}} for part in PARTS
    )
    del second["fetch"]
    running.new(first)
    rounds(scheduler)
    running.new(second, task(NEIGHBOUR, "other"))
    rounds(scheduler, 2)

    (letter,) = running.queues.slot_queues.dead_letters(9)
    assert "task 't' of project 'p' has" in letter.reason
    assert [each["taskid"] for each in running.dispatched()] == ["other"]
    assert (queued(running), parked(running)) == (0, 1)
    running.finish(sent)
    rounds(scheduler)
    (again,) = running.dispatched()
    assert again["fetch"] == first["fetch"]


def test_a_message_that_is_too_large_to_be_parked_stops_nobody(
    running: World, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A number of four bytes has eight once it was read."""
    monkeypatch.setattr(caps, "MESSAGE", 10_000)
    scheduler = running.scheduler()
    running.new(task("p"))
    rounds(scheduler, 2)
    assert [each["taskid"] for each in running.dispatched()] == ["t"]
    scheduler.quarantine.put(NEIGHBOUR, "its row is no row")
    for project in ("p", NEIGHBOUR):
        large = {**task(project, force_update=True), "fetch": {"data": [0.5] * 1500}}
        raw = msgpack.packb(large, use_single_float=True)
        running.broker.append((QueueKind.NEWTASK, slot_of(project, SLOTS)), raw)
    running.new(task("p", "other"))

    rounds(scheduler, 2)

    reasons = [each.reason for each in running.queues.slot_queues.dead_letters(9)]
    assert len(reasons) == 2
    assert all("task 't' of project" in why and "the limit is 10000" in why for why in reasons)
    assert [each["taskid"] for each in running.dispatched()] == ["other"]
    assert (queued(running), parked(running)) == (0, 0)


def test_what_a_stopped_owner_parks_too_late_is_found(running: World, task: Task) -> None:
    after = running.scheduler(granted(2))
    rounds(after, 2)
    slot = slot_of("p", SLOTS)
    running.new(late := task("p", "late", force_update=True))
    reader = running.broker.queues(SLOTS)
    reader.slot_queues.take([slot])
    (found,) = reader.slot_queues.read(QueueKind.NEWTASK, 9)
    piece = Parked(QueueKind.NEWTASK, slot, found.tag, "p", "late")
    reader.parking_lot.park([ParkingMove(found, piece, late)])

    rounds(after, 2)
    assert running.dispatched() == []
    running.now += parking.LOOK
    rounds(after)

    assert [each["taskid"] for each in running.dispatched()] == ["late"]


def test_a_task_put_off_that_cannot_be_stored_is_rejected_in_the_end(
    running: World, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = running.scheduler()
    running.new(task("p"))
    rounds(scheduler, 2)
    (sent,) = running.dispatched()
    running.new(task("p", "t", force_update=True))
    rounds(scheduler)
    update = scheduler.engine.taskdb.update

    def refuse(project: str, taskid: str, fields: dict[str, Any], **more: Any) -> Any:
        if fields.get("schedule", {}).get("force_update"):
            raise ValueError("too large")
        return update(project, taskid, fields, **more)

    monkeypatch.setattr(scheduler.engine.taskdb, "update", refuse)
    running.finish(sent)
    rounds(scheduler, TRIES + 2)

    (letter,) = running.queues.slot_queues.dead_letters(9)
    assert letter.reason == "failed 5 times: ValueError('too large')"
    assert parked(running) == 0


def test_what_was_applied_is_not_applied_again_though_the_lot_was_away(
    running: World, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = running.scheduler()
    running.new(task("p"))
    rounds(scheduler, 2)
    (sent,) = running.dispatched()
    running.new(task("p", "t", force_update=True))
    rounds(scheduler)
    running.finish(sent)

    with monkeypatch.context() as patched:
        patched.setattr(scheduler.queues.parking_lot, "remove", _away)
        rounds(scheduler)
        (again,) = running.dispatched()
        running.finish(again)
        with pytest.raises(Unavailable):
            rounds(scheduler)
    rounds(scheduler, 3)

    assert running.dispatched() == []
    assert parked(running) == 0
    assert running.statuses("p") == {"t": SUCCESS}


def test_what_was_applied_while_the_lot_was_away_is_not_applied_again_by_the_next_owner(
    running: World, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = SoleOwner(SLOTS)
    scheduler = running.scheduler(owner)
    rounds(scheduler)
    scheduler.quarantine.put("p", "its row is no row")
    running.new(task("p", "t", force_update=True))
    rounds(scheduler)
    scheduler.quarantine.release("p")

    with monkeypatch.context() as patched:
        patched.setattr(scheduler.queues.parking_lot, "remove", _away)
        rounds(scheduler)
    (sent,) = running.dispatched()
    running.finish(sent)
    owner.ask_back(range(SLOTS))
    rounds(scheduler)
    rounds(running.scheduler(granted(2)), 3)

    assert running.dispatched() == []
    assert parked(running) == 0


# -- pages that ask for themselves ---------------------------------------------------------------

NO_FORCE = pytest.mark.parametrize("schedule", [{"age": 0}, {"itag": "new"}], ids=str)


class PublishedBetween:
    """Slot queues to which something is published once packs were read."""

    def __init__(self, queues: SlotQueues, publish: Callable[[], None]) -> None:
        self._queues = queues
        self._publish: Callable[[], None] | None = publish

    def __getattr__(self, name: str) -> Any:
        return getattr(self._queues, name)

    def read(self, kind: QueueKind, *args: Any) -> list[Delivery]:
        found = self._queues.read(kind, *args)
        publish, self._publish = self._publish, None
        if publish:
            publish()
        return found


def asking_again(world: World, sent: dict[str, Any], task: dict[str, Any]) -> None:
    """Publish what a processor does that runs a page which asks for itself."""
    slot = slot_of("p", SLOTS)
    messages = [(QueueKind.NEWTASK, task), (QueueKind.STATUS, _pack(sent))]
    world.queues.slot_queues.publish([Message(kind, slot, body) for kind, body in messages])


@NO_FORCE
def test_a_page_that_asks_for_itself_between_the_reads_of_a_round_is_sent_again(
    running: World, task: Task, schedule: dict[str, Any]
) -> None:
    scheduler = running.scheduler()
    running.new(task("p"))
    rounds(scheduler, 2)
    (sent,) = running.dispatched()
    scheduler.intake._queues = PublishedBetween(  # type: ignore[assignment]
        scheduler.intake._queues, lambda: asking_again(running, sent, task("p", **schedule))
    )
    rounds(scheduler, 3)

    assert [each["taskid"] for each in running.dispatched()] == ["t"]
    assert (queued(running), parked(running)) == (0, 0)


@NO_FORCE
def test_pages_that_ask_for_themselves_are_sent_again_though_many_packs_wait(
    running: World, task: Task, schedule: dict[str, Any]
) -> None:
    scheduler = running.scheduler()
    running.new(*(task("p", f"t{n:02}") for n in range(40)))
    rounds(scheduler, 2)
    sent = running.dispatched()
    scheduler.engine.LOOP_LIMIT = 10
    for each in sent[:30]:
        running.finish(each)
    for each in sent[30:]:
        asking_again(running, each, task("p", each["taskid"], **schedule))
    rounds(scheduler, 6)

    again = [each["taskid"] for each in running.dispatched()]
    assert sorted(again) == sorted(each["taskid"] for each in sent[30:])
    assert (queued(running), parked(running)) == (0, 0)


def test_a_page_whose_links_and_pack_are_not_read_at_once_is_sent_again(
    running: World, task: Task
) -> None:
    """Its pack waits for the links, and its request for the pack."""
    scheduler = running.scheduler()
    running.new(task("p"))
    rounds(scheduler, 2)
    (sent,) = running.dispatched()
    scheduler.engine.LOOP_LIMIT = 4
    links = [task("p", "t", age=0), *(task("p", f"link{n}") for n in range(9))]
    slot = slot_of("p", SLOTS)
    running.queues.slot_queues.publish(
        [Message(QueueKind.NEWTASK, slot, each) for each in links]
        + [Message(QueueKind.STATUS, slot, _pack(sent))]
    )
    rounds(scheduler, 4)

    again = [each["taskid"] for each in running.dispatched()]
    assert sorted(again) == sorted(each["taskid"] for each in links)


def test_requests_that_wait_for_packs_keep_out_no_new_task(running: World, task: Task) -> None:
    scheduler = running.scheduler()
    running.new(task("p"), *(task("p", f"t{n}") for n in range(9)))
    rounds(scheduler, 2)
    sent = running.dispatched()
    scheduler.engine.LOOP_LIMIT = 2
    running.new(*(task("p", f"link{n}") for n in range(30)))
    for each in sent:  # these packs wait for all those links
        running.finish(each)
    running.new(*(task("p", "t", age=0) for _ in range(100)), task(NEIGHBOUR, "other"))
    rounds(scheduler, 90)

    assert running.statuses(NEIGHBOUR) == {"other": ACTIVE}
    assert len(running.statuses("p")) == 40
    assert (queued(running), parked(running)) == (0, 0)


def test_a_page_that_asked_for_itself_before_its_project_was_at_fault_is_sent_again(
    running: World, task: Task
) -> None:
    scheduler = running.scheduler()
    running.new(task("p"))
    rounds(scheduler, 2)
    (sent,) = running.dispatched()
    scheduler.quarantine.put("p", "its row is no row")
    asking_again(running, sent, task("p", age=0))
    rounds(scheduler)
    assert parked(running) == 2
    scheduler.quarantine.release("p")
    rounds(scheduler, 2)

    assert [each["taskid"] for each in running.dispatched()] == ["t"]
    assert parked(running) == 0


# -- projects in quarantine ----------------------------------------------------------------------


def test_messages_of_a_project_in_quarantine_leave_the_queue_and_come_back_in_order(
    running: World, task: Task
) -> None:
    scheduler = running.scheduler()
    running.new(task("p", "first"))
    rounds(scheduler, 2)
    (sent,) = running.dispatched()
    scheduler.quarantine.put("p", "its row is no row")

    running.new(task("p", "second", priority=1), task(NEIGHBOUR, "other"))
    running.finish(sent)
    running.new(task("p", "first", force_update=True), task("p", "third"))
    rounds(scheduler)

    assert (queued(running), parked(running)) == (0, 4)
    assert [each["taskid"] for each in running.dispatched()] == ["other"]
    assert running.statuses("p") == {"first": ACTIVE}
    # when it comes out, with a message that is newer than those
    scheduler.quarantine.release("p")
    running.new(task("p", "fourth"))
    rounds(scheduler, 3)
    again = running.dispatched()
    # then the pack came before the new request for the same task
    assert sorted(each["taskid"] for each in again) == ["first", "fourth", "second", "third"]
    assert (queued(running), parked(running)) == (0, 0)
    assert running.queues.slot_queues.dead() == 0


def test_the_order_of_a_project_is_kept_though_it_takes_several_rounds(
    running: World, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = running.scheduler()
    rounds(scheduler)
    scheduler.quarantine.put("p", "its row is no row")
    running.new(*(task("p", "t", force_update=True, priority=n) for n in range(25)))
    rounds(scheduler)
    scheduler.engine.LOOP_LIMIT = 5
    scheduler.quarantine.release("p")
    stored: list[int] = []
    original = scheduler.engine.on_request

    def note(each: dict[str, Any]) -> Any:
        stored.append(each["schedule"]["priority"])
        return original(each)

    monkeypatch.setattr(scheduler.engine, "on_request", note)
    monkeypatch.setattr(scheduler.selection, "select", lambda: None)
    running.new(task("p", "t", force_update=True, priority=25))
    rounds(scheduler, 5)

    assert stored == list(range(26))
    assert parked(running) == 0


def test_what_comes_back_from_the_lot_leaves_half_of_the_round_to_others(
    running: World, task: Task
) -> None:
    scheduler = running.scheduler()
    rounds(scheduler)
    scheduler.engine.LOOP_LIMIT = 20
    scheduler.quarantine.put("p", "its row is no row")
    running.new(*(task("p", f"t{n}") for n in range(200)))
    rounds(scheduler, 10)
    scheduler.quarantine.release("p")

    running.new(task(NEIGHBOUR, "other"))
    rounds(scheduler)

    assert running.statuses(NEIGHBOUR) == {"other": ACTIVE}
    rounds(scheduler, 25)
    assert len(running.statuses("p")) == 200


@pytest.fixture
def kept_back(running: World, task: Task) -> SlotScheduler:
    """Give a scheduler of two projects that were in quarantine, with 300 messages and with five."""
    scheduler = running.scheduler()
    rounds(scheduler)
    for name, count in (("p", 300), (NEIGHBOUR, 5)):
        scheduler.quarantine.put(name, "its row is no row")
        running.new(*(task(name, f"t{n}") for n in range(count)))
    rounds(scheduler)
    scheduler.quarantine.release("p")
    scheduler.quarantine.release(NEIGHBOUR)
    return scheduler


def test_what_is_parked_comes_out_though_new_messages_keep_coming(
    kept_back: SlotScheduler, running: World, task: Task
) -> None:
    kept_back.engine.LOOP_LIMIT = 100
    for number in range(6):
        running.new(*(task("p", f"new{number}-{n}") for n in range(50)))
        rounds(kept_back)

    assert len(running.statuses("p")) == 600
    assert (queued(running), parked(running)) == (0, 0)


def test_projects_take_their_parked_messages_out_in_turns(
    kept_back: SlotScheduler, running: World
) -> None:
    kept_back.engine.LOOP_LIMIT = 5
    rounds(kept_back)

    assert (len(running.statuses("p")), len(running.statuses(NEIGHBOUR))) == (5, 5)


def test_the_rows_of_what_comes_out_of_the_lot_are_read_at_once(
    kept_back: SlotScheduler, running: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    get_many = kept_back.engine.taskdb.get_many

    def note(project: str, *more: Any) -> Any:
        asked.append(project)
        return get_many(project, *more)

    monkeypatch.setattr(kept_back.engine.taskdb, "get_many", note)
    kept_back.applier.apply(with_parked=True)

    assert sorted(asked) == ["p", NEIGHBOUR]
    kept_back.applier.write()
    assert len(running.statuses("p")) == 300


def test_of_more_projects_than_a_round_serves_each_has_its_turn(running: World, task: Task) -> None:
    names = [f"many{n}" for n in range(7)]
    for name in names:
        running.project(name)
    scheduler = running.scheduler()
    rounds(scheduler)
    for name in names:
        scheduler.quarantine.put(name, "its row is no row")
        running.new(*(task(name, f"t{n}") for n in range(20)))
    rounds(scheduler)
    for name in names:
        scheduler.quarantine.release(name)
    scheduler.engine.LOOP_LIMIT = 1
    rounds(scheduler, 7)

    assert [len(running.statuses(name)) for name in names] == [2] * 7


def test_a_round_for_new_messages_takes_out_what_keeps_them_back(
    kept_back: SlotScheduler, running: World, task: Task
) -> None:
    running.new(task(NEIGHBOUR, "new"))
    kept_back.take_arrivals()

    assert len(running.statuses(NEIGHBOUR)) == 6
    assert parked(running) == 0


def test_no_more_is_taken_out_at_once_than_has_room(
    kept_back: SlotScheduler, running: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(caps, "ROUND", 1)
    rounds(kept_back, 2)

    taken_out = len(running.statuses("p")) + len(running.statuses(NEIGHBOUR))
    assert (taken_out, parked(running)) == (2, 303)


def test_a_project_in_quarantine_fills_no_queue_beyond_the_bound_without_a_word(
    running: World, task: Task, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(parking.Parking.__init__, "__defaults__", (10, time.monotonic))
    scheduler = running.scheduler()
    scheduler.engine.LOOP_LIMIT = 20
    rounds(scheduler)
    scheduler.quarantine.put("p", "its row is no row")
    running.new(*(task("p", f"t{n}") for n in range(60)))
    with caplog.at_level(logging.ERROR, "scheduler"):
        rounds(scheduler, 8)
        running.new(task(NEIGHBOUR, "other"))
        rounds(scheduler, 2)

    assert parked(running) == 10
    assert queued(running) == 50
    assert [each["taskid"] for each in running.dispatched()] == ["other"]
    (line,) = [each for each in caplog.messages if "no room for more messages" in each]
    assert f"slot {slot_of('p', SLOTS)}" in line
    # and all come back
    scheduler.quarantine.release("p")
    rounds(scheduler, 40)
    assert len(running.statuses("p")) == 60
    assert (queued(running), parked(running)) == (0, 0)


def test_the_next_owner_finds_what_is_parked_for_a_project_in_quarantine(
    running: World, task: Task
) -> None:
    first = running.scheduler()
    rounds(first)
    first.quarantine.put("p", "its row is no row")
    running.new(task("p", "a"), task("p", "b"))
    rounds(first)

    assert parked(running) == 2
    after = running.scheduler(granted(2))
    rounds(after)

    assert running.statuses("p") == {"a": ACTIVE, "b": ACTIVE}
    assert parked(running) == 0


def test_what_is_parked_for_a_project_that_is_gone_is_dropped(running: World, task: Task) -> None:
    scheduler = running.scheduler()
    rounds(scheduler)
    scheduler.quarantine.put("p", "its row is no row")
    running.new(task("p", "a"))
    rounds(scheduler)
    running.projectdb.drop("p")
    scheduler.rows.look_soon()
    rounds(scheduler)
    scheduler.quarantine.drop("p")
    rounds(scheduler)

    assert parked(running) == 0


@pytest.mark.parametrize("kind", list(QueueKind))
def test_messages_of_a_project_whose_row_cannot_be_read_wait_and_are_not_rejected(
    running: World, task: Task, monkeypatch: pytest.MonkeyPatch, kind: QueueKind
) -> None:
    scheduler = running.scheduler()
    rounds(scheduler)
    running.project("late")
    get = scheduler.engine.projectdb.get

    def refuse(name: str, *args: Any) -> Any:
        if name == "late":
            scheduler.quarantine.put(name, "its row is no row")
            raise ValueError("its row is no row")
        return get(name, *args)

    sent = task("late", "a") if kind is QueueKind.NEWTASK else _pack(task("late", "a"))
    with monkeypatch.context() as patched:
        patched.setattr(scheduler.engine.projectdb, "get", refuse)
        running.send(kind, sent)
        rounds(scheduler, TRIES + 2)
        assert (queued(running), parked(running)) == (0, 1)
        assert "late" in scheduler.quarantine
    scheduler.quarantine.release("late")
    rounds(scheduler, 2)

    assert parked(running) == 0
    assert running.statuses("late") == ({"a": ACTIVE} if kind is QueueKind.NEWTASK else {})
    assert running.queues.slot_queues.dead() == 0


# -- messages that fail --------------------------------------------------------------------------


def test_messages_that_fail_fill_no_queue_while_they_wait_for_their_next_try(
    running: World, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = running.scheduler()
    rounds(scheduler)
    insert = scheduler.engine.taskdb.insert

    def refuse(project: str, *args: Any) -> Any:
        if project == "p":
            raise ValueError("this row is of no use")
        return insert(project, *args)

    monkeypatch.setattr(scheduler.engine.taskdb, "insert", refuse)
    running.new(*(task("p", f"t{n}") for n in range(100)))
    running.new(task(NEIGHBOUR, "other"))
    rounds(scheduler, 2)

    assert queued(running) == 0
    assert [each["taskid"] for each in running.dispatched()] == ["other"]
    assert parked(running) == 100
    # and the faults are those of the messages
    rounds(scheduler, TRIES + 30)
    assert (parked(running), running.queues.slot_queues.dead()) == (0, 100)


# -- packs and follow-ups ------------------------------------------------------------------------


def test_a_pack_waits_until_all_its_follow_ups_are_stored(running: World, task: Task) -> None:
    scheduler = running.scheduler()
    running.new(task("p", "page"))
    rounds(scheduler, 2)
    (sent,) = running.dispatched()
    scheduler.engine.LOOP_LIMIT = 10
    slot = slot_of("p", SLOTS)
    follow_ups = [task("p", f"t{n}") for n in range(25)]
    running.queues.slot_queues.publish(
        [Message(QueueKind.NEWTASK, slot, each) for each in follow_ups]
        + [Message(QueueKind.STATUS, slot, _pack(sent))]
    )

    seen = []
    for _ in range(3):
        rounds(scheduler)
        statuses = running.statuses("p")
        seen.append((len(statuses) - 1, statuses["page"]))

    assert seen == [(10, ACTIVE), (20, ACTIVE), (25, SUCCESS)]


def test_a_pack_waits_for_follow_ups_that_were_not_even_read(running: World, task: Task) -> None:
    scheduler = running.scheduler()
    running.new(task("p", "page"))
    rounds(scheduler, 2)
    (sent,) = running.dispatched()
    scheduler.engine.LOOP_LIMIT = 4
    running.new(*(task("p", f"t{n}") for n in range(10)))
    running.send(QueueKind.STATUS, _pack(sent))

    seen = []
    for _ in range(3):
        rounds(scheduler)
        statuses = running.statuses("p")
        seen.append((len(statuses) - 1, statuses["page"]))

    assert seen == [(4, ACTIVE), (8, ACTIVE), (10, SUCCESS)]


def test_a_follow_up_is_stored_before_its_page_counts_as_done(
    running: World, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = running.scheduler()
    running.new(task("p", "page"))
    rounds(scheduler, 2)
    (sent,) = running.dispatched()
    written: list[tuple[str, int]] = []
    for name in ("insert_task", "update_task"):
        _note(monkeypatch, scheduler, name, written)

    running.new(task("p", "follow_up"))
    running.finish(sent)
    rounds(scheduler)

    assert written == [("follow_up", ACTIVE), ("page", SUCCESS)]


def test_packs_of_other_slots_wait_for_nothing(running: World, task: Task) -> None:
    other = next(name for name in "abcdefgh" if slot_of(name, SLOTS) != slot_of("p", SLOTS))
    running.project(other)
    running.script_is_known(other)
    scheduler = running.scheduler()
    running.new(task(other, "page"))
    rounds(scheduler, 2)
    (sent,) = running.dispatched()
    scheduler.engine.LOOP_LIMIT = 10

    running.new(*(task("p", f"t{n}") for n in range(100)))
    running.finish(sent)
    rounds(scheduler)

    assert running.statuses(other) == {"page": SUCCESS}


def test_a_pack_waits_for_no_parked_message(running: World, task: Task) -> None:
    scheduler = running.scheduler()
    running.new(task("p", "page"), task("p", "slow"))
    rounds(scheduler, 2)
    sent = {each["taskid"]: each for each in running.dispatched()}

    running.new(task("p", "slow", force_update=True))
    running.finish(sent["page"])
    rounds(scheduler)

    assert running.statuses("p") == {"page": SUCCESS, "slow": ACTIVE}
    assert parked(running) == 1


# -- the fence ------------------------------------------------------------------------------------


def test_what_was_selected_is_put_back_if_the_fence_shuts_before_it_is_sent(
    running: World, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = running.scheduler()
    running.new(*(task("p", each, priority=n) for n, each in enumerate("abc")))
    owner = scheduler.fence.ownership
    assert isinstance(owner, SoleOwner)
    rounds(scheduler)
    running.dispatched()
    for each in "abc":
        scheduler.engine.projects["p"].task_queue.done(each)
        scheduler.engine.projects["p"].task_queue.put(each)
    get_many = scheduler.engine.taskdb.get_many

    def shut(*args: Any, **kwargs: Any) -> Any:
        owner.lose_lease()
        return get_many(*args, **kwargs)

    with monkeypatch.context() as patched:
        patched.setattr(scheduler.engine.taskdb, "get_many", shut)
        with suppress(FenceClosed):
            rounds(scheduler)
    assert running.dispatched() == []
    owner.renew_lease()
    rounds(scheduler, 2)

    assert sorted(each["taskid"] for each in running.dispatched()) == ["a", "b", "c"]


def _pack(sent: dict[str, Any]) -> dict[str, Any]:
    track = {"fetch": {"ok": True}, "process": {"ok": True}}
    return {**{key: sent[key] for key in ("taskid", "project", "url")}, "track": track}


def _note(
    monkeypatch: pytest.MonkeyPatch,
    scheduler: SlotScheduler,
    method: str,
    written: list[tuple[str, int]],
) -> None:
    original = getattr(scheduler.engine, method)

    def noting(task: dict[str, Any]) -> Any:
        written.append((task["taskid"], task["status"]))
        return original(task)

    monkeypatch.setattr(scheduler.engine, method, noting)
