"""What a round writes takes effect together, or not at all, and only then is it acknowledged."""

from collections.abc import Callable
from typing import Any

import pytest

from pyspider_zk.errors import DatabaseAway, FenceClosed
from tests.support.sole_owner import SoleOwner
from tests.support.world import MOMENT, SLOTS, World, crawling, read_and_write, with_table

Task = Callable[..., dict[str, Any]]


def test_a_round_is_one_transaction_of_all_its_projects(
    world: World, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = crawling(world)
    for name in ("q", "r"):
        world.project(name)
    world.new(*(task(project, f"t{n}") for n in range(20) for project in "pqr"))
    transactions: list[int] = []
    bulk = scheduler.engine.taskdb._bulk
    write_many = bulk.write_many
    monkeypatch.setattr(
        bulk,
        "write_many",
        lambda writes, *more: (transactions.append(len(writes)), write_many(writes, *more))[1],
    )

    scheduler.run_once()

    assert transactions == [60]
    assert len(world.statuses("q")) == 20


def test_messages_are_acknowledged_only_once_their_rows_are_committed(
    world: World, task: Task
) -> None:
    scheduler = crawling(world)
    world.new(task("p", "first"))
    scheduler.run_once()
    world.finish(*(each for each in world.dispatched() if each["taskid"] == "first"))
    world.new(task("p", "second"))
    with world.tasks_locked(), pytest.raises(DatabaseAway):
        read_and_write(scheduler)

    assert world.waiting() == 2
    successor = world.scheduler()
    successor.run_once()
    assert world.statuses("p") == {"first": 2, "second": 1}
    assert world.waiting() == 0


def test_an_owner_goes_on_after_an_outage_where_it_stood(world: World, task: Task) -> None:
    scheduler = crawling(world)
    world.new(task("p", "a"), task("p", "b"))
    with world.tasks_locked(), pytest.raises(DatabaseAway):
        read_and_write(scheduler)
    scheduler.engine.taskdb._database._breaker.answered()
    scheduler.run_once()

    assert world.statuses("p") == {"a": 1, "b": 1}
    assert world.waiting() == 0
    assert sorted(each["taskid"] for each in world.dispatched()) == ["a", "b"]


def test_nothing_is_written_if_the_lease_ends_while_the_transaction_is_open(
    world: World, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = SoleOwner(SLOTS)
    scheduler = crawling(world, owner)
    world.new(task("p", "a"))
    bulk = scheduler.engine.taskdb._bulk
    write_many = bulk.write_many

    def stopped_before_commit(writes: Any, check: Callable[[], None], seals: Any) -> None:
        def late() -> None:
            owner.lose_lease()
            check()

        write_many(writes, late, seals)

    monkeypatch.setattr(bulk, "write_many", stopped_before_commit)
    with pytest.raises(FenceClosed):
        scheduler.run_once()

    assert world.statuses("p") == {}
    assert world.waiting() == 1


def test_a_new_task_whose_row_is_refused_is_not_sent_and_becomes_a_dead_letter(
    world: World, task: Task
) -> None:
    scheduler = with_table(world, task)
    world.refuse_row("p", "bad")
    world.new(*(task("p", each) for each in ("a", "bad", "b")))
    for _ in range(8):
        scheduler.run_once()

    assert set(world.statuses("p")) == {"first", "a", "b"}
    assert {each["taskid"] for each in world.dispatched()} == {"first", "a", "b"}
    assert "bad" not in scheduler.engine.projects["p"].task_queue
    (letter,) = world.queues.slot_queues.dead_letters(9)
    assert "failed 3 times" in letter.reason
    assert world.waiting() == 0


def test_a_new_task_whose_row_was_refused_is_applied_once_it_is_accepted(
    world: World, task: Task
) -> None:
    scheduler = with_table(world, task)
    world.refuse_row("p", "late")
    world.new(task("p", "late"))
    scheduler.run_once()
    world.accept_row()
    for _ in range(3):
        scheduler.run_once()

    assert set(world.statuses("p")) == {"first", "late"}
    assert [each["taskid"] for each in world.dispatched()] == ["first", "late"]


def test_a_pack_whose_row_is_refused_is_applied_later(world: World, task: Task) -> None:
    scheduler = crawling(world)
    scheduler.intake._pauses = (MOMENT, MOMENT)
    world.new(task("p", "a"))
    scheduler.run_once()
    (sent,) = world.dispatched()
    world.refuse_row("p", "a")
    world.finish(sent)
    scheduler.run_once()
    assert scheduler.engine.projects["p"].task_queue.is_processing("a")
    world.accept_row()
    for _ in range(3):
        scheduler.run_once()

    assert world.statuses("p") == {"a": 2}
    assert world.waiting() == 0
    assert len(scheduler.engine.projects["p"].task_queue) == 0


def test_a_failed_fetch_whose_row_is_refused_waits_for_no_second_fetch(
    world: World, task: Task
) -> None:
    scheduler = crawling(world)
    scheduler.intake._pauses = (MOMENT, MOMENT)
    world.new(task("p", "a"))
    scheduler.run_once()
    (sent,) = world.dispatched()
    world.refuse_row("p", "a")
    world.finish(sent, ok=False)
    scheduler.run_once()

    tasks = scheduler.engine.projects["p"].task_queue
    assert tasks.is_processing("a")
    assert "a" not in tasks.time_queue


def test_a_slot_that_moves_while_the_database_is_away_moves_as_after_a_death(
    world: World, task: Task
) -> None:
    scheduler = crawling(world)
    world.new(task("p", "a"))
    with world.tasks_locked():
        with pytest.raises(DatabaseAway):
            read_and_write(scheduler)
        scheduler.handover.give_up(dict(scheduler.fence.held), planned=True)

    records = world.queues.records.load_many(range(SLOTS))
    assert [record["clean"] for record in records.values() if record["clean"]] == []
    assert world.waiting() == 1
    assert not scheduler.engine.taskdb.projects_with_writes
    successor = world.scheduler()
    for _ in range(2):
        successor.run_once()
    assert world.statuses("p") == {"a": 1}


def test_a_project_that_is_started_again_is_loaded_once_its_rows_are_written(
    world: World, task: Task
) -> None:
    scheduler = crawling(world)
    world.new(task("p", "a"))
    with world.tasks_locked():
        with pytest.raises(DatabaseAway):
            read_and_write(scheduler)
        for status in ("STOP", "RUNNING"):
            world.projectdb.update("p", {"status": status})
            scheduler.rows.look_soon()
            with pytest.raises(DatabaseAway):
                scheduler.run_once()
    scheduler.engine.taskdb._database._breaker.answered()
    for _ in range(3):
        scheduler.run_once()

    assert world.statuses("p") == {"a": 1}
    assert [each["taskid"] for each in world.dispatched()] == ["a"]
