"""Whatever is asked of a member, by many threads at once, disturbs no round and loses nothing."""

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from xmlrpc.client import Fault, ServerProxy

import pytest

from pyspider_zk.config import Settings
from pyspider_zk.rpc.router import Router
from pyspider_zk.rpc.server import Functions
from pyspider_zk.scheduling.answers import rpc_functions
from pyspider_zk.scheduling.measures import SchedulerMeasures
from pyspider_zk.scheduling.round_pace import RoundTimes
from pyspider_zk.scheduling.scheduler import SlotScheduler
from tests.support.connected import rpc_url
from tests.support.live_cluster import LiveCluster, living
from tests.support.waiting import eventually
from tests.support.world import World

MakeTask = Callable[..., dict[str, Any]]

THREADS, TURNS = 8, 30
PROJECTS = [f"p{number}" for number in range(20)]
COMES_AND_GOES = "comes_and_goes"
ROOM = 5  # at the fetchers; in some rounds there is room for all
BACKLOG = 2000  # tasks that wait from the beginning
MOST_ROUNDS = 1000  # that no test needs
ENDS = {"_quit", "local_drain"}  # a member
OVER = ("done", "cancelled")  # as is a batch


@pytest.fixture
def scheduler(world: World) -> SlotScheduler:
    for name in PROJECTS:
        world.project(name)
    made = world.scheduler()
    made.run_once()
    world.dispatched()
    world.fetcher.maxsize = ROOM
    return made


def functions_of(scheduler: SlotScheduler) -> Functions:
    """Return what a member answers for itself, and what its other threads read."""
    measures = SchedulerMeasures(scheduler, RoundTimes())
    served = rpc_functions(scheduler, Router(lambda: None))  # type: ignore[arg-type, return-value]
    return {
        **{name: each for name, each in served.items() if name.startswith("local_")},
        "metrics": lambda: [*measures.work(), *measures.membership()],
        "lease": lambda: (scheduler.load, scheduler.active_projects, scheduler.heartbeat.age),
    }


class EagerCaller:
    """Calls every function, many times, and after each of them sends a task by hand.

    Attributes:
        sent: the ids of the tasks that were accepted.
    """

    def __init__(self, functions: Functions, task: MakeTask, number: int) -> None:
        self._functions = functions
        self._task = task
        self._number = number
        self.sent: list[str] = []

    def send_many(self) -> None:
        """Let the loop have much to go through."""
        for number in range(BACKLOG):
            self._send("local_send_task", PROJECTS[number % len(PROJECTS)], f"early {number}")

    def call_all(self) -> None:
        names = sorted(self._functions)
        names = names[self._number :] + names[: self._number]  # everybody in another order
        for turn in range(TURNS):
            for name in names:
                self._call(name, PROJECTS[turn % len(PROJECTS)], turn)
                self._send("local_send_task", PROJECTS[turn % len(PROJECTS)], f"{turn} {name}")

    def _call(self, name: str, project: str, turn: int) -> None:
        given: dict[str, tuple[Any, ...]] = {
            "local_counter": ("5m", "sum"),
            "local_get_active_tasks": (None, 50),
            "local_project_history": ([project],),
        }
        if name in ("local_newtask", "local_send_task"):
            self._send(name, project, f"{turn}")
        else:
            self._functions[name](*given.get(name, ()))

    def _send(self, name: str, project: str, taskid: str) -> None:
        taskid = f"{name} {self._number} {taskid}"
        assert self._functions[name](self._task(project, taskid)) is True
        self.sent.append(taskid)


class CrawlByRounds:
    """Rounds of a scheduler, and what the fetchers got in between."""

    def __init__(self, world: World, scheduler: SlotScheduler) -> None:
        self._world = world
        self._scheduler = scheduler
        self._rounds = 0
        self.fetched: Counter[str] = Counter()

    def go_on(self) -> None:
        """Do a round; scripts answer what they are asked, and a project comes or goes."""
        self._rounds += 1
        assert self._rounds < MOST_ROUNDS
        for name in PROJECTS:
            self._world.script_is_known(name, min_tick=1)
        if self._rounds % 4 == 1:
            self._world.project(COMES_AND_GOES)
        elif self._rounds % 4 == 3:
            self._world.projectdb.drop(COMES_AND_GOES)
        self._world.fetcher.maxsize = ROOM if self._rounds % 16 < 12 else 0
        self._scheduler.run_once()
        for each in self._world.dispatched():
            self.fetched[each["taskid"]] += 1
            if each["taskid"].startswith("local_newtask"):
                self._world.finish(each)


@pytest.mark.usefixtures("brisk")
def test_every_function_is_called_from_many_threads_while_rounds_run(
    world: World, scheduler: SlotScheduler, task: MakeTask, caplog: pytest.LogCaptureFixture
) -> None:
    functions, crawl = functions_of(scheduler), CrawlByRounds(world, scheduler)
    callers = [EagerCaller(functions, task, number) for number in range(THREADS)]
    callers[0].send_many()
    with ThreadPoolExecutor(THREADS) as pool:
        ends = [pool.submit(caller.call_all) for caller in callers]
        while not all(end.done() for end in ends):
            crawl.go_on()
    for end in ends:
        end.result()
    sent = {taskid for caller in callers for taskid in caller.sent}
    while not sent <= crawl.fetched.keys():
        crawl.go_on()

    assert {crawl.fetched[taskid] for taskid in sent} == {1}
    assert scheduler.quarantine.told() == {}
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []


class EagerClient:
    """Calls by XML-RPC all that a whole member serves, except for what ends it.

    Attributes:
        batches: the ids of those that were accepted.
    """

    def __init__(self, url: str, task: MakeTask, number: int) -> None:
        self._url = url
        self._task = task
        self._number = number
        self.batches: list[str] = []

    def call_all(self) -> None:
        with ServerProxy(self._url, allow_none=True) as proxy:
            listed: Any = proxy.system.listMethods()
            served = sorted({each for each in listed if "." not in each} - ENDS)
            shift = self._number * len(served) // THREADS
            for turn in range(2):
                given = self._arguments(f"{self._number} {turn}")
                proxy.submit_operation(*given["submit_operation"])
                self.batches.append(f"{self._number} {turn}")
                for name in served[shift:] + served[:shift]:
                    self._call(proxy, name, given.get(name, ()))

    def _arguments(self, what: str) -> dict[str, tuple[Any, ...]]:
        stop = ("stop", {"names": ["b"]})
        local: dict[str, tuple[Any, ...]] = {
            "counter": ("5m", "sum"),
            "newtask": (self._task("a", f"new {what}"),),
            "send_task": (self._task("a", f"by hand {what}"),),
        }
        return {
            **local,
            **{f"local_{name}": each for name, each in local.items()},
            "local_project_history": (["a"],),
            "get_task": ("a", f"new {what}"),
            "plan_operation": stop,
            "submit_operation": (*stop, None, "", what),
            **dict.fromkeys(("get_batch", "cancel_batch", "retry_batch"), (what,)),
        }

    def _call(self, proxy: ServerProxy, name: str, given: tuple[Any, ...]) -> None:
        try:
            assert getattr(proxy, name)(*given) is not False, name
        except Fault as fault:
            # A batch that failed for no project; a task whose row is not written yet.
            if (name, fault.faultCode) not in (("retry_batch", 422), ("get_task", 404)):
                raise


@pytest.mark.zk
@pytest.mark.usefixtures("brisk")
def test_every_function_of_a_whole_member_is_called_from_many_threads(
    tmp_path: Path, cluster_settings: Settings, task: MakeTask, caplog: pytest.LogCaptureFixture
) -> None:
    with living(LiveCluster(tmp_path, cluster_settings), eventually) as cluster:
        (member,) = cluster.running
        address = f"127.0.0.1:{member.rpc.bound(5)[1]}"
        clients = [
            EagerClient(rpc_url(address, cluster_settings.secret), task, number)
            for number in range(THREADS)
        ]
        with ThreadPoolExecutor(THREADS) as pool:
            for end in [pool.submit(client.call_all) for client in clients]:
                end.result()
        with ServerProxy(rpc_url(address, cluster_settings.secret), allow_none=True) as proxy:
            for batch in [batch for client in clients for batch in client.batches]:
                eventually(lambda batch=batch: proxy.get_batch(batch)["state"] in OVER, batch)

    sent = [each["taskid"] for each in list(cluster.dispatched.queue)]
    by_hand = {f"by hand {number} {turn}" for number in range(THREADS) for turn in range(2)}
    assert {sent.count(taskid) for taskid in by_hand} == {2}, "by the cluster and by the member"
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []
