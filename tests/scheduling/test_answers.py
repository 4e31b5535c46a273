"""What one scheduler answers about what it has in memory."""

import copy
import logging
import queue
import threading
import time
import xmlrpc.client
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from pyspider.database.sqlite.taskdb import TaskDB
from pyspider.scheduler.scheduler import Scheduler

from pyspider_zk.cluster.records import Cluster
from pyspider_zk.config import Settings
from pyspider_zk.errors import BadMessage, Unavailable
from pyspider_zk.projects.slots import slot_of
from pyspider_zk.queues.back_off import BackOff
from pyspider_zk.queues.names import QueueKind
from pyspider_zk.queues.resilient import ResilientQueue
from pyspider_zk.rpc.router import Router
from pyspider_zk.scheduling.answers import LocalAnswers, rpc_functions
from pyspider_zk.scheduling.member import ClusterScheduler
from pyspider_zk.scheduling.project import SENT
from pyspider_zk.scheduling.scheduler import SlotScheduler
from tests.scheduling.test_task_databases import SharedWorld
from tests.support.stand_ins import faulty, read_all, running
from tests.support.world import SLOTS, World, crawling, granted

MakeTask = Callable[..., dict[str, Any]]


@pytest.fixture
def scheduler(world: World) -> SlotScheduler:
    world.project("p")
    world.project("q")
    world.project("off", status="STOP")
    made = world.scheduler()
    made.run_once()
    world.dispatched()
    return made


@pytest.fixture
def answers(scheduler: SlotScheduler) -> LocalAnswers:
    return LocalAnswers(scheduler)


def live_task(world: World, scheduler: SlotScheduler, task: dict[str, Any]) -> dict[str, Any]:
    """Return a task that was dispatched and is shown on the dashboard."""
    world.script_is_known(task["project"])
    world.new(task)
    scheduler.run_once()
    scheduler.run_once()
    live: dict[str, Any] = scheduler.engine.projects[task["project"]].active_tasks[0][1]
    return live


# -- active tasks ----------------------------------------------------------------------------


def test_active_tasks_have_pyspiders_fields_and_leave_the_live_ones_whole(
    world: World, scheduler: SlotScheduler, answers: LocalAnswers, task: MakeTask
) -> None:
    # given
    live = live_task(world, scheduler, task("p"))
    before = copy.deepcopy(live)
    # when
    ((_, shown),) = answers.get_active_tasks("p", 1)
    # then
    assert live == before
    assert before["fetch"] == {"timeout": 9}
    fields = ("type", "taskid", "project", "status", "url", "lastcrawltime", "track")
    assert shown == {key: before[key] for key in fields}


def test_pyspiders_own_scheduler_cuts_its_live_tasks(tmp_path: Any) -> None:
    """The fault that the copies are for; should it be mended there, they are not needed."""
    # given
    stock = Scheduler(None, None, None, None, None, data_path=str(tmp_path))
    stock._update_projects = lambda: None
    project = type("Project", (), {"active_tasks": []})()
    waiting = {"taskid": "t", "project": "p", "url": "u", "fetch": {}, "process": {}}
    project.active_tasks.append((1.0, waiting))
    stock.projects["p"] = project
    with running(stock.xmlrpc_run, 0):
        assert stock.xmlrpc_ready.wait(60)
        # when
        with xmlrpc.client.ServerProxy(f"http://127.0.0.1:{stock.xmlrpc_port}") as proxy:
            proxy.get_active_tasks()
        stock.quit()
    # then
    assert "fetch" not in waiting


def test_the_track_is_cut_as_pyspider_cuts_it(
    scheduler: SlotScheduler, answers: LocalAnswers
) -> None:
    track = {
        "fetch": {"ok": True, "time": 1, "status_code": 200, "content": "long", "headers": {}},
        "process": {"ok": True, "time": 1, "follows": 2, "logs": "long", "exception": None},
        "save": {"page": 1},
    }
    pack = {"taskid": "t", "project": "p", "url": "u", "track": track, "schedule": {"age": 1}}
    scheduler.engine.projects["p"].active_tasks.appendleft((5.0, pack))
    ((when, shown), *_) = answers.get_active_tasks("p")
    assert when == 5.0
    assert shown == {
        "taskid": "t",
        "project": "p",
        "url": "u",
        "track": {
            "fetch": {"ok": True, "time": 1, "status_code": 200},
            "process": {"ok": True, "time": 1, "follows": 2},
            "save": {"page": 1},
        },
    }


def test_the_newest_tasks_of_all_projects_come_first_up_to_the_limit(
    scheduler: SlotScheduler, answers: LocalAnswers, task: MakeTask
) -> None:
    for project in scheduler.engine.projects.values():
        project.active_tasks.clear()
    for when, project in enumerate("pqppq"):
        scheduler.engine.projects[project].active_tasks.appendleft((when, task(project)))
    assert [when for when, _ in answers.get_active_tasks()] == [4, 3, 2, 1, 0]
    assert [when for when, _ in answers.get_active_tasks(None, 2)] == [4, 3]
    assert [when for when, _ in answers.get_active_tasks("q", 100)] == [4, 1]
    assert answers.get_active_tasks("", -1) == []
    assert answers.get_active_tasks("unknown", 9) == []


def test_what_a_script_saved_can_be_carried_whatever_it_is(
    scheduler: SlotScheduler, answers: LocalAnswers, task: MakeTask
) -> None:
    save = {1: 2**40, "text": "\x00", "bytes": b"x"}
    scheduler.engine.projects["p"].active_tasks.appendleft(
        (1e12, task("p") | {"track": {"save": save}})
    )
    carried = xmlrpc.client.dumps((answers.get_active_tasks("p"),), methodresponse=True)
    (((_, shown), *_),) = xmlrpc.client.loads(carried)[0]
    assert shown["track"]["save"]["1"] == 2**40


# -- counters and sizes ----------------------------------------------------------------------


def test_counters_are_pyspiders(scheduler: SlotScheduler, answers: LocalAnswers) -> None:
    for window in scheduler.engine.counters:
        scheduler.engine.counters[window].event(("p", "success"), 3)
    for window in ("5m", "1h", "1d", "all"):
        assert answers.counter(window, "sum")["p"]["success"] == 3  # type: ignore[index]
    assert answers.counter("5m_time", "avg")["p"] == {"success": 3.0}  # type: ignore[index]


@pytest.mark.parametrize(("window", "value"), [("7m", "sum"), ("5m", "counters"), (None, None)])
def test_there_is_no_other_counter(answers: LocalAnswers, window: Any, value: Any) -> None:
    assert answers.counter(window, value) is None


def test_the_dashboard_gets_all_windows(answers: LocalAnswers) -> None:
    update = answers.webui_update()
    assert update["counter"].keys() == {"5m_time", "5m", "1h", "1d", "all"}
    assert update["pause_status"] == {"p": False, "q": False, "off": False}


def test_a_project_that_failed_often_is_paused(
    world: World, scheduler: SlotScheduler, answers: LocalAnswers, task: MakeTask
) -> None:
    # given
    world.script_is_known("p")
    scheduler.engine.FAIL_PAUSE_NUM = 2
    failed = task("p") | {"track": {"process": {"ok": False}}}
    for when in range(2):
        scheduler.engine.projects["p"].active_tasks.appendleft((when, failed))
    # when
    scheduler.run_once()
    # then
    assert answers.get_projects_pause_status()["p"] is True
    load = scheduler._load()  # as the heartbeat asks each second
    assert (load.paused, load.paused_names) == (1, ("p",))
    # when
    scheduler.engine.FAIL_PAUSE_NUM = 0
    scheduler.engine.attention.on_project("p")
    scheduler.run_once()
    # then
    assert answers.get_projects_pause_status()["p"] is False


def test_the_size_is_what_waits_in_memory(
    world: World, scheduler: SlotScheduler, answers: LocalAnswers, task: MakeTask
) -> None:
    soon = time.time() + 1000
    world.new(task("p", "1", exetime=soon), task("p", "2", exetime=soon))
    scheduler.run_once()
    assert answers.size() == 2


@pytest.mark.usefixtures("brisk")
def test_reading_disturbs_nobody_while_the_scheduler_works(
    scheduler: SlotScheduler, answers: LocalAnswers, task: MakeTask
) -> None:
    # given
    ended = threading.Event()
    project = scheduler.engine.projects["p"]

    def count() -> None:
        number = 0
        while not ended.is_set():
            number += 1
            scheduler.engine.counters["5m"].event((f"p{number % 500}", "success"), 1)
            project.active_tasks.appendleft((number, task("p") | {"type": SENT}))

    def come_and_go() -> None:
        while not ended.is_set():
            with scheduler.engine.lock:
                scheduler.engine.projects["new"] = project
            with scheduler.engine.lock:
                del scheduler.engine.projects["new"]

    # when
    with running(count), running(come_and_go):
        try:
            for _ in range(60):
                answers.webui_update()
                answers.get_active_tasks("", 50)
                answers.size()
        finally:
            ended.set()


# -- tasks -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "no_task",
    [
        None,
        "text",
        {},
        {"project": "p", "taskid": "t"},
        {"project": "p", "taskid": "", "url": "u"},
        {"project": "p/q", "taskid": "t", "url": "u"},
    ],
)
def test_newtask_refuses_what_is_no_task(
    world: World, answers: LocalAnswers, no_task: object
) -> None:
    assert answers.newtask(no_task) is False
    assert read_all(world.queues.slot_queues, SLOTS) == []


def test_newtask_refuses_unknown_and_stopped_projects(
    answers: LocalAnswers, task: MakeTask
) -> None:
    assert answers.newtask(task("nobody")) is False
    assert answers.newtask(task("off")) is False


@pytest.mark.parametrize("status", ["RUNNING", "DEBUG"])
def test_newtask_publishes_to_the_slot_of_the_project(
    world: World, answers: LocalAnswers, task: MakeTask, status: str
) -> None:
    # given a change that the scheduler has not seen
    world.projectdb.update("off", {"status": status})
    # when
    assert answers.newtask(task("off")) is True
    # then
    (delivery,) = read_all(world.queues.slot_queues, SLOTS)
    assert (delivery.kind, delivery.slot) == (QueueKind.NEWTASK, slot_of("off", SLOTS))
    assert delivery.body == task("off")


def test_a_task_of_a_project_that_was_just_started_is_not_lost(
    world: World, scheduler: SlotScheduler, answers: LocalAnswers, task: MakeTask
) -> None:
    # given a change that the scheduler has not seen
    scheduler.run_once()
    world.projectdb.update("off", {"status": "RUNNING"})
    # when
    assert answers.newtask(task("off", "on_start")) is True
    scheduler.run_once()
    # then
    assert world.statuses("off") == {"on_start": TaskDB.ACTIVE}


def test_messages_of_a_stopped_project_cost_one_look_at_its_row_in_a_round(
    world: World, scheduler: SlotScheduler, task: MakeTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler.run_once()
    read, looks = scheduler.project_set.look_at, list[str]()

    def look(name: str) -> bool:
        looks.append(name)
        return read(name)

    monkeypatch.setattr(scheduler.project_set, "look_at", look)
    world.new(*(task("off", f"t{number}") for number in range(20)))
    world.finish(task("off", "t0"))
    scheduler.run_once()
    assert looks == ["off"]
    assert world.statuses("off") == {}


def with_queues(world: World, scheduler: SlotScheduler, limit: int = 0) -> tuple[LocalAnswers, Any]:
    scheduler.queues, slot_queues = faulty(world.broker, SLOTS, limit)
    return LocalAnswers(scheduler), slot_queues


def test_newtask_refuses_rather_than_wait_for_room(
    world: World, scheduler: SlotScheduler, task: MakeTask
) -> None:
    answers, _ = with_queues(world, scheduler, limit=1)
    assert answers.newtask(task("p")) is True
    assert answers.newtask(task("p")) is False


def test_newtask_refuses_what_cannot_be_sent(
    world: World, scheduler: SlotScheduler, task: MakeTask
) -> None:
    answers, slot_queues = with_queues(world, scheduler)
    assert answers.newtask(task("p", age=2**70)) is False
    slot_queues.away = True
    assert answers.newtask(task("p")) is False


def test_send_task_goes_to_the_fetcher_at_once(
    world: World, answers: LocalAnswers, task: MakeTask
) -> None:
    assert answers.send_task(task("p")) is True
    assert world.dispatched() == [task("p")]


def test_send_task_waits_for_room_at_the_fetcher(
    scheduler: SlotScheduler, answers: LocalAnswers, task: MakeTask
) -> None:
    # given
    full: queue.Queue[Any] = queue.Queue(maxsize=1)
    full.put("in the way")
    scheduler.engine.out_queue = ResilientQueue(full, BackOff(logging.getLogger(), "tasks wait"))
    # when
    assert answers.send_task(task("p")) is True
    scheduler.run_once()
    assert full.get_nowait() == "in the way"
    scheduler.run_once()
    # then
    assert full.get_nowait()["taskid"] == "t"


def test_a_scheduler_that_has_ended_keeps_no_task_that_it_cannot_send(
    world: World, scheduler: SlotScheduler, task: MakeTask
) -> None:
    send_task = rpc_functions(scheduler, Router(nobody))["local_send_task"]
    scheduler.engine.calls.close()
    assert send_task(task("p")) is True
    assert world.dispatched() == [task("p")]

    world.fetcher.maxsize = 1
    world.fetcher.put(task("q"))

    with pytest.raises(xmlrpc.client.Fault, match="has ended: send the task again") as refused:
        send_task(task("p"))
    assert refused.value.faultCode == 503


def test_send_task_refuses_what_is_no_task(answers: LocalAnswers) -> None:
    with pytest.raises(BadMessage):
        answers.send_task({"project": "p"})


def test_update_project_makes_the_next_round_look(
    world: World, scheduler: SlotScheduler, answers: LocalAnswers
) -> None:
    scheduler.run_once()  # it took slots in the round before, and looks once more
    world.project("new")
    scheduler.run_once()
    assert "new" not in scheduler.engine.projects
    answers.update_project()
    scheduler.run_once()
    assert "new" in scheduler.engine.projects


# -- all functions ---------------------------------------------------------------------------


def test_every_function_of_pyspider_is_served_for_the_cluster_and_for_one(
    scheduler: SlotScheduler,
) -> None:
    names = {
        "size",
        "counter",
        "newtask",
        "send_task",
        "update_project",
        "get_active_tasks",
        "get_projects_pause_status",
        "webui_update",
        "quarantine",
    }
    numbers = {"local_project_numbers", "local_project_history", "local_throughput"}
    assert rpc_functions(scheduler, Router(nobody)).keys() == (
        names | {f"local_{name}" for name in names} | numbers
    )


def nobody() -> Cluster:
    raise Unavailable("nothing is known")


def test_a_scheduler_that_has_not_joined_knows_no_other(world: World) -> None:
    queues = world.broker.queues(SLOTS)
    databases = {f"{kind}db": world.database(kind) for kind in ("task", "project", "result")}
    scheduler = ClusterScheduler(
        **databases,
        newtask_queue=None,
        status_queue=None,
        out_queue=world.fetcher,
        settings=Settings(slots=SLOTS),
        queues=queues,
    )

    with pytest.raises(OSError, match="no scheduler"):
        scheduler._router.size()


# -- junk ------------------------------------------------------------------------------------

JUNK = [None, 7, 7.5, True, "x", b"x", [], ["x"], [[1]], {}, {"a": 1}, {"project": "p"}, 2**70]
ANSWERED = (
    "counter",
    "newtask",
    "send_task",
    "get_active_tasks",
    "project_history",
    "size",
    "webui_update",
)


def test_whatever_is_handed_over_the_next_round_is_as_ever(
    world: World, scheduler: SlotScheduler, task: MakeTask
) -> None:
    # given
    world.script_is_known("p")
    functions = rpc_functions(scheduler, Router(lambda: Cluster(None, None)))  # type: ignore[arg-type]
    before = len(scheduler.engine.dispatch.waiting), world.fetcher.qsize()
    # when
    for name in ANSWERED:
        for args in [(), *((one,) for one in JUNK), *((one, one) for one in JUNK)]:
            with suppress(xmlrpc.client.Fault, TypeError):
                functions[f"local_{name}"](*args)
    # then
    assert (len(scheduler.engine.dispatch.waiting), world.fetcher.qsize()) == before
    world.new(task("p", "good"))
    scheduler.run_once()
    scheduler.run_once()
    assert [each["taskid"] for each in world.dispatched()] == ["good"]


@pytest.mark.parametrize(
    ("name", "args", "words"),
    [
        ("send_task", ({"project": "p"},), "a task needs taskid, url"),
        ("get_active_tasks", ("p", "x"), "limit must be a whole number"),
        ("get_active_tasks", (["p"],), "project must be a name"),
        ("project_history", (7,), "names must be a list"),
        ("project_numbers", ("p",), "names must be a list"),
        ("project_history", ([[1]],), "names must be a list"),
    ],
)
def test_what_is_wrong_with_an_argument_is_said(
    scheduler: SlotScheduler, name: str, args: tuple[Any, ...], words: str
) -> None:
    functions = rpc_functions(scheduler, Router(lambda: Cluster(None, None)))  # type: ignore[arg-type]
    with pytest.raises(xmlrpc.client.Fault, match=words):
        functions[f"local_{name}"](*args)


def test_a_task_that_cannot_be_sent_is_not_kept_for_later(
    scheduler: SlotScheduler, answers: LocalAnswers, task: MakeTask
) -> None:
    with pytest.raises(BadMessage):
        answers.send_task(task("p", fetch={"timeout": 2**70}))
    assert len(scheduler.engine.dispatch.waiting) == 0


def test_whoever_asks_while_no_member_can_be_reached_is_told_so(scheduler: SlotScheduler) -> None:
    def away() -> Cluster:
        raise Unavailable("ZooKeeper does not answer")

    router = Router(away)
    functions = rpc_functions(scheduler, router)
    try:
        for name, given in (("update_project", ()), ("size", ()), ("newtask", ({"project": "p"},))):
            with pytest.raises(xmlrpc.client.Fault, match=name) as found:
                functions[name](*given)
            assert found.value.faultCode == 503
    finally:
        router.close()


# -- active tasks of a former owner --------------------------------------------------------------


@pytest.mark.parametrize("kind", [World, SharedWorld])
def test_active_tasks_of_an_owner_that_died_come_from_rows(
    tmp_path: Path, task: MakeTask, kind: type[World]
) -> None:
    world = kind(tmp_path)
    before = crawling(world)
    for taskid, ok in (("a", True), ("c", True), ("b", False)):
        world.new(task("p", taskid, retries=0))
        before.run_once()
        world.finish(task("p", taskid, retries=0), ok)
        before.run_once()
    world.new(task("p", "waiting"))
    before.run_once()
    world.dispatched()

    world.script_is_known("p")
    after = world.scheduler(granted(epoch=2))
    after.run_once()
    told = LocalAnswers(after).get_active_tasks("p")

    assert [each["taskid"] for _, each in told] == ["waiting", "b", "c", "a"]
    assert [each["status"] for _, each in told] == [1, TaskDB.FAILED, 2, 2]
    assert told[1][1]["track"]["process"] == {"ok": False, "time": 0.1}
    assert [when for when, _ in told] == sorted((when for when, _ in told), reverse=True)
    assert LocalAnswers(after).get_active_tasks("p", 2) == told[:2]
