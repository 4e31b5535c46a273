"""A database that fails for a moment: nothing is left out, and no other project waits for it."""

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from pyspider.database.sqlite.taskdb import TaskDB

from pyspider_zk.databases import breaker
from pyspider_zk.errors import DatabaseAway
from pyspider_zk.projects.slots import slot_of
from pyspider_zk.scheduling import intake, quarantine
from pyspider_zk.scheduling.scheduler import SlotScheduler
from tests.support.sole_owner import SoleOwner
from tests.support.world import SLOTS, World, granted

Task = Callable[..., dict[str, Any]]
ACTIVE, SUCCESS, FAILED = TaskDB.ACTIVE, TaskDB.SUCCESS, TaskDB.FAILED


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let what failed be tried again in the next round."""
    monkeypatch.setattr(quarantine, "PAUSES", (0.0,))
    monkeypatch.setattr(breaker, "PAUSES", (1e-9,))
    monkeypatch.setattr(
        intake.Intake.__init__, "__defaults__", ((0.0, 0.0, 0.0, 0.0), time.monotonic)
    )


def test_projects_taken_over_while_the_tasks_are_locked_are_loaded_afterwards(
    world: World, task: Task
) -> None:
    names = ["p", *_of_the_same_slot("p", 2)]
    for name in names:
        world.project(name)
        world.new(task(name))
    world.scheduler().run_once()
    after = world.scheduler(SoleOwner(SLOTS, ()))
    after.run_once()
    after.fence.ownership.grant(range(SLOTS), 2)

    with _locked(world, after):
        after.run_once()
    for name in names:
        world.script_is_known(name)
    _rounds(after, 3)

    assert sorted(each["project"] for each in world.dispatched()) == sorted(names)


def test_what_was_handed_over_while_the_tasks_are_locked_is_handed_on(
    world: World, task: Task
) -> None:
    sent = _handed_over(world, task("p"))
    between = world.scheduler(granted(2))

    with _locked(world, between):
        between.run_once()
        _release_all(between)
    after = world.scheduler(granted(3))
    _rounds(after, 2)
    world.finish(sent)
    after.run_once()

    assert world.dispatched() == []
    assert world.statuses("p") == {"t": SUCCESS}


def test_what_a_dead_owner_left_is_handed_on_while_the_tasks_are_locked(world: World) -> None:
    world.project("p")
    world.script_is_known("p", min_tick=10)
    before = world.scheduler(granted(1))
    _rounds(before, 2)
    last = int(time.time()) // 10 * 10 - 60
    before.cron.start("p", last)
    assert before.handover.save(range(SLOTS))
    between = world.scheduler(granted(2))

    with _locked(world, between):
        between.run_once()
        _release_all(between)
    after = world.scheduler(granted(3))
    _rounds(after, 2)

    assert {*range(last + 10, last + 60, 10)} <= set(_ticks(world))


def test_a_project_that_is_half_loaded_refuses_no_pack(world: World, task: Task) -> None:
    sent = _handed_over(world, task("p"))
    after = world.scheduler(granted(2))
    world.finish(sent)

    with _locked(world, after):
        _rounds(after, 2)
    _rounds(after, 2)

    assert world.statuses("p") == {"t": SUCCESS}


def test_changes_of_projects_are_seen_though_the_first_cannot_be_read(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "pqr":
        world.project(name)
    scheduler = world.scheduler()
    scheduler.run_once()
    for name in "pqr":
        world.projectdb.update(name, {"status": "STOP"})

    _fail(monkeypatch, scheduler.engine.projectdb, "get")
    scheduler.rows.look_soon()
    _rounds(scheduler, 3)

    assert {name: each.db_status for name, each in scheduler.engine.projects.items()} == {
        "p": "STOP",
        "q": "STOP",
        "r": "STOP",
    }


def test_a_failed_fetch_counts_as_one_however_often_its_pack_is_applied(
    world: World, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.project("p")
    world.script_is_known("p")
    world.new(task("p"))
    scheduler = world.scheduler()
    _rounds(scheduler, 2)
    (sent,) = world.dispatched()
    world.finish(sent, ok=False)

    _fail(monkeypatch, scheduler.engine.taskdb, "update", times=3)
    _rounds(scheduler, 4)

    row = world.database("task").get_task("p", "t", ["status", "schedule"])
    assert (row["status"], row["schedule"]["retried"]) == (ACTIVE, 1)


def test_a_task_that_cannot_be_stored_holds_up_no_other(
    world: World, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.project("p")
    scheduler = world.scheduler()
    world.new(*(task("p", each) for each in "abcd"))

    _fail_for(monkeypatch, scheduler.engine.taskdb, "insert", "b")
    _rounds(scheduler, 6)

    assert set(world.statuses("p")) == {"a", "c", "d"}
    assert len(world.queues.slot_queues.dead_letters(10)) == 1


def test_of_what_was_selected_only_the_row_that_cannot_be_read_waits_for_its_time_out(
    world: World, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "abc":
        world.taskdb.insert("p", name, {**task("p", name), "status": world.taskdb.ACTIVE})
    world.project("p")
    world.script_is_known("p")
    scheduler = world.scheduler()
    select = scheduler.selection.select

    def select_after_damage(*args: Any) -> Any:
        if "p" in world.database("task").projects:
            world.taskdb._execute("UPDATE taskdb_p SET process = '{' WHERE taskid = 'b'")
        return select(*args)

    monkeypatch.setattr(scheduler.selection, "select", select_after_damage)

    _rounds(scheduler, 4)

    assert sorted(each["taskid"] for each in world.dispatched()) == ["a", "c"]
    assert scheduler.engine.projects["p"].task_queue.is_processing("b")


def test_on_finished_survives_a_database_that_fails(
    world: World, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.project("p")
    world.script_is_known("p")
    world.new(task("p"))
    scheduler = world.scheduler()
    _rounds(scheduler, 2)
    world.finish(*world.dispatched())
    while scheduler.engine.projects["p"].idle_rounds < scheduler.engine.FAIL_PAUSE_NUM:
        scheduler.run_once()
    _fail(monkeypatch, scheduler.engine.taskdb, "get_task")
    scheduler.run_once()
    scheduler.quarantine.renew("p")
    _rounds(scheduler, 3)

    assert [each["taskid"] for each in world.dispatched()] == ["on_finished"]


def _handed_over(world: World, new: dict[str, Any]) -> dict[str, Any]:
    """Let a first owner dispatch a task and give everything up in order; return what it sent."""
    world.project(new["project"])
    world.script_is_known(new["project"])
    world.new(new)
    before = world.scheduler()
    _rounds(before, 2)
    (sent,) = world.dispatched()
    _release_all(before)
    return sent


@contextmanager
def _locked(world: World, scheduler: SlotScheduler) -> Iterator[None]:
    """Lock the task database, as a process does that is stopped in the middle of a write."""
    scheduler.engine.databases._tasks._execute("PRAGMA busy_timeout=0")
    locking = world.database("task")
    locking._execute("BEGIN EXCLUSIVE")
    yield
    locking._execute("COMMIT")


def _ticks(world: World) -> list[int]:
    """Take what was dispatched; return the ticks among it."""
    sent = []
    while not world.fetcher.empty():
        sent.append(world.fetcher.get_nowait())
    return [task["fetch"]["save"]["tick"] for task in sent if task["taskid"] == "_on_cronjob"]


def _fail(monkeypatch: pytest.MonkeyPatch, database: Any, method: str, times: int = 1) -> list[Any]:
    """Make a method fail the first times; return the calls."""
    calls: list[Any] = []
    original = getattr(database, method)

    def failing(*args: Any, **kwargs: Any) -> Any:
        calls.append(args)
        if len(calls) <= times:
            raise sqlite3.OperationalError("database is locked")
        return original(*args, **kwargs)

    monkeypatch.setattr(database, method, failing)
    return calls


def _fail_for(
    monkeypatch: pytest.MonkeyPatch, database: Any, method: str, taskid: str, skip: int = 0
) -> None:
    """Make a method fail for one task, after so many calls for it."""
    original = getattr(database, method)
    left = [skip]

    def failing(*args: Any, **kwargs: Any) -> Any:
        if taskid not in args:
            return original(*args, **kwargs)
        left[0] -= 1
        if left[0] < 0:
            raise sqlite3.DatabaseError("malformed")
        return original(*args, **kwargs)

    monkeypatch.setattr(database, method, failing)


def _of_the_same_slot(name: str, count: int) -> list[str]:
    wanted = slot_of(name, SLOTS)
    found = (f"z{n}" for n in range(1000) if slot_of(f"z{n}", SLOTS) == wanted)
    return [next(found) for _ in range(count)]


def _rounds(scheduler: SlotScheduler, count: int) -> None:
    """Run rounds; one that fails is not the last, as in the scheduler's loop."""
    for _ in range(count):
        with suppress(sqlite3.Error, DatabaseAway):
            scheduler.run_once()


def _release_all(scheduler: SlotScheduler) -> None:
    scheduler.fence.ownership.ask_back(range(SLOTS))
    _rounds(scheduler, 1)
