"""Schedulers with real sqlite databases and the message queue of a test's memory."""

import logging
import queue
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest
from pyspider.database import connect_database

from pyspider_zk.config import Settings
from pyspider_zk.projects.slots import slot_of
from pyspider_zk.queues.api import Message
from pyspider_zk.queues.back_off import BackOff
from pyspider_zk.queues.names import QueueKind
from pyspider_zk.queues.resilient import ResilientQueue
from pyspider_zk.scheduling.engine import TaskEngine
from pyspider_zk.scheduling.member import ClusterScheduler
from pyspider_zk.scheduling.scheduler import SlotScheduler
from tests.support.memory_queues import MemoryBroker
from tests.support.sole_owner import SoleOwner

logger = logging.getLogger("scheduler")

M = TypeVar("M", bound=ClusterScheduler)

SLOTS = 8
MOMENT = 0.125
"""Seconds that a round takes for the messages that wait, about as many as in a cluster."""

SCRIPT = "class Handler: pass"


class RoundsOfTime(SlotScheduler):
    """Scheduler for whose messages a moment passes with each whole round."""

    def __init__(self, world: "World", fenced: TaskEngine) -> None:
        super().__init__(fenced, SLOTS, world.broker.queues(SLOTS), clock=lambda: world.now)
        self._world = world

    def run_once(self) -> None:
        self._world.now += MOMENT
        super().run_once()


class World:
    """Databases and queues that any number of schedulers share."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.broker = MemoryBroker()
        self.queues = self.broker.queues(SLOTS)
        self.fetcher: queue.Queue[dict[str, Any]] = queue.Queue()
        self.now = 1000.0  # seconds, of messages that wait
        self.taskdb = self.database("task")
        self.projectdb = self.database("project")

    def database(self, kind: str) -> Any:
        made = connect_database(f"sqlite+{kind}db:///{self.folder}/{kind}.db")
        made._execute("PRAGMA synchronous=OFF")  # no test pulls the plug
        return made

    def scheduler(
        self,
        owner: SoleOwner | None = None,
        engine_class: type[TaskEngine] = TaskEngine,
        **databases: Any,
    ) -> SlotScheduler:
        """Return a scheduler that owns what the owner says, by default everything."""
        chosen = {f"{kind}db": self.database(kind) for kind in ("task", "project", "result")}
        fenced = engine_class(
            **{**chosen, **databases},
            newtask_queue=None,
            status_queue=None,
            out_queue=ResilientQueue(self.fetcher, BackOff(logger, "tasks wait")),
            data_path=str(self.folder),
            slots=SLOTS,
        )
        fenced.fence.ownership = owner or SoleOwner(SLOTS)
        return RoundsOfTime(self, fenced)

    def member(self, kind: type[M], owner: SoleOwner) -> M:
        """Return a member that serves XML-RPC and has not joined; the owner decides on slots."""
        made = kind(
            **{f"{each}db": self.database(each) for each in ("task", "project", "result")},
            newtask_queue=None,
            status_queue=None,
            out_queue=self.fetcher,
            data_path=str(self.folder),
            settings=replace(Settings(), slots=SLOTS),
            queues=self.broker.queues(SLOTS),
            coordinate=lambda *_: owner,
        )
        threading.Thread(target=made.xmlrpc_run, kwargs={"port": 0}, daemon=True).start()
        return made

    def project(self, name: str, **fields: Any) -> None:
        """Write a project's row, running and as fast as may be unless told otherwise."""
        row = {"status": "RUNNING", "script": SCRIPT, "group": "", "comments": ""}
        self.projectdb.insert(name, {**row, "rate": 1e9, "burst": 1e9, **fields})

    def refuse_row(self, project: str, taskid: str) -> None:
        """Let the task database refuse whatever is written of a task, until ``accept_row``."""
        table = f"taskdb_{project}"
        for event in ("INSERT", "UPDATE"):
            self.taskdb._execute(
                f"CREATE TRIGGER refuse_{event} BEFORE {event} ON {table}"
                f" WHEN NEW.taskid = '{taskid}' BEGIN SELECT RAISE(ABORT, 'refused'); END"
            )

    def accept_row(self) -> None:
        """Let the task database accept all rows again."""
        for event in ("INSERT", "UPDATE"):
            self.taskdb._execute(f"DROP TRIGGER refuse_{event}")

    def send(self, kind: QueueKind, body: Any) -> None:
        """Publish a message to the queue of its project's slot."""
        self.queues.slot_queues.publish([Message(kind, slot_of(body["project"], SLOTS), body)])

    def new(self, *tasks: dict[str, Any]) -> None:
        """Publish new tasks, each by itself."""
        for each in tasks:
            self.send(QueueKind.NEWTASK, each)

    def script_is_known(self, project: str, **info: Any) -> None:
        """Answer the question that a scheduler asks before it selects anything."""
        self.script_told(project, save=info)

    def script_told(self, project: str, **track: Any) -> None:
        """Answer that question with a track."""
        pack = {"taskid": "_on_get_info", "project": project, "url": "data:,_on_get_info"}
        self.send(QueueKind.STATUS, {**pack, "track": track})

    def finish(self, sent: dict[str, Any], ok: bool = True) -> None:
        """Publish the status pack of a task that was dispatched."""
        track = {"fetch": {"ok": ok, "time": 0.1}, "process": {"ok": ok, "time": 0.1}}
        pack = {key: sent[key] for key in ("taskid", "project", "url", "schedule") if key in sent}
        self.send(QueueKind.STATUS, {**pack, "track": track})

    def dispatched(self) -> list[dict[str, Any]]:
        """Take what was dispatched to the fetcher, without pyspider's own questions."""
        return [each for each in self._sent() if each["taskid"] != "_on_get_info"]

    def asked_for_settings(self) -> list[str]:
        """Take what was dispatched, and return the projects whose scripts are asked."""
        return [each["project"] for each in self._sent() if each["taskid"] == "_on_get_info"]

    def _sent(self) -> list[dict[str, Any]]:
        sent = []
        while not self.fetcher.empty():
            sent.append(self.fetcher.get_nowait())
        return sent

    def waiting(self) -> int:
        """Return how many messages are not acknowledged."""
        return sum(self.queues.slot_queues.lengths().values())

    @contextmanager
    def tasks_locked(self) -> Iterator[None]:
        """Keep others from writing tasks while the block runs; they may read."""
        self.taskdb._execute("BEGIN IMMEDIATE")
        try:
            yield
        finally:
            self.taskdb._execute("ROLLBACK")

    def statuses(self, project: str) -> dict[str, int]:
        """Return the status of all rows of a project's tasks."""
        taskdb = self.database("task")
        return {
            row["taskid"]: row["status"]
            for status in (1, 2, 3, 4)
            for row in taskdb.load_tasks(status, project, ["taskid", "status"])
        }


def read_and_write(scheduler: SlotScheduler) -> None:
    """Do a round as far as its commit: nothing is sent or acknowledged."""
    scheduler.applier.finish()
    scheduler.intake.read(scheduler.engine.LOOP_LIMIT)
    scheduler.applier.apply(with_parked=True)
    scheduler.applier.write()


def save_all(scheduler: SlotScheduler) -> None:
    """Save what the next owner of all slots needs if their owner dies."""
    scheduler.handover.save(set(scheduler.fence.held))


def crawling(world: World, owner: SoleOwner | None = None) -> SlotScheduler:
    """Return a scheduler that knows the script of its only project ``p``."""
    world.project("p")
    world.script_is_known("p")
    scheduler = world.scheduler(owner)
    scheduler.run_once()
    return scheduler


def with_table(
    world: World, task: Callable[..., dict[str, Any]], owner: SoleOwner | None = None
) -> SlotScheduler:
    """Return such a scheduler that has sent one task, ``first``; what fails is tried soon."""
    scheduler = crawling(world, owner)
    scheduler.intake._pauses = (MOMENT, MOMENT)
    world.new(task("p", "first"))
    scheduler.run_once()
    return scheduler


def granted(epoch: int) -> SoleOwner:
    """Return an owner of everything, since this epoch."""
    owner = SoleOwner(SLOTS, ())
    owner.grant(range(SLOTS), epoch)
    return owner


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.fixture
def task() -> Callable[..., dict[str, Any]]:
    """Give a maker of new tasks."""

    def make(project: str, taskid: str = "t", **schedule: Any) -> dict[str, Any]:
        return {
            "taskid": taskid,
            "project": project,
            "url": f"http://site.example/{taskid}",
            "schedule": schedule,
            "fetch": {"timeout": 9},
            "process": {"callback": "page"},
        }

    return make


@pytest.fixture
def brisk() -> Iterator[None]:
    """Switch threads as often as possible."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)
