"""Jobs come from ZooKeeper to the scheduling loop, and what became of them goes back."""

import logging
import threading
import xmlrpc.client
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import pytest

from pyspider_zk.cluster.directory import Directory
from pyspider_zk.cluster.event_log import EventLog
from pyspider_zk.cluster.tree import Tree
from pyspider_zk.config import Settings
from pyspider_zk.errors import DatabaseAway, SessionLost, Unavailable
from pyspider_zk.hooks import ClusterScheduler
from pyspider_zk.jobs import runner
from pyspider_zk.jobs.batch_service import BatchService
from pyspider_zk.jobs.execution import JobWork
from pyspider_zk.jobs.local_jobs import LocalJobs
from pyspider_zk.jobs.model import (
    RECORD_LIMIT,
    Claim,
    Claimant,
    JobRules,
    JobState,
    Outcome,
    Report,
)
from pyspider_zk.jobs.queue import JobQueue
from pyspider_zk.jobs.runner import ROOM, JobRunner
from pyspider_zk.jobs.transactions import JobTree
from pyspider_zk.projects.selection import Selection
from pyspider_zk.projects.slots import slot_of
from pyspider_zk.rpc.client import Credentials, call
from pyspider_zk.scheduling.operation_answers import OperationAnswers, operation_functions
from pyspider_zk.tasks.task_report import Reports
from pyspider_zk.zookeeper.codec import plain
from tests.support.connected import connected, looking, patient
from tests.support.crew import expire
from tests.support.sole_owner import SoleOwner
from tests.support.waiting import PATIENCE, eventually
from tests.support.world import SLOTS, World

pytestmark = pytest.mark.zk

ALL = Selection(all=True)
RULES = JobRules(tries=3, pauses=(0.0,))


class FlakyQueue(JobQueue):
    """A job queue whose ZooKeeper can go away."""

    away = False
    refused = 0
    looks = 0

    def take(self, *args: Any, **kwargs: Any) -> list[Claim]:
        self._refuse()
        taken = super().take(*args, **kwargs)
        self.looks += 1
        return taken

    def report_all(self, reports: Sequence[Report]) -> list[Any]:
        if reports:
            self._refuse()
        return super().report_all(reports)

    def _refuse(self) -> None:
        if self.away:
            self.refused += 1
            raise Unavailable("ZooKeeper does not answer")


def refusing(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function, failing the first time as if ZooKeeper did not answer."""
    calls = iter((True,))

    def call(*args: Any, **kwargs: Any) -> Any:
        if next(calls, False):
            raise Unavailable("ZooKeeper does not answer")
        return function(*args, **kwargs)

    return call


class JobMember:
    """A scheduler with its job thread; the test's thread is its loop."""

    def __init__(self, world: World, settings: Settings, epoch: int = 1, **databases: Any) -> None:
        owner = SoleOwner(SLOTS, ())
        owner.grant(range(SLOTS), epoch)
        self.owner = owner
        self.scheduler = world.scheduler(owner, **databases)
        self.connection = patient(settings)
        self.connection.start()
        tree = Tree(settings.root)
        path = self.connection.create(f"{tree.members}/{epoch}-{id(self):x}", ephemeral=True)
        self.claimant: Claimant | None = Claimant(path)
        self.jobs = FlakyQueue(self.connection, tree.jobs, RULES)
        self.runner = JobRunner(
            self.jobs,
            self.scheduler.local_jobs,
            self.scheduler.fence,
            lambda: self.claimant,
            lambda: None,
            lambda: None,
        )
        self.runner.start()
        self._is_up = True

    def until(self, holds: Callable[[], object]) -> None:
        """Run rounds until something holds."""

        def held() -> object:
            found = holds()
            if not found:
                self.scheduler.run_once()
            return found

        eventually(held)

    def cancels_all(self) -> bool:
        """Return whether each job that it holds is known to be cancelled."""
        return all(work._cancelled for work in self.scheduler.local_jobs.works())

    def stop(self) -> None:
        """End in order."""
        if self._is_up:
            self._is_up = False
            self.runner.stop()
            self.connection.stop()

    def die(self) -> None:
        """End without a word: the session with all that is ephemeral is gone."""
        self._is_up = False
        self.jobs.away = True
        self.runner.stop()
        self.connection.stop()


class JobCluster:
    """What a test has."""

    def __init__(self, world: World, settings: Settings, stack: ExitStack) -> None:
        self.world = world
        self._settings = settings
        self._stack = stack
        connection = stack.enter_context(connected(settings))
        tree = Tree(settings.root)
        self.jobs = JobQueue(connection, tree.jobs)
        directory = Directory(settings, connection)
        events = EventLog(connection, tree)
        projectdb = world.database("project")
        self.batch_service = BatchService(projectdb, self.jobs, events, directory.read, SLOTS)

    def worker(self, epoch: int = 1, **databases: Any) -> JobMember:
        made = JobMember(self.world, self._settings, epoch, **databases)
        self._stack.callback(made.stop)
        return made

    def batch(self) -> dict[str, Any]:
        return self.batch_service.batch("mine")

    def state(self) -> str:
        return str(self.batch()["state"])


@pytest.fixture
def cluster(world: World, cluster_settings: Settings) -> Iterator[JobCluster]:
    with ExitStack() as stack:
        yield JobCluster(world, replace(cluster_settings, slots=SLOTS), stack)


def names(world: World, count: int) -> list[str]:
    made = [f"p{number}" for number in range(count)]
    for name in made:
        world.project(name)
    return made


def stopped(world: World) -> set[str]:
    return {row["name"] for row in world.projectdb.get_all() if row["status"] == "STOP"}


def test_what_is_asked_for_is_done_and_told(cluster: JobCluster, world: World) -> None:
    made = names(world, 20)
    worker = cluster.worker()

    cluster.batch_service.submit("stop", ALL, batch="mine")
    worker.until(lambda: cluster.state() == "done")

    assert stopped(world) == set(made)
    told = cluster.batch()
    assert (told["done"], told["failed"], told["remaining"]) == (20, 0, 0)
    assert worker.runner.works == []


def test_progress_is_told_while_it_goes_on(cluster: JobCluster, world: World) -> None:
    names(world, 20)
    worker = cluster.worker()
    worker.scheduler.local_jobs._share = 0
    cluster.batch_service.submit("stop", ALL, batch="mine")
    worker.until(lambda: worker.scheduler.local_jobs.works())
    worker.until(lambda: stopped(world))
    worker.scheduler.run_once()
    done = len(stopped(world))
    assert done < 20

    eventually(lambda: cluster.batch()["done"] >= done, "told without any round")
    assert cluster.batch()["remaining"] == 20 - done


def test_each_failure_is_told_by_project(cluster: JobCluster, world: World) -> None:
    names(world, 3)
    cluster.batch_service.submit("run", ALL, batch="mine")
    world.projectdb.update("p0", {"status": "STOP"})
    world.projectdb.drop("p1")
    worker = cluster.worker()

    worker.until(lambda: cluster.state() == "failed")

    assert cluster.batch()["errors"] == {
        "p0": "it is STOP; it must be RUNNING or DEBUG",
        "p1": "there is no such project",
    }
    assert cluster.batch()["done"] == 1


def test_the_job_of_a_dead_member_is_completed_and_nothing_is_started_twice(
    cluster: JobCluster, world: World
) -> None:
    made = names(world, 40)
    for name in made:
        world.script_is_known(name)
    cluster.batch_service.submit("run", ALL, batch="mine")
    dead = cluster.worker(epoch=1)
    dead.scheduler.local_jobs._share = 0
    dead.until(lambda: sum(bool(world.statuses(name)) for name in made) >= 15)
    dead.die()
    before = [s["project"] for s in world.dispatched() if s["taskid"] == "on_start"]

    after = cluster.worker(epoch=2)
    after.until(lambda: cluster.state() == "done")
    for name in made:
        world.script_is_known(name)
    again: list[str] = []

    def all_are_started() -> bool:
        again.extend(s["project"] for s in world.dispatched() if s["taskid"] == "on_start")
        return {*before, *again} == set(made)

    after.until(all_are_started)
    assert len(again) == len(set(again))
    assert cluster.batch()["done"] == 40


def test_a_member_that_ends_gives_back_with_what_is_done(cluster: JobCluster, world: World) -> None:
    names(world, 20)
    worker = cluster.worker()
    worker.scheduler.local_jobs._share = 0
    cluster.batch_service.submit("stop", ALL, batch="mine")
    worker.until(lambda: len(stopped(world)) >= 5)
    worker.stop()

    told = cluster.batch()
    assert told["jobs"]["running"] == 0
    assert told["done"] == len(stopped(world)) >= 5


def test_a_slot_that_moves_takes_its_job_along(cluster: JobCluster, world: World) -> None:
    names(world, 20)
    worker = cluster.worker()
    worker.scheduler.local_jobs._share = 0
    cluster.batch_service.submit("stop", ALL, batch="mine")
    worker.until(lambda: stopped(world))
    worker.owner.ask_back(range(SLOTS))
    worker.until(lambda: not worker.scheduler.local_jobs.works())

    assert cluster.batch()["jobs"]["running"] == 0
    after = cluster.worker(epoch=2)
    after.until(lambda: cluster.state() == "done")


def test_a_cancelled_batch_stops_where_it_is(cluster: JobCluster, world: World) -> None:
    names(world, 40)
    worker = cluster.worker()
    worker.scheduler.local_jobs._share = 0
    cluster.batch_service.submit("stop", ALL, batch="mine")
    worker.until(lambda: len(stopped(world)) >= 2)

    cluster.batch_service.cancel("mine")
    eventually(worker.cancels_all, "seen without any round")
    before = len(stopped(world))
    worker.until(lambda: cluster.state() == "cancelled")

    assert cluster.batch()["done"] == len(stopped(world)) == before < 40


def test_a_cancellation_is_seen_without_waiting_for_a_report(
    cluster: JobCluster, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing but the watch can tell: the next report would come in an hour."""
    for pause in ("REPORT", "CANCEL", "IDLE"):
        monkeypatch.setattr(runner, pause, 3600.0)
    names(world, 40)
    worker = cluster.worker()
    worker.scheduler.local_jobs._share = 0
    cluster.batch_service.submit("stop", ALL, batch="mine")
    worker.until(lambda: worker.scheduler.local_jobs.works() and len(stopped(world)) >= 2)

    cluster.batch_service.cancel("mine")
    eventually(worker.cancels_all, "seen without any round")
    before = len(stopped(world))
    worker.until(lambda: cluster.state() == "cancelled")

    assert len(stopped(world)) == before < 40


def test_a_job_whose_claimant_is_gone_is_laid_aside(cluster: JobCluster, world: World) -> None:
    names(world, 20)
    worker = cluster.worker()
    worker.scheduler.local_jobs._share = 0
    cluster.batch_service.submit("stop", ALL, batch="mine")
    worker.until(lambda: stopped(world))

    worker.claimant = None
    worker.runner.wake()

    eventually(lambda: not worker.runner.works, "laid aside without any round")
    assert cluster.batch()["jobs"]["running"] > 0, "it is not ours to give back"


def test_a_database_that_fails_is_tried_again_and_then_told(
    cluster: JobCluster, world: World
) -> None:
    class FullDisk:
        def __init__(self, inner: Any) -> None:
            self._inner = inner
            self.tried = 0

        def __getattr__(self, name: str) -> Any:
            return getattr(self._inner, name)

        def update(self, name: str, *args: Any, **kwargs: Any) -> Any:
            if name == "p1":
                self.tried += 1
                raise OSError("disk full")
            return self._inner.update(name, *args, **kwargs)

    made = names(world, 10)
    failing = FullDisk(world.database("project"))
    worker = cluster.worker(projectdb=failing)
    cluster.batch_service.submit("stop", ALL, batch="mine")
    worker.until(lambda: cluster.state() == "failed")

    done = cluster.jobs.batch("mine").jobs[JobState.DONE].values()  # type: ignore[union-attr]
    assert {job.attempts for job in done} == {0, RULES.tries}
    assert failing.tried >= RULES.tries, "by itself, and before that in a chunk"
    assert stopped(world) == set(made) - {"p1"}
    assert cluster.batch()["errors"] == {"p1": "OSError('disk full')"}


def test_work_goes_on_while_zookeeper_is_away_and_that_is_said_once(
    cluster: JobCluster, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "pyspider_zk.jobs")
    made = names(world, 20)
    worker = cluster.worker()
    worker.until(lambda: len(worker.scheduler.fence.held) == SLOTS)
    worker.scheduler.local_jobs._share = 0
    cluster.batch_service.submit("stop", ALL, batch="mine")
    jobs = sum(cluster.batch()["jobs"].values())
    worker.until(lambda: len(worker.scheduler.local_jobs.works()) == jobs)
    worker.jobs.away = True
    worker.until(lambda: stopped(world) == set(made) and worker.jobs.refused > 2)
    worker.jobs.away = False
    worker.until(lambda: cluster.state() == "done" and "answers again" in caplog.text)

    assert len([r for r in caplog.records if "answer" in r.message]) == 2


def test_jobs_outlast_ten_minutes_without_zookeeper(
    cluster: JobCluster, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = names(world, 20)
    worker = cluster.worker()
    worker.until(lambda: len(worker.scheduler.fence.held) == SLOTS)
    worker.scheduler.local_jobs._share = 0
    cluster.batch_service.submit("stop", ALL, batch="mine")
    worker.until(lambda: worker.scheduler.local_jobs.works())
    begun = len(worker.scheduler.local_jobs.works())
    worker.jobs.away = True
    monkeypatch.setattr(runner, "REPORT", 0.001)  # 10 minutes of looks, one a second
    worker.until(lambda: worker.jobs.refused > 600)
    assert len(worker.scheduler.local_jobs.works()) >= begun

    worker.jobs.away = False
    worker.until(lambda: cluster.state() == "done")

    assert stopped(world) == set(made)
    done = cluster.jobs.batch("mine").jobs[JobState.DONE].values()  # type: ignore[union-attr]
    assert {(job.attempts, job.deaths) for job in done} == {(0, 0)}


def test_a_job_waits_for_a_database_and_is_reported_meanwhile(
    cluster: JobCluster, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "CANCEL", 0.05)
    made = names(world, 20)
    worker = cluster.worker()
    worker.until(lambda: len(worker.scheduler.fence.held) == SLOTS)
    update = worker.scheduler.engine.projectdb.update
    away = [True]

    def refuse(*args: Any, **kwargs: Any) -> Any:
        if away:
            raise DatabaseAway("projectdb does not answer")
        return update(*args, **kwargs)

    monkeypatch.setattr(worker.scheduler.engine.projectdb, "update", refuse)
    cluster.batch_service.submit("stop", ALL, batch="mine")
    worker.until(lambda: worker.scheduler.local_jobs.works())
    work = worker.scheduler.local_jobs.works()[0]
    before = work.reported
    worker.until(lambda: work.reported > before)
    assert work.verdict is None

    away.clear()
    worker.until(lambda: cluster.state() == "done")
    assert stopped(world) == set(made)
    done = cluster.jobs.batch("mine").jobs[JobState.DONE].values()  # type: ignore[union-attr]
    assert {(job.attempts, job.deaths) for job in done} == {(0, 0)}


def test_a_job_that_waits_for_a_database_keeps_no_other_from_being_done(
    cluster: JobCluster, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting, other = names(world, 2)
    worker = cluster.worker()

    def refuse(_name: str) -> None:
        raise DatabaseAway("projectdb does not answer")

    monkeypatch.setattr(worker.scheduler.engine.projectdb, "drop", refuse)
    cluster.batch_service.submit("delete", Selection(names=(waiting,)), batch="first", priority=999)
    worker.until(lambda: worker.scheduler.local_jobs.works())
    cluster.batch_service.submit("stop", Selection(names=(other,)), batch="mine")
    worker.until(lambda: cluster.state() == "done")

    assert other in stopped(world)
    assert cluster.batch_service.batch("first")["state"] == "running"


def test_a_delete_is_marked_before_it_deletes(cluster: JobCluster, world: World) -> None:
    names(world, 10)
    worker = cluster.worker()
    marked: list[bool] = []
    drop = worker.scheduler.engine.projectdb.drop

    def look(name: str) -> Any:
        batch = cluster.jobs.batch("mine")
        assert batch is not None
        running = batch.jobs[JobState.RUNNING].values()
        marked.append(any(name in job.progress.get("versions", {}) for job in running))
        return drop(name)

    worker.scheduler.engine.projectdb.drop = look
    cluster.batch_service.submit("delete", ALL, batch="mine")
    worker.until(lambda: cluster.state() == "done")

    assert list(world.projectdb.get_all()) == []
    assert set(marked) == {True}


def test_a_cancelled_delete_is_swept_by_who_comes_after_its_claimant(
    cluster: JobCluster, world: World
) -> None:
    world.project("p")
    worker = cluster.worker()
    cluster.batch_service.submit("delete", ALL, batch="mine")
    worker.until(lambda: world.projectdb.get("p") is None)
    world.database("result").save("p", "t", "http://site.example/t", {})
    cluster.batch_service.cancel("mine")
    worker.die()

    after = cluster.worker(epoch=2)
    after.until(lambda: cluster.batch()["jobs"]["done"])

    assert "p" not in world.database("result").projects


def test_a_job_that_cannot_be_laid_down_holds_up_no_other_and_fails(
    cluster: JobCluster, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody may end up holding what nobody works on."""
    made = names(world, 20)
    worker = cluster.worker()
    add, poison = LocalJobs.add, slot_of("p0", SLOTS)

    def fails_for_one(local_jobs: LocalJobs, claim: Claim) -> JobWork:
        if slot_of(claim.name.project, SLOTS) == poison:
            raise RuntimeError("no room for it")
        return add(local_jobs, claim)

    monkeypatch.setattr(LocalJobs, "add", fails_for_one)
    cluster.batch_service.submit("stop", ALL, batch="mine")
    worker.until(lambda: cluster.state() == "failed")

    unlaid = {name for name in made if slot_of(name, SLOTS) == poison}
    assert stopped(world) == set(made) - unlaid
    assert set(cluster.batch()["errors"]) == unlaid
    assert "no room for it" in cluster.batch()["errors"]["p0"]


def test_a_job_with_no_room_for_its_end_holds_up_no_other(
    cluster: JobCluster, world: World, cluster_settings: Settings
) -> None:
    """An older version took such jobs."""
    first, second = names(world, 2)
    cluster.batch_service.submit("stop", Selection(names=(first,)), batch="full")
    ((name, job),) = cluster.jobs.batch("full").jobs[JobState.PENDING].items()
    room = RECORD_LIMIT - len(plain(replace(job, work={**job.work, "more": ""})))
    full = replace(job, work={**job.work, "more": "x" * room})
    with connected(cluster_settings) as connection:
        path = JobTree(Tree(cluster_settings.root).jobs).job(JobState.PENDING, name)
        connection.set(path, full.encode())
    worker = cluster.worker()

    cluster.batch_service.submit("stop", Selection(names=(second,)), batch="mine")
    worker.until(lambda: cluster.state() == "done")
    worker.until(lambda: not worker.runner.works)
    assert cluster.batch_service.batch("full")["state"] == "failed"
    assert not worker.jobs._hands._held


def test_what_was_claimed_when_the_job_thread_stumbled_is_begun_at_its_next_look(
    cluster: JobCluster, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = names(world, 20)
    worker = cluster.worker()
    add, stumbled = LocalJobs.add, threading.Event()

    def stumble(local_jobs: LocalJobs, claim: Claim) -> JobWork:
        if not stumbled.is_set():
            stumbled.set()
            raise RuntimeError("no room for it")
        return add(local_jobs, claim)

    monkeypatch.setattr(LocalJobs, "add", stumble)
    monkeypatch.setattr(worker.jobs, "give_back", refusing(worker.jobs.give_back))
    cluster.batch_service.submit("stop", ALL, batch="mine")
    worker.until(lambda: cluster.state() == "done")

    assert stumbled.is_set()
    assert stopped(world) == set(made)


def test_a_hung_loop_loses_its_jobs_with_its_slots(cluster: JobCluster, world: World) -> None:
    """Its process lives and so does its session; only its lease has ended."""
    made = names(world, 20)
    hung = cluster.worker(epoch=1)
    hung.scheduler.local_jobs._share = 0
    cluster.batch_service.submit("stop", ALL, batch="mine")
    hung.until(lambda: len(stopped(world)) >= 3)
    hung.owner.lose_lease()

    after = cluster.worker(epoch=2)
    after.until(lambda: cluster.state() == "done")
    hung.runner.wake()

    eventually(lambda: not hung.runner.works, "though its loop hangs still")
    assert stopped(world) == set(made)
    assert cluster.batch()["done"] == 20


def test_who_gets_its_slot_back_does_not_go_on_where_another_has_been(
    cluster: JobCluster, world: World
) -> None:
    names(world, 20)
    worker = cluster.worker(epoch=1)
    worker.scheduler.local_jobs._share = 0
    cluster.batch_service.submit("stop", ALL, batch="mine")
    worker.until(lambda: stopped(world))
    former = worker.scheduler.local_jobs.works()
    assert former

    worker.owner.grant(range(SLOTS), 3)
    worker.scheduler.run_once()

    assert all(work.verdict is not None for work in former)
    worker.until(lambda: cluster.state() == "done")


# --- jobs that wait -----------------------------------------------------------------------------


def on_starts_that_never_end(
    cluster: JobCluster, world: World, worker: JobMember, count: int
) -> None:
    """Have all projects started, and asked to start again so often; no fetcher answers."""
    cluster.batch_service.submit("start", ALL, batch="first")
    worker.until(lambda: cluster.batch_service.batch("first")["state"] == "done")
    for row in world.projectdb.get_all(fields=["name"]):
        world.script_is_known(row["name"])
    worker.until(lambda: len(world.fetcher.queue) >= 2 * len(list(world.projectdb.get_all())))
    for number in range(count):
        cluster.batch_service.submit("start", ALL, batch=f"again{number}")


def test_jobs_that_wait_take_no_places(cluster: JobCluster, world: World) -> None:
    made = names(world, 20)
    worker = cluster.worker()
    on_starts_that_never_end(cluster, world, worker, ROOM // SLOTS + 2)

    cluster.batch_service.submit("stop", ALL, batch="mine")
    worker.until(lambda: cluster.state() == "done")

    assert stopped(world) == set(made)
    worker.until(lambda: cluster.batch_service.batch("again0")["state"] == "failed")


def test_more_jobs_wait_than_a_member_holds(
    cluster: JobCluster, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "ROOM", 4)
    monkeypatch.setattr(runner, "HELD", 6)
    monkeypatch.setattr(runner, "CANCEL", 0.1)
    made = names(world, 20)
    worker = cluster.worker()
    on_starts_that_never_end(cluster, world, worker, 4)
    held = []

    cluster.batch_service.submit("stop", ALL, batch="mine")

    def is_over() -> bool:
        held.append(len(worker.scheduler.local_jobs.works()))
        return cluster.state() == "done"

    worker.until(is_over)
    assert stopped(world) == set(made)
    assert max(held) <= 6


# --- whole members ------------------------------------------------------------------------------


@contextmanager
def member(world: World, settings: Settings) -> Iterator[ClusterScheduler]:
    """Run a member in threads."""
    made = ClusterScheduler(
        **{f"{kind}db": world.database(kind) for kind in ("task", "project", "result")},
        newtask_queue=None,
        status_queue=None,
        out_queue=world.fetcher,
        data_path=str(world.folder),
        settings=settings,
        queues=world.broker.queues(SLOTS),
    )
    threads = [
        threading.Thread(target=made.xmlrpc_run, kwargs={"port": 0}, daemon=True),
        threading.Thread(target=made.run, daemon=True),
    ]
    for thread in threads:
        thread.start()
    try:
        yield made
    finally:
        made.quit()
        for thread in threads:
            thread.join(PATIENCE)
            assert not thread.is_alive()


@pytest.fixture
def asked(world: World, cluster_settings: Settings) -> Iterator[Callable[..., Any]]:
    """Give a function that asks one of two members by XML-RPC."""
    settings = replace(cluster_settings, slots=SLOTS)
    with member(world, settings), member(world, settings), looking(settings) as directory:
        eventually(lambda: len(directory.members()) == 2)
        asking = Credentials(settings.secret, "ann")
        yield lambda method, *args: call(
            next(iter(directory.members().values())),
            method,
            *args,
            credentials=asking,
            timeout=PATIENCE,
        )


def test_any_member_takes_in_what_all_of_them_carry_out(
    world: World, asked: Callable[..., Any]
) -> None:
    made = names(world, 20)
    plan = asked("plan_operation", "stop", {"pattern": "p*"})
    assert (plan["count"], plan["faults"]) == (20, [])

    asked("submit_operation", "stop", {"pattern": "p*"}, {}, "root", "mine")
    eventually(lambda: asked("get_batch", "mine")["state"] == "done")

    assert stopped(world) == set(made)
    assert asked("list_batches")["items"] == [asked("get_batch", "mine")]
    assert asked("list_projects", {"status": "STOP"}, "name", 0, 1)["total"] == 20
    assert asked("cancel_batch", "mine")["state"] == "done"
    said = [event for event in asked("list_events") if event["kind"] == "batch"]
    assert [(event["who"], event["data"]["batch"]) for event in said] == [("ann", "mine")]


@pytest.mark.parametrize(
    ("method", "args", "code", "told"),
    [
        ("submit_operation", ("paint", {"all": True}), 422, "no operation 'paint'"),
        ("submit_operation", ("stop", {"name": "p"}), 422, "a selection has no name"),
        ("get_batch", ("nothing",), 404, "no batch 'nothing'"),
        ("retry_batch", ("nothing",), 404, "no batch 'nothing'"),
        ("submit_operation", ([], {"all": True}), 422, "operation: Expected `str`"),
        ("submit_operation", ("stop", {"all": True}, {}, "", "", "high"), 422, "priority: Exp"),
        ("plan_operation", (7, {"all": True}), 422, "operation: Expected `str`"),
        ("get_batch", (0.5,), 422, "batch: Expected `str`, got `float`, not 0.5"),
        ("cancel_batch", ({},), 422, "batch: Expected `str`"),
        ("retry_batch", (True,), 422, "batch: Expected `str`"),
        ("list_batches", ("first",), 422, "offset: Expected `int`"),
        ("list_projects", ({}, []), 422, "sort: Expected `str`"),
        ("list_projects", ({}, "name", "x"), 422, "offset: Expected `int`"),
        ("list_projects", ({}, "name", 0, "y"), 422, "limit: Expected `int | null`"),
        ("list_events", ([],), 422, "after: Expected `int | null`"),
        ("list_failures", ([1],), 422, "a filter of failures must be an object"),
        ("list_failures", ({"kinds": "x"},), 422, "a filter of failures has no kinds"),
        ("list_failures", ({"status_code": "x"},), 422, "Expected `int | null`"),
        ("list_failures", ({}, "x"), 422, "offset: Expected `int`"),
        ("search_tasks", ({"error": "x"},), 422, "a filter of tasks has no error; known are proj"),
        ("search_tasks", ({}, "x"), 422, "the cursor 'x' is none of a search"),
        ("search_tasks", ({}, "row p 9"), 422, "none of a search"),
        ("get_task", ("p", "none"), 404, "project 'p' has no task 'none'"),
        ("find_events", ({"group": "all"},), 422, "filter of events: group: Invalid enum value"),
        ("find_events", ({"since": float("nan")},), 422, "a filter of events: since: nan is no"),
        ("find_events", ("",), 422, "a filter of events must be an object, not ''"),
        ("list_projects", (False,), 422, "a selection must be an object, not False"),
        ("find_events", ({}, [float("inf"), 2]), 422, "before: .inf, 2. is the place of no event"),
        ("find_events", ({}, [1.0]), 422, "before: Expected `array` of length 2"),
        ("list_failed_tasks", ({}, [1.0, "p"]), 422, "after: Expected `array` of length 3"),
    ],
)
def test_what_cannot_be_done_comes_as_a_fault_with_its_code(
    asked: Callable[..., Any], method: str, args: tuple[Any, ...], code: int, told: str
) -> None:
    with pytest.raises(xmlrpc.client.Fault, match=told) as found:
        asked(method, *args)
    assert found.value.faultCode == code


def test_between_two_sessions_a_member_asks_for_patience() -> None:
    def ended() -> BatchService:
        raise SessionLost("the ZooKeeper session ended")

    functions = operation_functions(
        OperationAnswers(ended, ended, lambda: Reports.of(None, None), {})
    )

    with pytest.raises(xmlrpc.client.Fault, match="session ended") as found:
        functions["list_batches"]()
    assert found.value.faultCode == 503


def test_before_it_has_joined_a_member_says_so(world: World, cluster_settings: Settings) -> None:
    made = ClusterScheduler(
        **{f"{kind}db": world.database(kind) for kind in ("task", "project", "result")},
        newtask_queue=None,
        status_queue=None,
        out_queue=world.fetcher,
        data_path=str(world.folder),
        settings=replace(cluster_settings, slots=SLOTS),
        queues=world.broker.queues(SLOTS),
    )
    for method, args in (("list_projects", ()), ("list_events", ()), ("find_events", ())):
        with pytest.raises(xmlrpc.client.Fault, match="not joined yet") as found:
            made.rpc._functions[method](*args)
        assert found.value.faultCode == 503


def test_outcomes_are_told_as_they_are_named() -> None:
    assert [str(outcome) for outcome in Outcome] == ["done", "failed", "cancelled"]


@pytest.fixture
def _without_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a member learn by watches alone: its next look would be an hour away."""
    for pause in ("EMPTY", "IDLE", "REPORT"):
        monkeypatch.setattr(f"pyspider_zk.jobs.runner.{pause}", 3600.0)


@pytest.mark.usefixtures("_without_looks")
def test_a_job_that_was_put_is_seen(cluster: JobCluster, world: World) -> None:
    """Several times, for a look that is just under way may see it without a watch."""
    names(world, 20)
    worker = cluster.worker()
    for batch in ("first", "second", "third", "fourth"):
        cluster.batch_service.submit("stop", ALL, batch=batch)
        worker.until(lambda batch=batch: cluster.batch_service.batch(batch)["state"] == "done")


@pytest.mark.usefixtures("_without_looks")
def test_the_end_of_another_claimant_is_seen(cluster: JobCluster, world: World) -> None:
    made = names(world, 40)
    dead = cluster.worker(epoch=1)
    dead.scheduler.local_jobs._share = 0
    cluster.batch_service.submit("stop", ALL, batch="mine")
    dead.until(lambda: stopped(world))
    alive = cluster.worker(epoch=1)
    alive.until(lambda: alive.jobs.looks >= 2)  # at its start, and because it has slots
    assert stopped(world) < set(made)

    expire(dead.connection)

    alive.until(lambda: cluster.state() == "done")
