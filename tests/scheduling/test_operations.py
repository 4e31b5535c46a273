"""What operations do to projects, once and when they are repeated."""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from pyspider.database.sqlite.taskdb import TaskDB

from pyspider_zk.databases import breaker
from pyspider_zk.errors import ClusterError, DatabaseAway, FenceClosed, SealBroken
from pyspider_zk.jobs.execution import TRIES, WAITS, JobWork
from pyspider_zk.jobs.model import Outcome
from pyspider_zk.jobs.operations import PROJECTS_LIMIT, Progress
from pyspider_zk.projects.rows import ACTIVE, STATUSES
from pyspider_zk.projects.slots import slot_of
from pyspider_zk.queues.names import QueueKind
from pyspider_zk.scheduling.answers import LocalAnswers
from pyspider_zk.scheduling.quarantine import AtFault
from pyspider_zk.scheduling.scheduler import SlotScheduler
from tests.support.clock import Clock
from tests.support.operations import a_claim, add, carry_out, confirm, done
from tests.support.sole_owner import SoleOwner
from tests.support.world import SLOTS, World, save_all

Task = Callable[..., dict[str, Any]]
SUCCESS = TaskDB.SUCCESS


FAULTS = [("script", None), ("group", 5)]  # of rows that somebody wrote by hand


def rounds(scheduler: SlotScheduler, count: int = 3) -> None:
    for _ in range(count):
        scheduler.run_once()


def started(world: World) -> list[str]:
    """Return the projects whose on_start was dispatched since the last look."""
    return sorted(sent["project"] for sent in world.dispatched() if sent["taskid"] == "on_start")


def status(world: World, project: str) -> str:
    return str(world.projectdb.get(project)["status"])


def dispatched_on_start(world: World, scheduler: SlotScheduler, project: str) -> dict[str, Any]:
    """Have on_start of a running project dispatched by hand; return the task."""
    on_start = {"taskid": "on_start", "project": project, "url": "data:,on_start"}
    world.new({**on_start, "process": {"callback": "on_start"}})
    world.script_is_known(project)
    rounds(scheduler)
    (sent,) = world.dispatched()
    return sent


def successor(world: World) -> SlotScheduler:
    owner = SoleOwner(SLOTS, ())
    owner.grant(range(SLOTS), epoch=2)
    return world.scheduler(owner)


def with_a_faulty_row(world: World, column: str, value: object) -> SlotScheduler:
    """Return a scheduler of the projects ``p``, whose row is faulty, and ``q``."""
    for name in "pq":
        world.project(name)
    world.projectdb.update("p", {column: value})
    scheduler = world.scheduler()
    rounds(scheduler)
    assert scheduler.quarantine.names() == ["p"]
    return scheduler


# --- start, run, restart ------------------------------------------------------------------------


def test_start_runs_a_stopped_project_and_dispatches_on_start_once(world: World) -> None:
    world.project("p", status="STOP")
    scheduler = world.scheduler()

    assert done(carry_out(scheduler, a_claim("start", ["p"])))
    world.script_is_known("p")
    rounds(scheduler)

    assert status(world, "p") == "RUNNING"
    assert scheduler.engine.projects["p"].active
    assert started(world) == ["p"]


@pytest.mark.parametrize("operation", ["start", "run", "restart"])
def test_the_same_batch_repeated_dispatches_nothing_again(world: World, operation: str) -> None:
    world.project("p")
    scheduler = world.scheduler()
    carry_out(scheduler, a_claim(operation, ["p"]))
    world.script_is_known("p")
    rounds(scheduler)
    assert started(world) == ["p"]

    assert done(carry_out(scheduler, a_claim(operation, ["p"])))
    world.script_is_known("p")
    rounds(scheduler)

    assert started(world) == []


@pytest.mark.parametrize("operation", ["start", "run", "restart"])
@pytest.mark.parametrize("ok", [True, False])
def test_it_is_known_as_started_after_on_start_has_ended(
    world: World, operation: str, ok: bool
) -> None:
    world.project("p")
    scheduler = world.scheduler()
    carry_out(scheduler, a_claim(operation, ["p"]))
    world.script_is_known("p")
    rounds(scheduler)
    (sent,) = world.dispatched()
    world.finish(sent, ok=ok)
    rounds(scheduler)

    carry_out(scheduler, a_claim(operation, ["p"]))
    world.script_is_known("p")
    rounds(scheduler)

    assert started(world) == []


@pytest.mark.parametrize("operation", ["start", "run", "restart"])
def test_another_batch_starts_it_again(world: World, operation: str) -> None:
    world.project("p")
    scheduler = world.scheduler()
    carry_out(scheduler, a_claim(operation, ["p"], batch="b1"))
    world.script_is_known("p")
    rounds(scheduler)
    (sent,) = world.dispatched()
    world.finish(sent)
    rounds(scheduler)

    carry_out(scheduler, a_claim(operation, ["p"], batch="b2"))
    world.script_is_known("p")
    rounds(scheduler)

    assert started(world) == ["p"]


def test_a_job_that_was_half_done_when_its_owner_died_starts_only_the_rest(world: World) -> None:
    names = [f"p{number}" for number in range(6)]
    for name in names:
        world.project(name, status="STOP")
        world.script_is_known(name)
    dead = world.scheduler()
    dead.local_jobs._share = 0  # one project a round
    add(dead, a_claim("start", names))
    rounds(dead, 3)
    begun = [name for name in names if status(world, name) == "RUNNING"]
    assert len(begun) == 3
    rounds_before_death = started(world)
    in_flight = set(rounds_before_death)

    after = successor(world)
    assert done(carry_out(after, a_claim("start", names)))
    for name in names:
        world.script_is_known(name)
    rounds(after)

    again = started(world)
    assert sorted({*rounds_before_death, *again}) == names
    assert set(rounds_before_death) & set(again) <= in_flight
    assert len(again) == len(set(again))


def test_start_waits_for_an_older_on_start_that_is_under_way(world: World) -> None:
    world.project("p")
    scheduler = world.scheduler()
    sent = dispatched_on_start(world, scheduler, "p")
    clock = Clock()
    work = add(scheduler, a_claim("start", ["p"]), clock)
    rounds(scheduler)
    assert work.verdict is None
    assert world.dispatched() == []

    world.finish(sent)
    clock.now += 1
    rounds(scheduler)

    assert done(work)
    assert started(world) == ["p"]


def test_another_look_at_one_that_waits_is_no_news_and_asks_no_database(world: World) -> None:
    world.project("p")
    scheduler = world.scheduler()
    dispatched_on_start(world, scheduler, "p")
    clock = Clock()
    work = add(scheduler, a_claim("start", ["p"]), clock)
    rounds(scheduler)
    confirm([work])
    asked: list[str] = []
    get = scheduler.engine.projectdb.get
    scheduler.engine.projectdb.get = lambda name, **more: [asked.append(name), get(name, **more)][1]

    clock.now += 1
    rounds(scheduler)

    assert work.waits
    assert not work.is_new
    assert asked == []


def test_jobs_that_wait_come_after_those_that_can_go_on(world: World) -> None:
    for name in ("p", "q"):
        world.project(name)
    scheduler = world.scheduler()
    dispatched_on_start(world, scheduler, "p")
    scheduler.local_jobs._share = 0
    clock = Clock()
    add(scheduler, a_claim("start", ["p"]), clock)
    rounds(scheduler)
    stop = add(scheduler, a_claim("stop", ["q"], batch="b2"), clock)

    clock.now += 1
    scheduler.run_once()

    assert stop.progress()[0].at == 1


def test_one_that_waits_holds_up_no_other(world: World) -> None:
    for name in ("p", "q"):
        world.project(name)
    scheduler = world.scheduler()
    dispatched_on_start(world, scheduler, "p")
    world.script_is_known("q")

    add(scheduler, a_claim("start", ["p", "q"]), Clock())
    rounds(scheduler)

    assert started(world) == ["q"]


def test_a_start_that_waits_does_not_undo_a_later_stop(world: World) -> None:
    world.project("p")
    scheduler = world.scheduler()
    sent = dispatched_on_start(world, scheduler, "p")
    clock = Clock()
    start = add(scheduler, a_claim("start", ["p"]), clock)
    rounds(scheduler)
    add(scheduler, a_claim("stop", ["p"], batch="b2"))
    rounds(scheduler)

    world.finish(sent)
    clock.now += 1
    rounds(scheduler)

    assert status(world, "p") == "STOP"
    assert start.progress()[0].errors == {"p": "it is STOP; it must be RUNNING or DEBUG"}
    assert started(world) == []


@pytest.mark.parametrize("off", sorted(set(STATUSES) - set(ACTIVE)))
def test_run_refuses_a_project_that_is_off(world: World, off: str) -> None:
    world.project("p", status=off)
    world.project("q", status="DEBUG")
    scheduler = world.scheduler()

    work = carry_out(scheduler, a_claim("run", ["p", "q"]))
    world.script_is_known("q")
    rounds(scheduler)

    assert work.progress()[0].errors == {"p": f"it is {off}; it must be RUNNING or DEBUG"}
    assert status(world, "p") == off
    assert started(world) == ["q"]


def test_a_full_project_is_started_later(world: World, task: Task) -> None:
    world.project("p")
    scheduler = world.scheduler()
    scheduler.engine.INQUEUE_LIMIT = 1
    world.new(task("p", "t"))
    rounds(scheduler)
    clock = Clock()
    work = add(scheduler, a_claim("run", ["p"]), clock)
    rounds(scheduler)
    assert work.verdict is None

    scheduler.engine.projects["p"].task_queue.delete("t")
    clock.now += 1
    rounds(scheduler)

    assert done(work)


def test_restart_begins_anew(world: World, task: Task) -> None:
    world.project("p")
    world.script_is_known("p")
    world.new(task("p", "old"))
    scheduler = world.scheduler()
    rounds(scheduler)
    world.dispatched()
    before = scheduler.engine.projects["p"]

    assert done(carry_out(scheduler, a_claim("restart", ["p"])))
    asked = [sent["taskid"] for sent in list(world.fetcher.queue)]
    world.script_is_known("p")
    rounds(scheduler)

    assert scheduler.engine.projects["p"] is not before
    assert "_on_get_info" in asked
    assert set(world.statuses("p")) == {"on_start"}
    assert started(world) == ["p"]


def test_a_pack_of_before_a_restart_changes_nothing(world: World, task: Task) -> None:
    world.project("p")
    world.script_is_known("p")
    world.new(task("p", "old"))
    scheduler = world.scheduler()
    rounds(scheduler)
    (sent,) = world.dispatched()

    carry_out(scheduler, a_claim("restart", ["p"]))
    world.finish(sent)
    rounds(scheduler)

    assert set(world.statuses("p")) == {"on_start"}


def test_a_pack_of_before_a_restart_does_not_withdraw_the_new_on_start(
    world: World, task: Task
) -> None:
    world.project("p")
    world.script_is_known("p")
    scheduler = world.scheduler()
    carry_out(scheduler, a_claim("run", ["p"]))
    rounds(scheduler)
    (sent,) = world.dispatched()
    carry_out(scheduler, a_claim("restart", ["p"], batch="b2"))
    world.dispatched()

    world.fetcher.maxsize = 1
    world.script_is_known("p")
    world.new(task("p", "first", priority=10))
    rounds(scheduler)
    assert [each["taskid"] for each in scheduler.engine.dispatch.waiting] == ["on_start"]
    world.finish(sent)
    scheduler.run_once()
    world.dispatched()
    scheduler.run_once()

    assert started(world) == ["p"]


# --- changes of the row -------------------------------------------------------------------------


def test_stop_takes_effect_at_once(world: World, task: Task) -> None:
    world.project("p")
    world.script_is_known("p")
    scheduler = world.scheduler()
    rounds(scheduler)
    world.fetcher.maxsize = 1
    world.fetcher.queue.clear()
    world.fetcher.put({"taskid": "t", "project": "other"})
    world.new(task("p", "waiting"))
    scheduler.run_once()
    scheduler.engine.on_select_task(scheduler.engine.taskdb.get_task("p", "waiting"))
    assert scheduler.engine.dispatch.waiting

    assert done(carry_out(scheduler, a_claim("stop", ["p"])))

    assert status(world, "p") == "STOP"
    assert not scheduler.engine.projects["p"].active
    assert not scheduler.engine.dispatch.waiting
    assert len(scheduler.engine) == 0


@pytest.mark.parametrize(
    ("operation", "arguments"),
    [
        ("rate", {"rate": 3.5, "burst": 7}),
        ("group", {"group": "news"}),
        *(("status", {"status": each}) for each in STATUSES),
    ],
)
def test_columns_are_written_and_memory_follows(
    world: World, operation: str, arguments: dict[str, Any]
) -> None:
    world.project("p")
    scheduler = world.scheduler()
    rounds(scheduler)

    assert done(carry_out(scheduler, a_claim(operation, ["p"], arguments)))

    row = world.projectdb.get("p")
    assert {column: row[column] for column in arguments} == arguments
    project = scheduler.engine.projects["p"]
    assert (project.group, project.db_status) == (row["group"], row["status"])
    if project.active:
        assert (project.task_queue.bucket.rate, project.task_queue.bucket.burst) == (
            row["rate"],
            row["burst"],
        )


@pytest.mark.parametrize(
    ("operation", "arguments"),
    [
        ("start", {}),
        ("run", {}),
        ("restart", {}),
        ("stop", {}),
        ("delete", {}),
        ("delete", {"wait": True}),
        ("group", {"group": "g"}),
        ("refetch", {}),
    ],
)
def test_an_unknown_project_fails_by_itself_and_is_not_made(
    world: World, operation: str, arguments: dict[str, Any]
) -> None:
    world.project("p")
    scheduler = world.scheduler()

    work = carry_out(scheduler, a_claim(operation, ["nobody", "p"], arguments))

    assert work.progress()[0].errors == {"nobody": "there is no such project"}
    assert world.projectdb.get("nobody") is None
    assert "nobody" not in world.database("task").projects


# --- delete -------------------------------------------------------------------------------------


def test_delete_leaves_nothing_and_late_messages_bring_nothing_back(
    world: World, task: Task
) -> None:
    resultdb = world.database("result")
    for name in ("p", "q"):
        world.project(name)
        world.script_is_known(name)
        world.new(task(name))
        resultdb.save(name, "t", "http://site.example/t", {})
    scheduler = world.scheduler()
    rounds(scheduler)
    save_all(scheduler)

    assert done(carry_out(scheduler, a_claim("delete", ["p"])))
    world.new(task("p", "late"))
    world.finish(task("p"))
    scheduler.rows.look_soon()
    rounds(scheduler)

    assert set(scheduler.engine.projects) == {"q"}
    assert world.projectdb.get("p") is None
    assert "p" not in world.database("task").projects
    assert "p" not in world.database("result").projects
    assert set(LocalAnswers(scheduler).counter("all", "sum") or ()) == {"q"}
    record = world.queues.records.load(slot_of("p", SLOTS)) or {"projects": {}}
    assert "p" not in record["projects"]


def deleted_before_a_late_result(world: World, clock: Clock) -> tuple[SlotScheduler, JobWork]:
    """Have a project deleted, then make a late result worker save something of it."""
    world.project("p")
    scheduler = world.scheduler()
    work = add(scheduler, a_claim("delete", ["p"]), clock)
    rounds(scheduler)
    confirm([work])
    rounds(scheduler)
    assert world.projectdb.get("p") is None
    world.database("result").save("p", "t", "http://site.example/t", {})
    return scheduler, work


def test_what_late_results_make_anew_is_swept(world: World) -> None:
    clock = Clock()
    scheduler, work = deleted_before_a_late_result(world, clock)

    rounds(scheduler)
    assert work.verdict is None
    clock.now += 10
    rounds(scheduler)

    assert done(work)
    assert "p" not in world.database("result").projects


def test_who_goes_on_with_a_deletion_waits_before_it_sweeps(world: World) -> None:
    """A result worker may believe for another second that there is the project."""
    clock = Clock()
    _, work = deleted_before_a_late_result(world, clock)
    after = successor(world)
    work = add(after, a_claim("delete", ["p"], progress=work.progress()[0]), clock)
    rounds(after)
    assert work.verdict is None

    clock.now += 10
    rounds(after)

    assert done(work)
    assert "p" not in world.database("result").projects


def test_what_was_deleted_is_swept_though_others_failed(world: World) -> None:
    class Undropped:
        """A project database that keeps one row."""

        def __init__(self, inner: Any) -> None:
            self._inner = inner

        def __getattr__(self, name: str) -> Any:
            return getattr(self._inner, name)

        def drop(self, name: str) -> None:
            if name == "q":
                raise OSError("disk full")
            self._inner.drop(name)

    for name in ("p", "q"):
        world.project(name)
    scheduler = world.scheduler(projectdb=Undropped(world.database("project")))
    clock = Clock()
    work = add(scheduler, a_claim("delete", ["p", "q"]), clock)
    rounds(scheduler)
    confirm([work])
    rounds(scheduler)
    world.database("result").save("p", "t", "http://site.example/t", {})
    assert work.verdict is None

    clock.now += 10
    rounds(scheduler)

    assert work.verdict == (None, "OSError('disk full')")
    assert "p" not in world.database("result").projects
    assert work.progress()[0].later == {"q": "OSError('disk full')"}


def test_a_sweep_that_fails_after_a_cancellation_is_tried_again(world: World) -> None:
    clock = Clock()
    scheduler, work = deleted_before_a_late_result(world, clock)
    work.recorded(a_claim("delete", ["p"], cancelled=True), 0)
    resultdb = scheduler.engine.resultdb
    together, resultdb.together = resultdb.together, None
    rounds(scheduler)
    clock.now += 10
    rounds(scheduler)
    assert work.verdict is not None
    assert (work.verdict.outcome, bool(work.verdict.reason)) == (None, True)
    assert work.needs_cleanup

    resultdb.together = together
    scheduler.local_jobs.clear(work)
    progress, _ = work.progress()
    work = carry_out(scheduler, a_claim("delete", ["p"], progress=progress, cancelled=True))

    assert work.verdict is not None
    assert work.verdict.outcome is Outcome.CANCELLED
    assert "p" not in world.database("result").projects


def test_nothing_is_deleted_before_the_marks_stand_in_zookeeper(world: World) -> None:
    world.project("p")
    scheduler = world.scheduler()
    work = add(scheduler, a_claim("delete", ["p"]))
    rounds(scheduler)

    assert status(world, "p") == "STOP"
    assert work.is_urgent
    confirm([work])
    rounds(scheduler)
    assert world.projectdb.get("p") is None


def test_a_project_made_anew_is_not_deleted_by_the_repeated_job(world: World) -> None:
    world.project("p")
    scheduler = world.scheduler()
    work = add(scheduler, a_claim("delete", ["p"]), Clock())
    rounds(scheduler)
    reported, _ = work.progress()
    confirm([work])
    rounds(scheduler)
    assert world.projectdb.get("p") is None

    world.project("p")
    world.new({"taskid": "t", "project": "p", "url": "http://site.example/t"})
    after = successor(world)
    work = carry_out(after, a_claim("delete", ["p"], progress=reported))

    assert status(world, "p") == "RUNNING"
    assert set(world.statuses("p")) == {"t"}
    assert "created again" in work.progress()[0].errors["p"]


def test_a_project_made_anew_is_not_swept(world: World) -> None:
    world.project("p")
    scheduler = world.scheduler()
    clock = Clock()
    work = add(scheduler, a_claim("delete", ["p"]), clock)
    rounds(scheduler)
    confirm([work])
    rounds(scheduler)

    world.project("p")
    world.new({"taskid": "t", "project": "p", "url": "http://site.example/t"})
    rounds(scheduler)
    clock.now += 10
    rounds(scheduler)

    assert done(work)
    assert set(world.statuses("p")) == {"t"}


def test_a_project_made_anew_while_others_are_swept_keeps_its_row(world: World) -> None:
    scheduler, work = deleted_before_a_late_result(world, clock := Clock())
    look = scheduler.engine.projectdb.get

    def just_before(name: str, **options: Any) -> Any:
        found = look(name, **options)
        if found is None:
            world.project(name)
        return found

    scheduler.engine.projectdb.get = just_before
    clock.now += 10
    rounds(scheduler)

    assert done(work)
    assert status(world, "p") == "RUNNING"


def test_a_delete_that_was_half_done_is_completed(world: World) -> None:
    names = [f"p{number}" for number in range(6)]
    for name in names:
        world.project(name)
        world.new({"taskid": "t", "project": name, "url": "http://site.example/t"})
    dead = world.scheduler()
    work = add(dead, a_claim("delete", names))
    rounds(dead)
    reported, _ = work.progress()
    confirm([work])
    dead.local_jobs._share = 0
    rounds(dead, 3)
    assert 0 < len(list(world.projectdb.get_all())) < len(names)

    after = successor(world)
    assert done(carry_out(after, a_claim("delete", names, progress=reported)))

    assert list(world.projectdb.get_all()) == []
    assert world.database("task").projects == set()


def test_a_delete_that_waits_is_left_to_pyspider(world: World) -> None:
    world.project("p", group="news")
    scheduler = world.scheduler()

    assert done(carry_out(scheduler, a_claim("delete", ["p"], {"wait": True})))
    row = world.projectdb.get("p")
    assert (row["status"], row["group"]) == ("STOP", "news delete")
    scheduler.engine.DELETE_TIME = 0
    rounds(scheduler)

    assert world.projectdb.get("p") is None


def test_a_project_deleted_elsewhere_and_made_anew_can_be_loaded(world: World) -> None:
    """pyspider's databases remember tables that another process has dropped."""
    world.project("p")
    world.new({"taskid": "t", "project": "p", "url": "http://site.example/t"})
    owner = SoleOwner(SLOTS)
    elsewhere = world.scheduler(owner)
    rounds(elsewhere)
    stale = world.scheduler(SoleOwner(SLOTS, ()))
    assert stale.engine.taskdb.may_have("p")
    carry_out(elsewhere, a_claim("delete", ["p"]))
    world.project("p")

    stale.fence.ownership.grant(range(SLOTS), epoch=2)  # type: ignore[union-attr]
    rounds(stale)

    assert set(stale.engine.projects) == {"p"}


# --- faults -------------------------------------------------------------------------------------


class Failing:
    """A database that fails for some projects."""

    def __init__(self, inner: Any, projects: set[str], error: Exception | None = None) -> None:
        self._inner = inner
        self._error = error or OSError("disk full")
        self.projects_that_fail = projects
        self.tried: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def update(self, name: str, *args: Any, **kwargs: Any) -> Any:
        self.tried.append(name)
        if name in self.projects_that_fail:
            raise self._error
        return self._inner.update(name, *args, **kwargs)


def test_a_project_that_fails_holds_up_no_other_and_is_tried_again(world: World) -> None:
    names = ["p0", "p1", "p2"]
    for name in names:
        world.project(name)
    failing = Failing(world.database("project"), {"p1"})
    scheduler = world.scheduler(projectdb=failing)

    work = carry_out(scheduler, a_claim("stop", names))

    progress, _ = work.progress()
    assert work.verdict == (None, "OSError('disk full')")
    assert [status(world, name) for name in names] == ["STOP", "RUNNING", "STOP"]
    assert progress.later == {"p1": "OSError('disk full')"}

    failing.projects_that_fail = set()
    failing.tried = []
    assert done(carry_out(scheduler, a_claim("stop", names, progress=progress)))
    assert failing.tried == ["p1"]
    assert status(world, "p1") == "STOP"


def test_a_database_that_is_away_costs_no_try_and_is_not_asked_for_every_project(
    world: World,
) -> None:
    names = [f"p{number}" for number in range(20)]
    for name in names:
        world.project(name)
    failing = Failing(world.database("project"), set(names), DatabaseAway("projectdb is away"))
    scheduler = world.scheduler(projectdb=failing)
    work = add(scheduler, a_claim("stop", names))

    rounds(scheduler, 5)
    assert work.verdict is None
    assert failing.tried == names[:1] * 5
    assert work.progress()[0] == Progress()

    failing.projects_that_fail = set()
    rounds(scheduler, len(names))  # a round does one at least, however slow the machine is
    assert done(work)


def test_however_many_projects_in_a_row_fail_the_others_are_done(world: World) -> None:
    names = [f"p{number:02}" for number in range(20)]
    for name in names:
        world.project(name)
    failing = Failing(world.database("project"), set(names[:19]))

    work = carry_out(world.scheduler(projectdb=failing), a_claim("stop", names))

    assert status(world, "p19") == "STOP"
    assert set(work.progress()[0].later) == set(names[:19])


def test_a_project_that_cannot_be_marked_keeps_no_other_from_being_deleted(world: World) -> None:
    names = ["p0", "p1", "p2"]
    for name in names:
        world.project(name)
    failing = Failing(world.database("project"), {"p1"})
    scheduler = world.scheduler(projectdb=failing)

    work = carry_out(scheduler, a_claim("delete", names))

    assert [row["name"] for row in world.projectdb.get_all()] == ["p1"]
    assert work.verdict is not None
    assert work.verdict.outcome is Outcome.DONE
    assert work.progress()[0].errors == {"p1": "OSError('disk full')"}
    in_chunks = 2  # of all three, then of two
    assert failing.tried.count("p1") == in_chunks + TRIES


@pytest.mark.parametrize(
    "work",
    [
        {},
        {"operation": 7, "arguments": {}, "projects": ["p"]},
        {"operation": "stop", "arguments": [], "projects": ["p"]},
        {"operation": "stop", "arguments": {}, "projects": "pp"},
        {"operation": "stop", "arguments": {}, "projects": {"p": 1}},
        {"operation": "stop", "arguments": {}, "projects": ["p", None]},
        {"operation": "stop", "arguments": {}, "projects": ["p"] * (PROJECTS_LIMIT + 1)},
        {"operation": "delete", "projects": ["p"], "arguments": None},
    ],
)
def test_a_job_whose_work_is_none_fails_with_the_reason(world: World, work: dict[str, Any]) -> None:
    world.project("p")
    claim = a_claim("stop", ["p"])
    claim = replace(claim, job=replace(claim.job, work=work))

    over = carry_out(world.scheduler(), claim)

    assert over.verdict is not None
    assert over.verdict.outcome is Outcome.FAILED
    assert over.verdict.reason
    assert status(world, "p") == "RUNNING"


@pytest.mark.parametrize(
    "progress",
    [
        {"stage": "far"},
        {"at": -1},
        {"stage": -1},
        {"later": ["p"]},
        {"errors": {"p": 1}},
        {"versions": {"p": "x"}},
        {"later": None},
    ],
)
def test_a_job_whose_progress_is_none_fails_with_the_reason(
    world: World, progress: dict[str, Any]
) -> None:
    world.project("p")
    claim = a_claim("delete", ["p"])
    claim = replace(claim, job=replace(claim.job, progress=progress))

    over = carry_out(world.scheduler(), claim)

    assert over.verdict is not None
    assert over.verdict.outcome is Outcome.FAILED
    assert "Progress" in over.verdict.reason or "progress" in over.verdict.reason
    assert status(world, "p") == "RUNNING"


def test_a_project_of_another_slot_fails_alone(world: World) -> None:
    """A job that was made by hand must not shut the fence in each round before all others."""
    for name in ("p0", "p1", "p2"):
        world.project(name)
    foreign = slot_of("p1", SLOTS)
    assert foreign not in {slot_of("p0", SLOTS), slot_of("p2", SLOTS)}
    scheduler = world.scheduler(SoleOwner(SLOTS, set(range(SLOTS)) - {foreign}))

    work = carry_out(scheduler, a_claim("stop", ["p0", "p1", "p2"]))

    assert work.verdict is not None
    assert work.verdict.outcome is Outcome.DONE
    assert list(work.progress()[0].errors) == ["p1"]
    assert [status(world, name) for name in ("p0", "p1", "p2")] == ["STOP", "RUNNING", "STOP"]


@pytest.mark.parametrize(("operation", "is_done"), [("run", False), ("stop", True)])
def test_a_project_in_quarantine_is_told_with_the_reason_and_can_be_changed(
    world: World, operation: str, is_done: bool
) -> None:
    for name in ("p", "q"):
        world.project(name)
    scheduler = world.scheduler()
    rounds(scheduler)
    with scheduler.project_set.isolating("p"):
        raise AtFault("its row is odd")

    work = carry_out(scheduler, a_claim(operation, ["p", "q"]))

    errors = {} if is_done else {"p": "it is in quarantine: its row is odd"}
    assert work.progress()[0].errors == errors
    assert work.verdict is not None
    assert work.verdict.outcome is Outcome.DONE


@pytest.mark.parametrize(
    ("operation", "arguments", "columns"),
    [
        ("stop", {}, {"status": "STOP"}),
        ("delete", {"wait": True}, {"status": "STOP", "group": "delete"}),
        ("rate", {"rate": 7, "burst": 9}, {"rate": 7, "burst": 9}),
        ("group", {"group": "g"}, {"group": "g"}),
    ],
)
@pytest.mark.parametrize(("column", "value"), FAULTS)
def test_a_project_with_a_faulty_row_can_be_changed(
    world: World,
    operation: str,
    arguments: dict[str, Any],
    columns: dict[str, Any],
    column: str,
    value: object,
) -> None:
    scheduler = with_a_faulty_row(world, column, value)

    assert done(carry_out(scheduler, a_claim(operation, ["p", "q"], arguments)))

    for row in world.projectdb.get_all():
        assert row | columns == row
    scheduler.rows.look_soon()
    rounds(scheduler)
    assert ("p" in scheduler.quarantine) == (column not in columns)


@pytest.mark.parametrize(("column", "value"), FAULTS)
def test_a_project_with_a_faulty_row_can_be_deleted(
    world: World, column: str, value: object
) -> None:
    scheduler = with_a_faulty_row(world, column, value)

    assert done(carry_out(scheduler, a_claim("delete", ["p", "q"])))

    assert list(world.projectdb.get_all()) == []
    assert len(scheduler.quarantine) == 0


@pytest.mark.parametrize(("column", "value"), FAULTS)
@pytest.mark.parametrize("operation", ["start", "restart", "run", "refetch"])
def test_a_project_with_a_faulty_row_is_refused_a_start_with_the_reason(
    world: World, operation: str, column: str, value: object
) -> None:
    scheduler = with_a_faulty_row(world, column, value)
    world.taskdb.insert("p", "kept", {"status": TaskDB.SUCCESS})

    work = carry_out(scheduler, a_claim(operation, ["p", "q"]))

    assert work.verdict is not None
    assert work.verdict.outcome is Outcome.DONE
    reason = f"it is in quarantine: {column} must be text, not {value!r}"
    assert work.progress()[0].errors == {"p": reason}
    assert world.taskdb.get_task("p", "kept") is not None


@pytest.mark.parametrize("name", ["a-b", "x" * 65, "a b", "ü:ö"])
@pytest.mark.parametrize("operation", ["start", "run", "restart", "stop", "delete"])
def test_a_row_with_a_name_that_pyspider_does_not_allow_fails_alone(
    world: World, operation: str, name: str
) -> None:
    for each in ("p", name, "q"):
        world.project(each)
    scheduler = world.scheduler()

    work = carry_out(scheduler, a_claim(operation, ["p", name, "q"]))

    is_started = operation in ("start", "run", "restart")
    errors = work.progress()[0].errors
    assert list(errors) == ([name] if is_started else [])
    assert not is_started or "not allowed" in errors[name]
    assert work.verdict is not None
    assert work.verdict.outcome is Outcome.DONE
    for each in ("p", "q"):
        world.script_is_known(each)
    rounds(scheduler)
    assert started(world) == (["p", "q"] if is_started else [])


def test_a_job_that_raises_counts_a_try_and_the_next_one_is_carried_out(world: World) -> None:
    class Broken(JobWork):
        def _step_on(self) -> bool:
            raise ClusterError("a fault of the program")

    world.project("p")
    scheduler = world.scheduler()
    broken = Broken(a_claim("stop", ["p"]), scheduler.local_jobs._stages_of, time.monotonic)
    scheduler.local_jobs._works = [broken]
    work = add(scheduler, a_claim("stop", ["p"], batch="b2"))

    rounds(scheduler)

    assert broken.verdict == (None, "ClusterError('a fault of the program')")
    assert done(work)


def test_a_job_that_this_version_does_not_know_fails_with_the_reason(world: World) -> None:
    world.project("p")
    work = carry_out(world.scheduler(), a_claim("paint", ["p"]))
    assert work.verdict is not None
    assert work.verdict.outcome is Outcome.FAILED
    assert "no operation 'paint'" in work.verdict.reason


def test_a_closed_fence_stops_before_the_effect_and_nothing_is_missed(world: World) -> None:
    for name in ("p", "q"):
        world.project(name)
    owner = SoleOwner(SLOTS)
    scheduler = world.scheduler(owner)
    rounds(scheduler)
    work = add(scheduler, a_claim("stop", ["p", "q"]))
    owner.lose_lease()
    rounds(scheduler)
    assert [status(world, name) for name in ("p", "q")] == ["RUNNING", "RUNNING"]
    assert work.verdict is None

    owner.renew_lease()
    rounds(scheduler)

    assert done(work)
    assert [status(world, name) for name in ("p", "q")] == ["STOP", "STOP"]


@pytest.mark.parametrize("operation", ["start", "restart", "stop", "delete"])
def test_a_fence_that_shuts_in_the_middle_lets_no_effect_through(
    world: World, operation: str
) -> None:
    class Slow:
        """A project database in whose answer the lease ends."""

        def __init__(self, inner: Any) -> None:
            self._inner = inner

        def __getattr__(self, name: str) -> Any:
            return getattr(self._inner, name)

        def get(self, *args: Any, **kwargs: Any) -> Any:
            owner.lose_lease()
            return self._inner.get(*args, **kwargs)

    world.project("p", status="CHECKING")
    owner = SoleOwner(SLOTS)
    scheduler = world.scheduler(owner)
    rounds(scheduler)
    scheduler.engine.projectdb = Slow(scheduler.engine.projectdb)
    for stage in range(2 if operation == "delete" else 1):
        progress = Progress(stage=stage, versions={"p": world.projectdb.get("p")["updatetime"]})
        owner.renew_lease()
        add(scheduler, a_claim(operation, ["p"], progress=progress))
        with pytest.raises(FenceClosed):
            rounds(scheduler)

    assert status(world, "p") == "CHECKING"


def test_a_job_is_let_go_with_its_slot(world: World) -> None:
    world.project("p")
    owner = SoleOwner(SLOTS)
    scheduler = world.scheduler(owner)
    rounds(scheduler)
    work = add(scheduler, a_claim("stop", ["p"]))
    owner.ask_back([slot_of("p", SLOTS)])
    rounds(scheduler)
    assert work.verdict == (None, "")
    assert status(world, "p") == "RUNNING"


def test_a_cancelled_job_stops_before_the_next_project(world: World) -> None:
    names = ["p0", "p1", "p2"]
    for name in names:
        world.project(name)
    scheduler = world.scheduler()
    scheduler.local_jobs._share = 0
    work = add(scheduler, a_claim("stop", names))
    scheduler.run_once()
    work.recorded(a_claim("stop", names, cancelled=True), 1)
    rounds(scheduler)

    assert work.verdict is not None
    assert work.verdict.outcome is Outcome.CANCELLED
    assert [status(world, name) for name in names] == ["STOP", "RUNNING", "RUNNING"]


def test_a_cancelled_delete_tidies_up_what_it_deleted(world: World) -> None:
    names = ["p0", "p1", "p2"]
    for name in names:
        world.project(name)
    scheduler = world.scheduler()
    clock = Clock()
    work = add(scheduler, a_claim("delete", names), clock)
    rounds(scheduler)
    confirm([work])
    scheduler.local_jobs._share = 0
    scheduler.run_once()
    assert world.projectdb.get("p0") is None
    world.database("result").save("p0", "t", "http://site.example/t", {})

    work.recorded(a_claim("delete", names, cancelled=True), 0)
    rounds(scheduler)
    clock.now += 10
    rounds(scheduler)

    assert work.verdict is not None
    assert work.verdict.outcome is Outcome.CANCELLED
    assert {row["name"] for row in world.projectdb.get_all()} == {"p1", "p2"}
    assert "p0" not in world.database("result").projects


def test_a_delete_that_is_cancelled_too_late_is_tidied_up_all_the_same(world: World) -> None:
    clock = Clock()
    scheduler, work = deleted_before_a_late_result(world, clock)

    work.recorded(a_claim("delete", ["p"], cancelled=True), 0)
    clock.now += 10
    rounds(scheduler)

    assert work.verdict is not None
    assert "p" not in world.database("result").projects


def test_jobs_leave_room_for_crawling(world: World, task: Task) -> None:
    names = [f"p{number}" for number in range(10)]
    for name in names:
        world.project(name, status="STOP")
    world.project("crawling")
    world.script_is_known("crawling")
    owner = SoleOwner(SLOTS)
    scheduler = world.scheduler(owner)
    scheduler.local_jobs._share = 0
    rounds(scheduler)
    work = add(scheduler, a_claim("start", names))

    world.new(task("crawling"))
    rounds(scheduler)

    assert "crawling" in {sent["project"] for sent in world.dispatched()}
    assert 0 < work.progress()[0].at < len(names)
    assert scheduler.is_busy, "the next round follows at once"
    owner.lose_lease()
    scheduler.run_once()
    assert not scheduler.is_busy


def test_progress_of_a_newer_version_is_understood_as_far_as_possible() -> None:
    assert Progress.parse({"at": 3, "mood": "good"}) == Progress(at=3)


def test_a_late_message_for_a_slot_queue_is_read_and_dropped(world: World, task: Task) -> None:
    world.project("p")
    scheduler = world.scheduler()
    carry_out(scheduler, a_claim("delete", ["p"]))
    world.new(task("p"))
    rounds(scheduler)
    assert world.queues.slot_queues.lengths()[QueueKind.NEWTASK] == 0


# --- chunks -------------------------------------------------------------------------------------


class ProcessKilled(BaseException):
    """The end of the process: nobody handles it."""


def kill(*_: object, **__: object) -> None:
    raise ProcessKilled


NAMES = [f"p{number}" for number in range(6)]


def ended(work: JobWork) -> bool:
    return work.verdict is not None


def some_projects(world: World, **fields: Any) -> None:
    for name in NAMES:
        world.project(name, **fields)


def halves(operation: str, **job: Any) -> list[Any]:
    """Return two jobs that share six projects."""
    return [a_claim(operation, NAMES[:3], **job), a_claim(operation, NAMES[3:], **job)]


def through(scheduler: SlotScheduler, works: list[JobWork], clock: Clock) -> None:
    """Run rounds until jobs are over, recording what they report."""
    for _ in range(20):
        rounds(scheduler)
        confirm(works)
        clock.now += 10
    assert all(work.verdict is not None for work in works)


def test_the_projects_of_many_jobs_are_changed_in_one_transaction(world: World) -> None:
    some_projects(world)
    scheduler = world.scheduler()
    rounds(scheduler)
    statements: list[str] = []
    connection = scheduler.engine.projectdb.dbcur.connection
    works = [add(scheduler, claim) for claim in halves("stop")]
    connection.set_trace_callback(statements.append)

    scheduler.run_once()

    assert all(map(done, works))
    assert [status(world, name) for name in NAMES] == ["STOP"] * 6
    assert sum(text.startswith("COMMIT") for text in statements) == 1


@pytest.mark.parametrize("operation", ["start", "restart", "run"])
def test_who_is_killed_between_the_parts_of_a_chunk_leaves_nothing_out_and_starts_nothing_twice(
    world: World, operation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    some_projects(world, status="RUNNING" if operation == "run" else "STOP")
    for name in NAMES:
        world.new({"taskid": "old", "project": name, "url": "http://site.example/t"})
    dead = world.scheduler()
    rounds(dead)
    world.dispatched()
    for claim in halves(operation):
        add(dead, claim)
    monkeypatch.setattr(dead.engine, "insert_task", kill)
    with pytest.raises(ProcessKilled):
        dead.local_jobs.work(lambda: None)

    after = successor(world)
    works = [carry_out(after, claim) for claim in halves(operation)]
    for name in NAMES:
        world.script_is_known(name)
    rounds(after)

    assert all(map(done, works))
    assert started(world) == NAMES
    assert {status(world, name) for name in NAMES} == {"RUNNING"}


def test_who_is_killed_between_the_parts_of_a_deletion_leaves_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    some_projects(world)
    for name in NAMES:
        world.database("result").save(name, "t", "http://site.example/t", {})
    dead, clock = world.scheduler(), Clock()
    works = [add(dead, claim, clock) for claim in halves("delete")]
    rounds(dead)
    reported = [work.progress()[0] for work in works]
    confirm(works)
    monkeypatch.setattr(dead.engine.projectdb, "drop", kill)
    with pytest.raises(ProcessKilled):
        rounds(dead)
    assert world.database("result").projects == set()
    assert len(list(world.projectdb.get_all())) == len(NAMES)

    after = successor(world)
    for claim, progress in zip(halves("delete"), reported, strict=True):
        job = replace(claim.job, progress=progress.as_dict())
        assert done(carry_out(after, replace(claim, job=job)))

    assert list(world.projectdb.get_all()) == []


def test_a_cancelled_deletion_sweeps_what_its_dead_claimant_never_reported(world: World) -> None:
    some_projects(world)
    dead, clock = world.scheduler(), Clock()
    (work,) = [add(dead, a_claim("delete", NAMES), clock)]
    rounds(dead)
    marked = work.progress()[0]
    confirm([work])
    rounds(dead)
    assert list(world.projectdb.get_all()) == []
    world.database("result").save("p3", "t", "http://site.example/t", {})

    after = successor(world)
    over = carry_out(after, a_claim("delete", NAMES, progress=marked, cancelled=True))

    assert over.verdict is not None
    assert over.verdict.outcome is Outcome.CANCELLED
    assert world.database("result").projects == set()


def test_a_fence_that_shuts_in_a_chunk_lets_nothing_of_it_through(world: World) -> None:
    some_projects(world)
    owner = SoleOwner(SLOTS)
    scheduler = world.scheduler(owner)
    rounds(scheduler)
    update = scheduler.engine.projectdb.update

    def slow(name: str, columns: Any) -> None:
        update(name, columns)
        owner.lose_lease()

    scheduler.engine.projectdb.update = slow
    works = [add(scheduler, claim) for claim in halves("stop")]
    with pytest.raises(FenceClosed):
        scheduler.run_once()
    assert {status(world, name) for name in NAMES} == {"RUNNING"}

    owner.renew_lease()
    scheduler.engine.projectdb.update = update
    rounds(scheduler)
    assert all(map(done, works))


@pytest.mark.parametrize("operation", ["start", "restart", "delete", "stop"])
def test_a_project_at_fault_costs_no_other_job_of_its_chunk_anything(
    world: World, operation: str
) -> None:
    some_projects(world)
    failing = Failing(world.database("project"), {"p1"})
    scheduler, clock = world.scheduler(projectdb=failing), Clock()
    works = [add(scheduler, claim, clock) for claim in halves(operation)]

    through(scheduler, works, clock)

    faulty, other = works
    assert done(other)
    told = faulty.progress()[0]
    assert {**told.later, **told.errors} == {"p1": "OSError('disk full')"}
    assert {row["name"] for row in world.projectdb.get_all()} >= {"p1"}


@pytest.mark.parametrize("name", ["p` -- ", "p`; DROP TABLE projectdb; --", "x\x00y", "../p", "'"])
@pytest.mark.parametrize("operation", ["start", "restart", "delete"])
def test_a_hostile_name_in_a_chunk_fails_alone(world: World, operation: str, name: str) -> None:
    some_projects(world)
    world.project(name)
    scheduler, clock = world.scheduler(), Clock()
    claims = [a_claim(operation, [*NAMES[:3], name, *NAMES[3:5]]), a_claim(operation, NAMES[5:])]
    works = [add(scheduler, claim, clock) for claim in claims]

    through(scheduler, works, clock)

    assert done(works[1])
    assert set(works[0].progress()[0].errors) <= {name}
    left = {row["name"] for row in world.projectdb.get_all()}
    assert left.isdisjoint(NAMES) if operation == "delete" else left == {*NAMES, name}


@pytest.mark.parametrize("work", [{}, {"operation": "stop", "projects": [None]}, {"projects": "p"}])
def test_a_job_that_is_none_stops_no_chunk(world: World, work: dict[str, Any]) -> None:
    some_projects(world)
    scheduler = world.scheduler()
    before, after = halves("stop")
    junk = replace(before, job=replace(before.job, work=work))
    works = [add(scheduler, claim) for claim in (before, junk, after)]

    rounds(scheduler)

    assert done(works[0])
    assert done(works[2])
    assert works[1].verdict is not None
    assert works[1].verdict.outcome is Outcome.FAILED


def test_two_batches_that_start_the_same_project_at_once_start_it_once(world: World) -> None:
    world.project("p")
    world.script_is_known("p")
    scheduler = world.scheduler()
    works = [add(scheduler, a_claim("start", ["p"], batch=batch)) for batch in ("b1", "b2")]

    rounds(scheduler)

    assert all(map(done, works))
    assert started(world) == ["p"]
    assert world.database("task").get_task("p", "on_start")["schedule"]["itag"] == "b2"


def test_a_cancelled_job_stops_before_the_next_chunk(world: World) -> None:
    some_projects(world)
    scheduler = world.scheduler()
    works = [add(scheduler, claim) for claim in halves("stop")]
    scheduler.local_jobs._share = 0
    scheduler.run_once()
    for work in works:
        work.cancel()

    rounds(scheduler)

    assert {work.verdict and work.verdict.outcome for work in works} == {Outcome.CANCELLED}
    assert [status(world, name) for name in NAMES] == ["STOP", *["RUNNING"] * 5]


def test_a_chunk_holds_the_highest_priority_first(world: World) -> None:
    some_projects(world)
    scheduler = world.scheduler()
    scheduler.local_jobs._share = 0
    low, high = halves("stop")
    urgent = replace(high, name=high.name._replace(priority=900))
    add(scheduler, low)
    add(scheduler, urgent)

    rounds(scheduler, 3)

    assert [status(world, name) for name in NAMES] == ["RUNNING"] * 3 + ["STOP"] * 3


def test_a_restart_that_is_cancelled_before_its_end_leaves_projects_in_memory(
    world: World,
) -> None:
    for name in ("p", "q"):
        world.project(name)
        world.script_is_known(name)
    scheduler = world.scheduler()
    rounds(scheduler)
    world.dispatched()
    work = add(scheduler, a_claim("restart", ["p", "q"]))

    with world.tasks_locked():
        scheduler.run_once()
    work.cancel()
    scheduler.engine.databases._breakers["taskdb"].answered()
    rounds(scheduler)

    assert work.verdict is not None
    assert work.verdict.outcome is Outcome.CANCELLED
    assert set(scheduler.engine.projects) == {"p", "q"}


def test_a_project_whose_restart_fails_or_is_called_off_goes_on(world: World) -> None:
    world.project("p")
    world.script_is_known("p")
    scheduler = world.scheduler()
    rounds(scheduler)

    def fail(*_: Any, **__: Any) -> None:
        raise ValueError("this table cannot be dropped")

    scheduler.engine.taskdb.drop_all = fail  # type: ignore[method-assign]
    carry_out(scheduler, a_claim("restart", ["p"]))
    rounds(scheduler)

    assert "p" in scheduler.engine.projects


def rows_away(scheduler: SlotScheduler) -> None:
    """Let one read of a whole row fail, as behind a lock."""
    get = scheduler.engine.projectdb.get

    def away_once(name: str, fields: Any = None) -> Any:
        if fields is not None:
            return get(name, fields=fields)
        scheduler.engine.projectdb.get = get
        raise DatabaseAway("projectdb is away")

    scheduler.engine.projectdb.get = away_once


def tasks_away(scheduler: SlotScheduler) -> None:
    """Let the task database be away from when the next row is written."""
    update = scheduler.engine.projectdb.update

    def lose_tasks(name: str, columns: Any) -> None:
        scheduler.engine.projectdb.update = update
        update(name, columns)
        scheduler.engine.databases._breakers["taskdb"].failed(OSError("no route"))

    scheduler.engine.projectdb.update = lose_tasks


@pytest.mark.parametrize("outage", [rows_away, tasks_away])
@pytest.mark.parametrize("operation", ["start", "restart"])
def test_an_outage_after_rows_were_written_delays_the_jobs_and_refuses_no_project(
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    operation: str,
    outage: Callable[[SlotScheduler], None],
) -> None:
    monkeypatch.setattr(breaker, "PAUSES", (60.0,))
    some_projects(world, status="STOP")
    scheduler, clock = world.scheduler(), Clock()
    rounds(scheduler)
    works = [add(scheduler, claim, clock) for claim in halves(operation)]

    outage(scheduler)
    with suppress(DatabaseAway):
        scheduler.run_once()
    assert not any(map(ended, works))
    scheduler.engine.databases._breakers["taskdb"].answered()
    through(scheduler, works, clock)
    for name in NAMES:
        world.script_is_known(name)
    rounds(scheduler)

    assert all(map(done, works))
    assert {status(world, name) for name in NAMES} == {"RUNNING"}
    assert started(world) == NAMES


@pytest.mark.parametrize("operation", ["restart", "refetch"])
def test_who_goes_on_with_a_job_waits_for_a_project_that_it_could_not_load_yet(
    world: World, operation: str
) -> None:
    world.project("p")
    rounds(world.scheduler())
    after, clock = successor(world), Clock()
    after.project_set.follow_rows()
    waiting = Progress(at=1, later={"p": WAITS})

    rows_away(after)
    after.handover.follow(after.fence.ownership)
    work = add(after, a_claim(operation, ["p"], progress=waiting), clock)
    after.local_jobs.work(lambda: None)
    assert not ended(work)
    through(after, [work], clock)

    assert done(work)


@pytest.mark.parametrize("operation", ["start", "restart", "delete"])
def test_a_seal_that_breaks_in_a_chunk_delays_the_jobs_and_loses_no_project(
    world: World, operation: str
) -> None:
    some_projects(world, status="CHECKING")
    for name in NAMES:
        world.new({"taskid": "old", "project": name, "url": "http://site.example/t"})
    scheduler = world.scheduler()
    rounds(scheduler)
    clock = Clock()
    works = [add(scheduler, claim, clock) for claim in halves(operation)]
    if operation == "delete":
        rounds(scheduler)
        confirm(works)
    world.taskdb._execute("DELETE FROM `pyspider-zk-seals`")
    with pytest.raises(SealBroken):
        scheduler.run_once()

    through(scheduler, works, clock)
    assert all(map(done, works))
    left = set() if operation == "delete" else set(NAMES)
    assert set(scheduler.engine.projects) == left
    assert {row["name"] for row in world.projectdb.get_all()} == left
