"""Projects with more pending tasks than memory has room for: none is lost, and nobody waits."""

import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any

import pytest
from pyspider.database.sqlite.taskdb import TaskDB

from pyspider_zk.errors import DatabaseAway
from pyspider_zk.projects.slots import slot_of
from pyspider_zk.scheduling import loading, window
from pyspider_zk.scheduling.scheduler import SlotScheduler
from tests.support.clock import Clock
from tests.support.sole_owner import SoleOwner
from tests.support.world import SLOTS, World, crawling, granted

Task = Callable[..., dict[str, Any]]

ACTIVE, SUCCESS = TaskDB.ACTIVE, TaskDB.SUCCESS
LIMIT, MANY = 4, 40


@pytest.fixture(autouse=True)
def little_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let there be room for few tasks, and small pages."""
    monkeypatch.setattr(window, "MOST_DUE", LIMIT)
    monkeypatch.setattr(window, "MOST_PUT_OFF", LIMIT)
    monkeypatch.setattr(window, "SMALLEST", LIMIT)
    monkeypatch.setattr(loading, "PAGE", 3)
    monkeypatch.setattr(loading, "STEP", 7)


def held(scheduler: SlotScheduler, project: str = "p") -> int:
    tasks = scheduler.engine.projects[project].task_queue
    return int(tasks.priority_queue.qsize() + tasks.time_queue.qsize())


def crawl(world: World, *schedulers: SlotScheduler) -> list[str]:
    """Crawl until nothing is to be done; return the ids of what was sent, in order."""
    found: list[str] = []
    idle = 0
    while idle < 3:
        for scheduler in schedulers:
            scheduler.run_once()
        sent = world.dispatched()
        for each in sent:
            world.finish(each)
        found += [each["taskid"] for each in sent]
        idle = 0 if sent else idle + 1
    return found


def stored(world: World, task: Task, count: int = MANY) -> list[str]:
    """Write pending tasks as a former owner left them; return their ids."""
    names = [f"t{number}" for number in range(count)]
    for name in names:
        made = task("p", name)
        world.taskdb.insert("p", name, {**made, "status": ACTIVE})
    return names


def test_more_tasks_come_than_there_is_room_for(world: World, task: Task) -> None:
    scheduler = crawling(world)
    world.fetcher.maxsize = 2
    names = [f"t{number}" for number in range(MANY)]
    world.new(*(task("p", name) for name in names))
    while world.waiting():
        scheduler.run_once()
        assert held(scheduler) <= 2 * LIMIT
    assert len(scheduler.engine.projects["p"].task_queue) == MANY
    assert scheduler.engine.attention.pending.count() == MANY
    world.fetcher.maxsize = 0
    assert sorted(crawl(world, scheduler)) == sorted(names)
    assert set(world.statuses("p").values()) == {SUCCESS}
    assert len(scheduler.engine.projects["p"].task_queue) == 0


@pytest.mark.parametrize("epoch", [1, 2], ids=["first owner", "after a death"])
def test_a_takeover_sends_at_once_and_holds_few(world: World, task: Task, epoch: int) -> None:
    names = stored(world, task)
    world.project("p")
    world.script_is_known("p")
    scheduler = world.scheduler(granted(epoch))
    scheduler.run_once()
    first = world.dispatched()
    for each in first:
        world.finish(each)
    assert first
    assert held(scheduler) <= 2 * LIMIT
    sent = [each["taskid"] for each in first] + crawl(world, scheduler)
    assert sorted(sent) == sorted(names)


def test_each_task_is_sent_once_across_planned_moves(world: World, task: Task) -> None:
    names = stored(world, task)
    world.project("p")
    world.script_is_known("p")
    sent: list[str] = []
    for epoch in range(1, 5):
        owner = granted(epoch)
        scheduler = world.scheduler(owner)
        for _ in range(3):
            scheduler.run_once()
            tasks = world.dispatched()
            sent += [each["taskid"] for each in tasks]
            for each in tasks:
                world.finish(each)
        owner.ask_back(range(SLOTS))
        scheduler.run_once()
        late = world.dispatched()
        sent += [each["taskid"] for each in late]
        for each in late:
            world.finish(each)
    sent += crawl(world, world.scheduler(granted(5)))
    assert sorted(sent) == sorted(names)


def test_another_project_is_served_meanwhile(world: World, task: Task) -> None:
    stored(world, task)
    for name in ("p", "q"):
        world.project(name)
        world.script_is_known(name)
    scheduler = world.scheduler()
    world.new(task("q", "other"))
    scheduler.run_once()
    scheduler.run_once()
    assert "other" in {each["taskid"] for each in world.dispatched()}


def waiting_outside(world: World, task: Task) -> SlotScheduler:
    """Return a scheduler whose only task ``outside`` of low priority has no room in memory."""
    scheduler = crawling(world)
    world.fetcher.maxsize = 1
    world.new(*(task("p", f"t{number}", priority=5) for number in range(3 * LIMIT)))
    world.new(task("p", "outside", priority=1, itag="old"))
    while world.waiting():
        scheduler.run_once()
    assert "outside" not in scheduler.engine.projects["p"].task_queue
    return scheduler


def row(world: World, taskid: str) -> dict[str, Any]:
    found: dict[str, Any] = world.database("task").get_task("p", taskid)
    return found


def test_a_request_for_a_task_that_waits_in_its_row_is_ignored(world: World, task: Task) -> None:
    scheduler = waiting_outside(world, task)
    before = row(world, "outside")
    world.new(task("p", "outside", priority=1, itag="new", age=0))
    scheduler.run_once()
    assert row(world, "outside") == before
    world.fetcher.maxsize = 0
    assert crawl(world, scheduler).count("outside") == 1


def test_a_forced_request_changes_a_task_that_waits_in_its_row(world: World, task: Task) -> None:
    scheduler = waiting_outside(world, task)
    world.new(task("p", "outside", priority=9, force_update=True))
    scheduler.run_once()
    world.fetcher.maxsize = 0
    assert row(world, "outside")["schedule"]["priority"] == 9
    sent = crawl(world, scheduler)
    assert sent.count("outside") == 1
    assert sent.index("outside") <= 1  # the first of them may have been on its way


def test_a_task_that_waits_in_its_row_can_be_cancelled(world: World, task: Task) -> None:
    scheduler = waiting_outside(world, task)
    world.new(task("p", "outside", force_update=True, cancel=True))
    scheduler.run_once()
    world.fetcher.maxsize = 0
    assert "outside" not in crawl(world, scheduler)
    assert world.statuses("p")["outside"] == TaskDB.BAD


def test_a_project_that_stops_and_starts_loses_nothing(world: World, task: Task) -> None:
    scheduler = waiting_outside(world, task)
    for status in ("STOP", "RUNNING"):
        world.projectdb.update("p", {"status": status})
        scheduler.rows.look_soon()
        scheduler.run_once()
    world.script_is_known("p")
    world.fetcher.maxsize = 0
    world.fetcher.get()
    crawl(world, scheduler)
    assert set(world.statuses("p").values()) == {SUCCESS}


def test_tasks_that_are_put_off_wait_in_their_rows(
    world: World, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1e9]
    monkeypatch.setattr("time.time", lambda: now[0])
    scheduler = crawling(world)
    names = [f"t{number}" for number in range(MANY)]
    world.new(*(task("p", name, exetime=now[0] + 100) for name in names))
    while world.waiting():
        scheduler.run_once()
    assert held(scheduler) <= 2 * LIMIT
    assert crawl(world, scheduler) == []
    now[0] += 101
    assert sorted(crawl(world, scheduler)) == sorted(names)


def test_a_finished_project_is_told_once_after_its_last_task(world: World, task: Task) -> None:
    names = stored(world, task)
    world.project("p")
    world.script_is_known("p")
    scheduler = world.scheduler()
    scheduler.engine.FAIL_PAUSE_NUM = 1
    sent = crawl(world, scheduler)
    sent += crawl(world, scheduler)
    assert sorted(sent[:-1]) == sorted(names)
    assert sent[-1] == "on_finished"


def test_rows_are_counted_in_steps(
    world: World, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "COUNTING_SHARE", 60.0)
    stored(world, task)
    for name, status in (("a", SUCCESS), ("b", TaskDB.FAILED), ("c", TaskDB.BAD)):
        world.taskdb.insert("p", name, {**task("p", name), "status": status})
    world.project("p", status="STOP")
    scheduler = world.scheduler()
    for _ in range(3):
        scheduler.run_once()
    told = scheduler.engine.counters["all"].to_dict("sum")["p"]
    assert told == {"success": 1, "failed": 2, "pending": MANY}


def taken_over(world: World, task: Task) -> SlotScheduler:
    """Return a scheduler that took many tasks over from a dead one, of which it sends none yet."""
    stored(world, task)
    world.project("p")
    world.script_is_known("p")
    scheduler = world.scheduler(granted(2))
    world.fetcher.maxsize = 1
    return scheduler


def test_an_answer_to_a_dead_owner_counts_though_its_task_is_not_loaded(
    world: World, task: Task
) -> None:
    scheduler = taken_over(world, task)
    world.finish(task("p", f"t{MANY - 1}"))
    scheduler.run_once()
    assert row(world, f"t{MANY - 1}")["status"] == SUCCESS
    world.fetcher.maxsize = 0
    assert f"t{MANY - 1}" not in crawl(world, scheduler)


def test_an_answer_to_a_dead_owner_does_not_count_for_a_newer_request(
    world: World, task: Task
) -> None:
    scheduler = taken_over(world, task)
    world.new(task("p", f"t{MANY - 1}", force_update=True))
    scheduler.run_once()
    world.finish(task("p", f"t{MANY - 1}"))
    scheduler.run_once()
    assert row(world, f"t{MANY - 1}")["status"] == ACTIVE
    world.fetcher.maxsize = 0
    assert crawl(world, scheduler).count(f"t{MANY - 1}") == 1


def test_an_answer_that_a_dead_owner_had_applied_does_not_count_again(
    world: World, task: Task
) -> None:
    scheduler = taken_over(world, task)
    failed = {"status": ACTIVE, "schedule": {"retried": 1, "exetime": time.time() + 1000}}
    world.taskdb.update("p", "t0", failed)
    told = task("p", "t0")
    del told["schedule"]
    world.finish(told, ok=False)
    scheduler.run_once()
    assert row(world, "t0")["schedule"]["retried"] == 1


HOUR, DAY = 3600, 86_400
P, Q = slot_of("p", SLOTS), slot_of("q", SLOTS)
assert P != Q


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Give the wall clock, which the test sets."""
    made = Clock(6_000_000.0)
    monkeypatch.setattr(time, "time", made)
    return made


def owner_of(*slots: int, epoch: int = 2) -> SoleOwner:
    owner = SoleOwner(SLOTS, ())
    owner.grant(slots, epoch)
    return owner


def finding(scheduler: SlotScheduler, *tasks: dict[str, Any]) -> SlotScheduler:
    """Let a scheduler find these tasks with fetchers and processors when it takes slots over."""
    scheduler.queues.work.under_way = lambda: [*tasks]  # type: ignore[method-assign]
    return scheduler


def rounds(scheduler: SlotScheduler, count: int = 3) -> None:
    """Run rounds; an outage ends one early."""
    for _ in range(count):
        with suppress(DatabaseAway):
            scheduler.run_once()


def sent(world: World, scheduler: SlotScheduler) -> list[str]:
    rounds(scheduler)
    return [each["taskid"] for each in world.dispatched() if each["taskid"] != "on_finished"]


def turn(world: World, scheduler: SlotScheduler, project: str, status: str) -> None:
    """Write a project's status, and let the scheduler follow."""
    world.projectdb.update(project, {"status": status})
    scheduler.rows.look_soon()
    rounds(scheduler)


@contextmanager
def away(database: Any, method: str) -> Iterator[None]:
    """Let a database be away for whoever calls a method, while the block runs."""

    def failing(*_: Any, **__: Any) -> Any:
        raise DatabaseAway("taskdb is away")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(database, method, failing)
        yield


def left_by_the_dead(world: World, task: Task, names: Iterable[str] = "pq") -> list[dict[str, Any]]:
    """Make projects with one task each, which an owner had sent before it died; return those."""
    tasks = [task(name) for name in names]
    for each in tasks:
        world.project(each["project"])
        world.script_is_known(each["project"])
        world.taskdb.insert(each["project"], each["taskid"], {**each, "status": ACTIVE})
    return tasks


def test_what_was_found_under_way_counts_as_in_flight_until_its_time_out(
    world: World, task: Task, clock: Clock
) -> None:
    tasks = left_by_the_dead(world, task)
    after = finding(world.scheduler(granted(2)), *tasks)

    assert sent(world, after) == []
    clock.now += HOUR
    assert sent(world, after) == ["t", "t"]


@pytest.mark.parametrize("method", ["get_many", "active_page"])
def test_what_was_found_under_way_counts_though_its_project_cannot_be_loaded_at_once(
    world: World, task: Task, method: str
) -> None:
    tasks = left_by_the_dead(world, task)
    after = finding(world.scheduler(granted(2)), *tasks)

    with away(after.engine.taskdb, method):
        rounds(after, 1)
        assert set(after.engine.projects) == set()

    assert sent(world, after) == []
    assert set(after.engine.projects) == {"p", "q"}


def test_what_was_found_under_way_is_kept_over_another_takeover(world: World, task: Task) -> None:
    tasks = left_by_the_dead(world, task)
    owner = owner_of(P)
    after = finding(world.scheduler(owner), *tasks)

    with away(after.engine.taskdb, "get_many"):
        rounds(after, 1)
        owner.grant([Q], epoch=2)
        rounds(after, 1)
        assert set(after.engine.projects) == set()

    assert sent(world, after) == []
    assert set(after.engine.projects) == {"p", "q"}


@pytest.mark.parametrize("how", ["held before", "handed over", "after a death"])
def test_a_project_that_starts_later_sends_by_its_rows_and_not_by_what_was_found_once(
    world: World, task: Task, clock: Clock, how: str
) -> None:
    for name in "pq":
        world.project(name)
        world.script_is_known(name)
    world.new(task("p", age=DAY, auto_recrawl=True))
    first = owner_of(P, Q, epoch=1)
    before = world.scheduler(first)
    rounds(before)
    clock.now += 1
    rounds(before)
    (found,) = world.dispatched()
    if how != "after a death":
        first.ask_back([P])
        rounds(before)
    second = owner_of(P)
    if how != "held before":
        second.grant([Q], epoch=2)
    after = finding(world.scheduler(second), found)
    rounds(after)
    second.grant([Q], epoch=2)
    rounds(after)
    world.finish(found)
    world.script_is_known("p")
    assert sent(world, after) == []

    clock.now += HOUR
    turn(world, after, "p", "STOP")
    turn(world, after, "p", "RUNNING")
    world.script_is_known("p")
    assert sent(world, after) == []
    clock.now += HOUR
    assert sent(world, after) == []
    clock.now += DAY
    assert sent(world, after) == ["t"]


@pytest.mark.parametrize("is_known", [True, False])
def test_a_project_that_was_off_at_a_takeover_sends_everything_when_it_starts(
    world: World, task: Task, is_known: bool
) -> None:
    tasks = left_by_the_dead(world, task, "p")
    world.project("q")
    world.projectdb.update("p", {"status": "STOP"})
    owner = owner_of(P) if is_known else owner_of(P, Q)
    after = finding(world.scheduler(owner), *tasks)
    rounds(after)
    owner.grant([Q], epoch=2)
    rounds(after)

    turn(world, after, "p", "RUNNING")
    world.script_is_known("p")

    assert sent(world, after) == ["t"]


def test_what_was_found_before_a_long_quarantine_is_under_way_no_more(
    world: World, task: Task, clock: Clock
) -> None:
    tasks = left_by_the_dead(world, task, "p")
    _write_script(world, "p", None)
    after = finding(world.scheduler(granted(2)), *tasks)
    rounds(after)
    assert "p" in after.quarantine

    clock.now += HOUR
    _write_script(world, "p", "class Handler: pass")
    turn(world, after, "p", "RUNNING")
    world.script_is_known("p")
    clock.now += 1

    assert sent(world, after) == ["t"]


def test_what_was_found_of_another_members_projects_is_forgotten(world: World, task: Task) -> None:
    owner = owner_of(P)
    world.project("p")
    after = finding(world.scheduler(owner), task("q"))
    rounds(after)
    owner.grant([Q], epoch=2)
    rounds(after)

    left_by_the_dead(world, task, "q")
    after.rows.look_soon()

    assert sent(world, after) == ["t"]


def _write_script(world: World, project: str, script: str | None) -> None:
    with closing(sqlite3.connect(world.folder / "project.db")) as database, database:
        database.execute("UPDATE projectdb SET script = ? WHERE name = ?", (script, project))
