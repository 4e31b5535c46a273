"""Which tasks fail is known as soon as a try has failed, and no longer than that is so."""

from collections.abc import Callable
from typing import Any

import pytest

from pyspider_zk.queues.names import QueueKind
from pyspider_zk.scheduling.scheduler import SlotScheduler
from pyspider_zk.tasks.failure_report import FailureReport
from pyspider_zk.tasks.failures import FailedTask
from pyspider_zk.tasks.filters import FailureFilter
from tests.scheduling.test_operations import rounds
from tests.support.operations import a_claim, carry_out, done
from tests.support.world import World, crawling

Task = Callable[..., dict[str, Any]]

SOON = {"retries": 1, "age": 0}
"""A schedule by which a task that has failed is due at once, and given up the second time."""


@pytest.fixture
def scheduler(world: World) -> SlotScheduler:
    return crawling(world)


def failures(world: World) -> dict[str, FailedTask]:
    return {each.taskid: each for each in FailureReport(world.taskdb).tasks(FailureFilter())}


def send(world: World, scheduler: SlotScheduler, *tasks: dict[str, Any]) -> list[dict[str, Any]]:
    """Have tasks dispatched; return those that were."""
    world.new(*tasks)
    rounds(scheduler)
    return [each for each in world.dispatched() if each["taskid"] != "on_finished"]


def answer(
    world: World,
    scheduler: SlotScheduler,
    sent: dict[str, Any],
    exception: str = "",
    callback: str = "page",
) -> None:
    """Let a task's try end, with an exception if one is given."""
    processed = {"ok": not exception, "time": 0.1, "callback": callback}
    processed |= {"exception": exception, "logs": f"    ValueError: {exception}\n"}
    track = {"fetch": {"ok": True, "time": 0.1, "status_code": 200}, "process": processed}
    pack = {key: sent[key] for key in ("taskid", "project", "url", "schedule") if key in sent}
    world.send(QueueKind.STATUS, {**pack, "track": track})
    rounds(scheduler)


def test_a_failed_try_is_known_and_a_good_one_ends_it(
    world: World, scheduler: SlotScheduler, task: Task
) -> None:
    (sent,) = send(world, scheduler, task("p", "a", retries=3, age=0))
    assert failures(world) == {}
    answer(world, scheduler, sent, "bad 5")
    found = failures(world)["a"]
    assert (found.project, found.kind, found.callback) == ("p", "ValueError: bad #", "page")
    assert (found.status_code, found.error, found.url) == (200, "ValueError: bad 5", sent["url"])
    assert not found.is_given_up

    (again,) = send(world, scheduler)
    answer(world, scheduler, again)
    assert failures(world) == {}


def test_one_that_is_given_up_fails_since_its_first_try(
    world: World, scheduler: SlotScheduler, task: Task
) -> None:
    (sent,) = send(world, scheduler, task("p", "a", **SOON))
    answer(world, scheduler, sent, "bad")
    since = failures(world)["a"].first_at
    (again,) = send(world, scheduler)
    answer(world, scheduler, again, "worse")
    found = failures(world)["a"]
    assert found.is_given_up
    assert found.first_at == since < found.last_at
    assert found.kind == "ValueError: worse"


@pytest.mark.parametrize(
    "schedule", [{"force_update": True}, {"force_update": True, "cancel": True}]
)
@pytest.mark.parametrize("tries", [1, 2])
def test_one_that_is_requested_anew_or_cancelled_does_not_fail(
    world: World, scheduler: SlotScheduler, task: Task, schedule: dict[str, Any], tries: int
) -> None:
    waiting = {**SOON, "age": 9e9} if tries == 1 else SOON
    (sent,) = send(world, scheduler, task("p", "a", **waiting))
    answer(world, scheduler, sent, "bad")
    if tries == 2:
        (sent,) = send(world, scheduler)
        answer(world, scheduler, sent, "bad")
    assert failures(world)["a"].is_given_up == (tries == 2)
    send(world, scheduler, task("p", "a", **schedule))
    assert failures(world) == {}


def test_a_row_that_is_refused_tells_of_no_failure(
    world: World, scheduler: SlotScheduler, task: Task
) -> None:
    sent = send(world, scheduler, task("p", "a"), task("p", "b"))
    world.refuse_row("p", "a")
    for each in sent:
        answer(world, scheduler, each, "bad")
    assert failures(world).keys() == {"b"}


def test_a_damaged_table_of_failures_costs_nothing_but_itself(
    world: World, scheduler: SlotScheduler, task: Task
) -> None:
    sent = {
        each["taskid"]: each
        for each in send(world, scheduler, task("p", "a", **SOON), task("p", "b", **SOON))
    }
    world.taskdb._execute("CREATE TABLE `pyspider-zk-failures` (project, taskid, last_at)")
    world.taskdb._execute(
        "CREATE INDEX `pyspider-zk-failures-0` ON `pyspider-zk-failures` (taskid)"
    )
    answer(world, scheduler, sent["a"], "bad")
    answer(world, scheduler, sent["b"])
    (again,) = send(world, scheduler)  # it is tried again all the same
    assert again["taskid"] == "a"
    answer(world, scheduler, again, "bad")
    assert world.taskdb.get_task("p", "a")["status"] == world.taskdb.FAILED
    assert world.taskdb.get_task("p", "b")["status"] == world.taskdb.SUCCESS

    world.taskdb._execute("DROP TABLE `pyspider-zk-failures`")
    (anew,) = send(world, scheduler, task("p", "c", **SOON))
    answer(world, scheduler, anew, "bad")
    assert failures(world).keys() == {"c"}


def test_one_that_is_well_after_all_is_not_fetched_again_with_its_kind(
    world: World, scheduler: SlotScheduler, task: Task
) -> None:
    sent = send(world, scheduler, *(task("p", each, retries=1, age=9e9) for each in "abc"))
    for each in sent:
        answer(world, scheduler, each, "bad")
    world.taskdb._list_project()
    world.taskdb.update("p", "a", status=world.taskdb.SUCCESS)  # as a late pack may leave it
    world.taskdb._execute("DELETE FROM taskdb_p WHERE taskid = 'b'")
    arguments = {"kind": "ValueError: bad", "callback": "page", "status_code": 200}
    work = carry_out(scheduler, a_claim("refetch", ["p"], arguments, "b1"))
    assert done(work)
    assert [each["taskid"] for each in send(world, scheduler)] == ["c"]
    assert failures(world) == {}


def test_those_without_a_callback_are_fetched_again_with_their_kind_alone(
    world: World, scheduler: SlotScheduler, task: Task
) -> None:
    named = task("p", "a", retries=0, age=9e9)
    nameless = task("p", "b", retries=0, age=9e9)
    named["process"], nameless["process"] = {"callback": "page"}, {}
    for each in send(world, scheduler, named, nameless):
        answer(world, scheduler, each, "bad", each["process"].get("callback", ""))
    arguments = {"kind": "ValueError: bad", "callback": "", "status_code": 200}
    assert done(carry_out(scheduler, a_claim("refetch", ["p"], arguments, "b1")))
    assert [each["taskid"] for each in send(world, scheduler)] == ["b"]


def test_one_whose_id_is_a_number_is_fetched_again(
    world: World, scheduler: SlotScheduler, task: Task
) -> None:
    for each in send(world, scheduler, *({**task("p", "x", **SOON), "taskid": n} for n in (5, 6))):
        answer(world, scheduler, each, "bad")
        (again,) = send(world, scheduler)
        answer(world, scheduler, again, "bad")
    assert failures(world).keys() == {"5", "6"}
    report = FailureReport(world.taskdb)
    assert all(report.logs(report.tasks(FailureFilter())))
    tasks = ["5", "9" * 40, "05"]  # no number of sqlite's, and no number
    work = carry_out(scheduler, a_claim("refetch", ["p"], {"tasks": tasks}, "b1"))
    assert "no such task" in work.progress()[0].errors["p"]
    assert [each["taskid"] for each in send(world, scheduler)] == [5]
    assert done(carry_out(scheduler, a_claim("refetch", ["p"], {"kind": "ValueError: bad"}, "b2")))
    assert [each["taskid"] for each in send(world, scheduler)] == [6]


def test_a_report_lists_no_tables_for_the_loop(world: World) -> None:
    taskdb = world.database("task")
    scheduler = world.scheduler(taskdb=taskdb)
    listed = taskdb.projects
    world.taskdb.insert("p", "one", {"url": "u", "status": 1})
    found = scheduler.engine.databases.reports.task.find("p", "one")
    assert (found["url"], taskdb.projects) == ("u", listed)
    assert taskdb.projects is listed


def test_those_of_a_kind_are_fetched_again(
    world: World, scheduler: SlotScheduler, task: Task
) -> None:
    late = {"retries": 1, "age": 9e9}
    tasks = [task("p", "given up", **SOON)]
    tasks += [task("p", name, **late) for name in ("waits", "other", "well")]
    sent = {each["taskid"]: each for each in send(world, scheduler, *tasks)}
    errors = {"given up": "bad 1", "waits": "bad 2", "other": "worse", "well": ""}
    for name, error in errors.items():
        answer(world, scheduler, sent[name], error)
    (again,) = send(world, scheduler)
    answer(world, scheduler, again, "bad 3")
    assert {name: each.kind for name, each in failures(world).items()} == {
        "given up": "ValueError: bad #",
        "waits": "ValueError: bad #",
        "other": "ValueError: worse",
    }

    work = carry_out(scheduler, a_claim("refetch", ["p"], {"kind": "ValueError: bad #"}, "b1"))
    assert done(work)
    fetched = sorted(each["taskid"] for each in send(world, scheduler))
    assert fetched == ["given up", "waits"]
    assert failures(world).keys() == {"other"}

    arguments = {"kind": "ValueError: worse", "tasks": ["other", "well"], "state": "FAILED"}
    work = carry_out(scheduler, a_claim("refetch", ["p"], arguments, "b2"))
    assert done(work)
    assert send(world, scheduler) == []  # "other" waits, so it is not FAILED
    del arguments["state"]
    assert done(carry_out(scheduler, a_claim("refetch", ["p"], arguments, "b3")))
    assert [each["taskid"] for each in send(world, scheduler)] == ["other"]
