"""Rows that are refused, tables that cannot be read, slots that go: what a commit leaves behind."""

import sqlite3
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from pyspider_zk.errors import ClusterError, DatabaseAway, FenceClosed, Unavailable
from pyspider_zk.projects.slots import slot_of
from pyspider_zk.queues.api import Message
from pyspider_zk.queues.names import QueueKind
from pyspider_zk.scheduling.scheduler import SlotScheduler
from tests.support.sole_owner import SoleOwner
from tests.support.world import SLOTS, World, crawling, read_and_write, with_table

Task = Callable[..., dict[str, Any]]

ELSEWHERE = next(f"z{n}" for n in range(1000) if slot_of(f"z{n}", SLOTS) != slot_of("p", SLOTS))


def rounds(scheduler: SlotScheduler, count: int) -> None:
    for _ in range(count):
        scheduler.run_once()


def back(scheduler: SlotScheduler) -> None:
    """Let the scheduler try its database again at once."""
    scheduler.engine.taskdb._database._breaker.answered()


def test_a_refusal_is_not_forgotten_when_the_rest_of_the_commit_fails(
    world: World, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = with_table(world, task)
    world.refuse_row("p", "bad")
    world.new(task("p", "bad"), task("p", "b"))
    bulk = scheduler.engine.taskdb._bulk
    write_many = bulk.write_many

    def broken(writes: Any, check: Callable[[], None], seals: Any) -> None:
        if all(each.taskid != "bad" for each in writes):
            raise DatabaseAway("gone in the middle")
        write_many(writes, check, seals)

    monkeypatch.setattr(bulk, "write_many", broken)
    with pytest.raises(DatabaseAway):
        scheduler.run_once()
    monkeypatch.setattr(bulk, "write_many", write_many)
    world.accept_row()
    rounds(scheduler, 8)

    assert set(world.statuses("p")) == {"first", "b", "bad"}


def test_what_is_refused_counts_once_it_is_written(world: World, task: Task) -> None:
    scheduler = with_table(world, task)
    (first,) = world.dispatched()
    events = scheduler.engine.counts.events
    for taskid, kind in (("bad", "pending"), ("first", "success")):
        before = events[kind]
        world.refuse_row("p", taskid)
        if kind == "pending":
            world.new(task("p", taskid))
        else:
            world.finish(first)
        rounds(scheduler, 2)
        assert events[kind] == before
        world.accept_row()
        rounds(scheduler, 8)
        assert events[kind] == before + 1


@pytest.mark.parametrize("body", [5, "garbage", None])
def test_a_bad_message_does_not_break_the_settling_of_a_refusal(
    world: World, task: Task, body: Any
) -> None:
    scheduler = with_table(world, task)
    world.refuse_row("p", "bad")
    world.new(task("p", "bad"), task("p", "b"))
    slot = slot_of("p", SLOTS)
    world.queues.slot_queues.publish([Message(QueueKind.NEWTASK, slot, body)])
    scheduler.run_once()
    world.accept_row()
    rounds(scheduler, 8)

    assert set(world.statuses("p")) == {"first", "b", "bad"}
    assert world.waiting() == 0


def test_a_bad_item_does_not_break_the_settling_of_a_refusal(world: World, task: Task) -> None:
    scheduler = with_table(world, task)
    world.refuse_row("p", "bad")
    world.new(task("p", "b"), task("p", "bad"), {**task("p", "x"), "taskid": ["x"]})
    scheduler.run_once()
    world.accept_row()
    rounds(scheduler, 8)

    assert set(world.statuses("p")) == {"first", "b", "bad"}
    assert world.waiting() == 0


def in_quarantine(world: World, task: Task, scheduler: SlotScheduler) -> None:
    """Park new, and first by force, while ``first`` is in flight."""
    scheduler.quarantine.put("p", "for the test")
    world.new(task("p", "new"), task("p", "first", force_update=True))
    scheduler.run_once()
    assert world.waiting() == 0
    scheduler.quarantine.release("p")


def test_a_parked_message_whose_row_is_refused_keeps_it_if_the_rest_is_put_off(
    world: World, task: Task
) -> None:
    scheduler = with_table(world, task)
    assert scheduler.engine.projects["p"].task_queue.is_processing("first")
    in_quarantine(world, task, scheduler)
    world.refuse_row("p", "new")
    scheduler.run_once()
    world.accept_row()
    rounds(scheduler, 8)

    assert set(world.statuses("p")) == {"first", "new"}


def test_a_parked_message_that_is_put_off_again_leaves_nothing_to_finish(
    world: World, task: Task
) -> None:
    scheduler = with_table(world, task)
    in_quarantine(world, task, scheduler)
    scheduler.run_once()

    assert set(world.statuses("p")) == {"first", "new"}
    assert scheduler.applier.unfinished() == set()


def test_a_parked_message_of_a_slot_that_was_lost_is_left_to_the_next_owner(
    world: World, task: Task
) -> None:
    world.project(ELSEWHERE)
    world.script_is_known(ELSEWHERE)
    owner = SoleOwner(SLOTS)
    scheduler = with_table(world, task, owner)
    in_quarantine(world, task, scheduler)
    world.new(task(ELSEWHERE, "other"))
    with world.tasks_locked(), pytest.raises(DatabaseAway):
        read_and_write(scheduler)
    back(scheduler)
    slot = slot_of("p", SLOTS)
    scheduler.handover.give_up({slot: 1}, planned=False)
    with suppress(FenceClosed):
        read_and_write(scheduler)

    successor = world.scheduler()
    rounds(successor, 5)
    assert set(world.statuses("p")) == {"first", "new"}


def test_a_cancelled_task_whose_row_is_refused_is_still_in_memory(world: World, task: Task) -> None:
    scheduler = with_table(world, task)
    world.finish(*(each for each in world.dispatched() if each["taskid"] == "first"))
    world.new(task("p", "later", exetime=2e10))
    scheduler.run_once()
    tasks = scheduler.engine.projects["p"].task_queue
    assert "later" in tasks
    world.refuse_row("p", "later")
    world.new(task("p", "later", force_update=True, cancel=True))
    rounds(scheduler, 10)
    world.accept_row()

    assert world.statuses("p")["later"] == 1
    assert "later" in tasks


def broken_table(world: World) -> None:
    world.taskdb._execute("ALTER TABLE taskdb_p RENAME COLUMN schedule TO broken")


def test_a_project_whose_table_cannot_be_read_ahead_stops_no_other(
    world: World, task: Task
) -> None:
    scheduler = with_table(world, task)
    world.project(ELSEWHERE)
    world.script_is_known(ELSEWHERE)
    rounds(scheduler, 2)
    broken_table(world)
    world.new(task("p", "x"), task(ELSEWHERE, "y"))
    for _ in range(8):
        with suppress(Exception):
            scheduler.run_once()

    assert set(world.statuses(ELSEWHERE)) == {"y"}
    assert "y" in {each["taskid"] for each in world.dispatched()}


def test_a_project_whose_table_cannot_be_read_for_selection_stops_no_other(
    world: World, task: Task
) -> None:
    scheduler = crawling(world)
    world.project(ELSEWHERE)
    world.script_is_known(ELSEWHERE)
    rounds(scheduler, 2)
    world.new(task("p", "x"), task(ELSEWHERE, "y"))
    read_and_write(scheduler)
    broken_table(world)
    for _ in range(4):
        with suppress(Exception):
            scheduler.run_once()

    assert "y" in {each["taskid"] for each in world.dispatched()}
    scheduler.run_once()  # does not fail for ever


def test_writes_of_a_project_that_left_quarantine_as_gone_close_no_fence_for_ever(
    world: World, task: Task
) -> None:
    world.project(ELSEWHERE)
    world.script_is_known(ELSEWHERE)
    scheduler = with_table(world, task)
    rounds(scheduler, 2)
    world.new(task("p", "a"), task(ELSEWHERE, "b"))
    with world.tasks_locked():
        with pytest.raises(DatabaseAway):
            read_and_write(scheduler)
        world.projectdb.update("p", {"rate": "x"})
        scheduler.rows.look_soon()
        with suppress(ClusterError):
            scheduler.run_once()
        assert "p" in scheduler.quarantine
        world.projectdb.drop("p")
        scheduler.project_set._look("p")  # as when its next try is due before the index is read
    back(scheduler)
    scheduler.handover.give_up({slot_of("p", SLOTS): 1}, planned=False)
    for _ in range(3):
        with suppress(FenceClosed):
            read_and_write(scheduler)

    read_and_write(scheduler)  # does not fail for ever
    assert set(world.statuses(ELSEWHERE)) == {"b"}


def test_a_slot_without_writes_moves_cleanly_while_the_database_is_away(
    world: World, task: Task
) -> None:
    world.project(ELSEWHERE)
    world.script_is_known(ELSEWHERE)
    scheduler = with_table(world, task)
    world.new(task(ELSEWHERE, "in flight"))
    rounds(scheduler, 2)
    assert scheduler.engine.projects[ELSEWHERE].task_queue.is_processing("in flight")
    world.dispatched()
    world.new(task("p", "a"))
    with world.tasks_locked():
        with pytest.raises(DatabaseAway):
            read_and_write(scheduler)
        scheduler.handover.give_up({slot_of(ELSEWHERE, SLOTS): 1}, planned=True)

    owner = SoleOwner(SLOTS, [slot_of(ELSEWHERE, SLOTS)])
    owner.grant([slot_of(ELSEWHERE, SLOTS)], 2)
    rounds(world.scheduler(owner), 3)
    assert "in flight" not in {each["taskid"] for each in world.dispatched()}


def test_a_forced_request_put_off_behind_a_refused_pack_is_applied_once(
    world: World, task: Task
) -> None:
    scheduler = with_table(world, task)
    (sent,) = world.dispatched()
    world.refuse_row("p", "first")
    world.new(task("p", "first", force_update=True, itag="2"))
    world.finish(sent)
    scheduler.run_once()
    world.accept_row()
    fetched = 0
    for _ in range(12):
        scheduler.run_once()
        again = world.dispatched()
        fetched += len(again)
        world.finish(*again[:1]) if again else None

    assert fetched == 1
    assert world.waiting() == 0


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_database_that_fails_at_the_commit_itself_loses_nothing(
    world: World, task: Task, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    scheduler = with_table(world, task)
    world.new(task("p", "a"), task("p", "b"))
    bulk = scheduler.engine.taskdb._bulk
    write_many = bulk.write_many

    def fail(writes: Any, check: Callable[[], None], seals: Any) -> None:
        if moment == "after":
            write_many(writes, check, seals)
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode = sqlite3.SQLITE_IOERR  # type: ignore[misc]
        raise error

    monkeypatch.setattr(bulk, "write_many", fail)
    with pytest.raises(DatabaseAway):
        scheduler.run_once()
    monkeypatch.setattr(bulk, "write_many", write_many)
    back(scheduler)
    rounds(scheduler, 3)
    assert set(world.statuses("p")) == {"first", "a", "b"}
    assert world.waiting() == 0


def test_a_bad_message_becomes_a_dead_letter_also_if_the_acknowledgement_fails_once(
    world: World, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = with_table(world, task)
    slot = slot_of("p", SLOTS)
    world.queues.slot_queues.publish([Message(QueueKind.NEWTASK, slot, 5)])
    queues = scheduler.intake._queues
    acknowledge = queues.acknowledge

    def away_once(_deliveries: Any) -> None:
        monkeypatch.setattr(queues, "acknowledge", acknowledge)
        raise Unavailable("for a moment")

    monkeypatch.setattr(queues, "acknowledge", away_once)
    with pytest.raises(Unavailable):
        scheduler.run_once()
    rounds(scheduler, 5)

    assert len(world.queues.slot_queues.dead_letters(9)) == 1
    assert world.waiting() == 0


def test_signs_of_life_go_on_while_a_project_is_refused(
    world: World, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = with_table(world, task)
    tries: list[int] = []
    bulk = scheduler.engine.taskdb._bulk
    write_many = bulk.write_many

    def count(writes: Any, check: Callable[[], None], seals: Any) -> None:
        tries.append(len(writes))
        write_many(writes, check, seals)

    beat = scheduler.applier._heartbeat.beat

    def alive() -> None:
        most.append(len(tries))
        tries.clear()
        beat()

    most: list[int] = []
    world.taskdb._execute(
        "CREATE TRIGGER no BEFORE INSERT ON taskdb_p BEGIN SELECT RAISE(ABORT, 'no'); END"
    )
    world.new(*(task("p", f"t{n}") for n in range(500)))
    monkeypatch.setattr(bulk, "write_many", count)
    monkeypatch.setattr(scheduler.applier._heartbeat, "beat", alive)

    scheduler.run_once()

    alive()

    assert max(most) < 100


def test_a_forced_request_whose_commit_failed_is_fetched_once_more_after_a_planned_move(
    world: World, task: Task
) -> None:
    owner = SoleOwner(SLOTS)
    scheduler = with_table(world, task, owner)
    (sent,) = world.dispatched()
    world.new(task("p", "first", force_update=True))
    world.finish(sent)
    owner.lose_lease()
    with suppress(FenceClosed):
        read_and_write(scheduler)
    owner.renew_lease()
    owner.ask_back([slot_of("p", SLOTS)])
    rounds(scheduler, 2)
    again = SoleOwner(SLOTS, [])
    again.grant([slot_of("p", SLOTS)], 2)
    successor = world.scheduler(again)
    rounds(successor, 6)

    assert [each["taskid"] for each in world.dispatched()] == ["first"]
