"""Tasks that are fetched again: which, how, and once per batch."""

from collections.abc import Collection
from contextlib import closing
from typing import Any

import pytest
from pyspider.database.base.taskdb import TaskDB

from pyspider_zk.scheduling.refetching import PAGE
from pyspider_zk.scheduling.scheduler import SlotScheduler
from pyspider_zk.tasks.database import TaskWrite, task_database
from tests.patches.databases import BACKENDS, SERVERS, Databases
from tests.scheduling.test_operations import rounds, successor
from tests.support.clock import Clock
from tests.support.operations import a_claim, add, carry_out, done
from tests.support.world import World

ACTIVE, SUCCESS, FAILED, BAD = TaskDB.ACTIVE, TaskDB.SUCCESS, TaskDB.FAILED, TaskDB.BAD
GIVEN_UP = {"retries": 3, "retried": 3, "exetime": 9e9, "priority": 2, "itag": "v1", "age": 9e9}
TIMED_OUT = {"ok": False, "error": "HTTP 599: Timeout", "status_code": 599, "time": 1}
BROKEN = {"ok": False, "exception": "'title'", "logs": "KeyError: 'title'", "time": 1}


@pytest.fixture
def scheduler(world: World) -> SlotScheduler:
    """Give a scheduler of the running project `p`, whose script it knows."""
    world.project("p")
    made = world.scheduler()
    world.script_is_known("p")
    rounds(made)
    return made


def store(world: World, *taskids: Any, status: int = FAILED, **columns: Any) -> None:
    row = {"url": "http://u", "status": status, "schedule": GIVEN_UP, "lastcrawltime": 1.0}
    for taskid in taskids:
        world.taskdb.insert("p", taskid, {**row, **columns})


def own_tasks(world: World) -> list[dict[str, Any]]:
    """Take what was dispatched, without the call of ``on_finished``."""
    return [task for task in world.dispatched() if task["taskid"] != "on_finished"]


def sent(world: World, scheduler: SlotScheduler) -> list[str]:
    """Return the tasks that were dispatched since the last look."""
    rounds(scheduler)
    return sorted(task["taskid"] for task in own_tasks(world))


def refetch(scheduler: SlotScheduler, batch: str = "b1", **arguments: Any) -> Collection[str]:
    """Have tasks fetched again; return the reason if the project is refused."""
    work = carry_out(scheduler, a_claim("refetch", ["p"], arguments, batch))
    errors = work.progress()[0].errors
    assert done(work) or errors
    return errors.get("p", "")


def fail_again(world: World, scheduler: SlotScheduler) -> list[str]:
    """Let what is dispatched be given up at once; return it."""
    rounds(scheduler)
    tasks = own_tasks(world)
    for task in tasks:
        world.taskdb.update("p", task["taskid"], schedule={**task["schedule"], "retries": 0})
        world.finish({**task, "schedule": {**task["schedule"], "retries": 0}}, ok=False)
    rounds(scheduler)
    return sorted(task["taskid"] for task in tasks)


# --- which --------------------------------------------------------------------------------------


def test_one_failed_task_is_fetched_again_with_all_its_tries(
    world: World, scheduler: SlotScheduler
) -> None:
    store(world, "a", "b", fetch={"method": "POST"}, process={"callback": "page"})

    assert refetch(scheduler, tasks=["a"]) == ""

    row = world.taskdb.get_task("p", "a")
    assert row["status"] == ACTIVE
    assert not {"retried", "exetime"} & row["schedule"].keys()
    assert {key: row["schedule"][key] for key in ("retries", "priority", "itag", "age")} == {
        key: GIVEN_UP[key] for key in ("retries", "priority", "itag", "age")
    }
    assert (row["fetch"], row["process"]) == ({"method": "POST"}, {"callback": "page"})
    assert sent(world, scheduler) == ["a"]


def test_without_more_all_failed_tasks_are_meant(world: World, scheduler: SlotScheduler) -> None:
    store(world, "a", "b")
    store(world, "done", status=SUCCESS)
    store(world, "cancelled", status=BAD)
    assert refetch(scheduler) == ""
    assert sent(world, scheduler) == ["a", "b"]


def test_thousands_are_fetched_again_page_by_page(world: World, scheduler: SlotScheduler) -> None:
    taskids = [f"t{number:04}" for number in range(2 * PAGE + 7)]
    world.taskdb._execute("BEGIN")
    store(world, *taskids)
    world.taskdb._execute("COMMIT")
    assert refetch(scheduler) == ""
    assert world.taskdb.status_count("p") == {ACTIVE: len(taskids)}
    found = []
    while some := sent(world, scheduler):
        found += some
    assert sorted(found) == taskids


@pytest.mark.parametrize("scheme", BACKENDS)
def test_every_task_database_has_them_fetched_again(
    world: World, request: pytest.FixtureRequest, scheme: str
) -> None:
    fixture, _ = SERVERS.get(scheme, ("", None))
    server = request.getfixturevalue(fixture) if fixture else None
    with closing(Databases(scheme, world.folder, server)) as made:
        taskdb = made.connect("task")
        world.project("p")
        taskids = [f"t{number:04}" for number in range(PAGE + 7)]
        bulk = task_database(taskdb)
        late = {"track": {"fetch": TIMED_OUT}, "process": {"callback": "page"}}
        columns = bulk.encoded({"url": "u", "status": FAILED, "schedule": GIVEN_UP, **late})
        bulk.write_many([TaskWrite("p", each, columns, True) for each in taskids], lambda: None)
        scheduler = world.scheduler(taskdb=taskdb)

        assert refetch(scheduler, callback="page", error="599") == ""
        assert taskdb.status_count("p") == {ACTIVE: PAGE + 7}
        assert taskdb.get_task("p", "t0007")["schedule"]["refetched_by"] == "b1"
        assert refetch(scheduler, "b2", tasks=["t0007", "t9999"]).startswith("some tasks")
        assert taskdb.get_task("p", "t0007")["schedule"]["refetched_by"] == "b2"


def test_several_projects_share_the_pages(world: World) -> None:
    scheduler = world.scheduler()
    for name in ("p", "q", "r"):
        world.project(name)
        world.taskdb._execute("BEGIN")
        for number in range(PAGE // 2 + 1):
            world.taskdb.insert(name, f"t{number}", {"url": "u", "status": FAILED})
        world.taskdb._execute("COMMIT")
    assert done(carry_out(scheduler, a_claim("refetch", ["p", "q", "r"])))
    for name in ("p", "q", "r"):
        assert world.taskdb.status_count(name) == {ACTIVE: PAGE // 2 + 1}


def test_those_that_are_meant_are_found_behind_thousands_that_are_not(
    world: World, scheduler: SlotScheduler
) -> None:
    world.taskdb._execute("BEGIN")
    store(world, *(f"t{number:04}" for number in range(PAGE + 3)))
    world.taskdb._execute("COMMIT")
    store(world, "z", process={"callback": "page"})
    assert refetch(scheduler, callback="page") == ""
    assert sent(world, scheduler) == ["z"]


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        ({"state": "SUCCESS"}, ["done"]),
        ({"state": "BAD"}, ["cancelled"]),
        ({"callback": "page"}, ["broken", "late"]),
        ({"callback": ""}, ["nameless", "strange"]),
        ({"error": "Timeout"}, ["late", "start"]),
        ({"error": "KeyError"}, ["broken"]),
        ({"error": "'title'"}, ["broken"]),
        ({"error": "keyERROR: 'T"}, ["broken"]),
        ({"url": "SITE/la"}, ["late"]),
        ({"url": "site", "error": "none"}, []),
        ({"error": "Timeout", "callback": "page"}, ["late"]),
        ({"tasks": ["done", "late"]}, ["done", "late"]),
        ({"tasks": ["done", "late"], "state": "SUCCESS"}, ["done"]),
        ({"tasks": ["done", "late"], "error": "599"}, ["late"]),
        ({"error": "no such"}, []),
    ],
)
def test_states_callbacks_and_errors_choose(
    world: World, scheduler: SlotScheduler, arguments: dict[str, Any], meant: list[str]
) -> None:
    page, late = {"callback": "page"}, {"fetch": TIMED_OUT, "process": {"ok": False, "time": 0}}
    store(world, "late", process=page, track=late, url="http://site/late")
    store(world, "start", process={"callback": "on_start"}, track=late)
    store(world, "broken", process=page, track={"fetch": {"ok": True}, "process": BROKEN})
    store(world, "done", status=SUCCESS, process={"callback": "other"})
    store(world, "cancelled", status=BAD)
    store(world, "nameless", process={"callback": None})
    store(world, "strange", process=[7], track={"fetch": 7, "process": None})
    assert refetch(scheduler, **arguments) == ""
    assert sent(world, scheduler) == meant


def test_one_that_waits_for_its_next_try_is_tried_at_once(
    world: World, scheduler: SlotScheduler
) -> None:
    world.new({"project": "p", "taskid": "a", "url": "u", "schedule": {"exetime": 9e9}})
    assert sent(world, scheduler) == []
    assert refetch(scheduler, tasks=["a"]) == ""
    assert sent(world, scheduler) == ["a"]


def test_one_under_way_is_left_alone(world: World, scheduler: SlotScheduler) -> None:
    world.new({"project": "p", "taskid": "a", "url": "u"})
    rounds(scheduler)
    (task,) = world.dispatched()
    assert refetch(scheduler, tasks=["a"]) == ""
    world.finish(task)
    assert sent(world, scheduler) == []
    assert world.taskdb.get_task("p", "a")["status"] == SUCCESS


# --- how ----------------------------------------------------------------------------------------


def test_it_is_fetched_whether_or_not_the_page_has_changed(
    world: World, scheduler: SlotScheduler
) -> None:
    headers = {"etag": "x", "last-modified": "y"}
    track = {"fetch": {"ok": True, "headers": headers}, "process": {"ok": True}, "save": {"n": 1}}
    store(world, "a", status=SUCCESS, track=track)
    assert refetch(scheduler, state="SUCCESS") == ""
    rounds(scheduler)
    (task,) = world.dispatched()
    assert task["track"] == {**track, "fetch": {"ok": True, "headers": {}}}


def test_a_full_queue_is_waited_for(world: World, scheduler: SlotScheduler) -> None:
    scheduler.engine.INQUEUE_LIMIT = 2
    store(world, *"abcde")
    clock, found = Clock(), []
    work = add(scheduler, a_claim("refetch", ["p"]), clock)
    for _ in range(5):
        some = fail_again(world, scheduler)
        assert len(some) <= 2
        found += some
        clock.now += 1
    assert done(work)
    assert sorted(found) == [*"abcde"]


# --- once ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [{}, {"tasks": ["a", "b"]}])
def test_the_same_batch_repeated_fetches_nothing_again(
    world: World, scheduler: SlotScheduler, arguments: dict[str, Any]
) -> None:
    store(world, "a", "b")
    refetch(scheduler, **arguments)
    assert fail_again(world, scheduler) == ["a", "b"]
    assert world.taskdb.status_count("p") == {FAILED: 2}

    assert refetch(scheduler, **arguments) == ""
    assert sent(world, scheduler) == []
    assert refetch(scheduler, batch="b2", **arguments) == ""
    assert sent(world, scheduler) == ["a", "b"]


def test_the_next_owner_fetches_only_the_rest(world: World, scheduler: SlotScheduler) -> None:
    taskids = [f"t{number:04}" for number in range(PAGE + 3)]
    world.taskdb._execute("BEGIN")
    store(world, *taskids)
    world.taskdb._execute("COMMIT")
    add(scheduler, a_claim("refetch", ["p"]), Clock())  # which stands still after the first page
    scheduler.run_once()
    assert world.taskdb.status_count("p") == {ACTIVE: PAGE, FAILED: 3}
    first = fail_again(world, scheduler)
    assert first

    heir = successor(world)
    world.script_is_known("p")
    rounds(heir)
    world.dispatched()
    assert refetch(heir) == ""
    assert world.taskdb.status_count("p") == {
        ACTIVE: len(taskids) - len(first),
        FAILED: len(first),
    }


# --- what cannot be -----------------------------------------------------------------------------


def test_a_task_that_there_is_not_is_named_and_the_others_are_fetched(
    world: World, scheduler: SlotScheduler
) -> None:
    store(world, "a")
    assert "such as nobody: there is no such task" in refetch(scheduler, tasks=["nobody", "a"])
    assert sent(world, scheduler) == ["a"]


@pytest.mark.parametrize("status", ["STOP", "TODO"])
def test_a_project_that_is_off_is_refused(
    world: World, scheduler: SlotScheduler, status: str
) -> None:
    store(world, "a")
    world.projectdb.update("p", status=status)
    assert f"it is {status}; it must be RUNNING or DEBUG" in refetch(scheduler)
    assert world.taskdb.get_task("p", "a")["status"] == FAILED


def test_a_row_that_cannot_be_written_or_read_stops_no_other(
    world: World, scheduler: SlotScheduler
) -> None:
    store(world, "a", "b", "c", "d")
    world.taskdb._execute("UPDATE taskdb_p SET schedule = '{' WHERE taskid = 'b'")
    world.taskdb._execute("UPDATE taskdb_p SET url = NULL WHERE taskid = 'd'")
    world.refuse_row("p", "a")
    told = refetch(scheduler)
    assert "some tasks cannot be fetched again, such as " in told
    assert sent(world, scheduler) == ["c"]


def test_a_project_without_tasks_has_nothing_to_do(world: World, scheduler: SlotScheduler) -> None:
    assert refetch(scheduler) == ""
    assert sent(world, scheduler) == []
