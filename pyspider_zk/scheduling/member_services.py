"""Services of a member: what it does besides scheduling, from its join until it leaves."""

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

from pyspider_zk.cluster.coordinator import Coordinator
from pyspider_zk.cluster.event_archive import EventArchive, EventSearch
from pyspider_zk.cluster.event_log import EventLog
from pyspider_zk.cluster.reader import read_consumers
from pyspider_zk.cluster.tree import Tree
from pyspider_zk.config import Settings
from pyspider_zk.databases.archive import keeps_archives
from pyspider_zk.errors import Unavailable
from pyspider_zk.jobs.batch_service import BatchService
from pyspider_zk.jobs.finalizer import Finalizer
from pyspider_zk.jobs.local_jobs import LocalJobs
from pyspider_zk.jobs.model import Claimant
from pyspider_zk.jobs.queue import JobQueue
from pyspider_zk.jobs.runner import JobRunner
from pyspider_zk.loop import Loop
from pyspider_zk.projects.script_versions import ScriptVersions
from pyspider_zk.queues.api import Queues, WorkQueues
from pyspider_zk.scheduling.alert_webhook import AlertWebhook
from pyspider_zk.scheduling.census import Census, ClusterLook
from pyspider_zk.scheduling.engine import TaskEngine
from pyspider_zk.scheduling.event_archiving import EventArchiving
from pyspider_zk.scheduling.redelivery import Redelivery
from pyspider_zk.zookeeper.connection import Connection

NOT_JOINED = "this scheduler has not joined yet"


class MemberServices:
    """Services of a member: it accepts batches, and carries out the jobs of its slots.

    While it leads, it also finalizes jobs, archives events, redelivers what dead workers had, and
    takes the census if anybody wants to know.

    Threads: ``start`` and ``stop`` belong to the one that owns the scheduler; what they start has
    threads of its own. The other methods may be called from any.

    Args:
        local_jobs: where the scheduler's loop finds the jobs.
        wake: called when jobs have arrived.
        work: the queues of which is redelivered what dead workers had.
        surveyed: the queues of the census, closed after it; None: there is no census.

    Attributes:
        runner: claims jobs; None before the start.
        census: None before the start, and if there is none.
    """

    def __init__(
        self,
        settings: Settings,
        engine: TaskEngine,
        local_jobs: LocalJobs,
        wake: Callable[[], None],
        work: WorkQueues,
        surveyed: Queues | None,
    ) -> None:
        self._settings = settings
        self._engine = engine
        self._local_jobs = local_jobs
        self._wake = wake
        self._work = work
        self._surveyed = surveyed
        self._batch_service: BatchService | None = None
        self._events: EventSearch | None = None
        self._running = ExitStack()
        self.runner: JobRunner | None = None
        self.census: Census | None = None

    def start(self, ownership: Coordinator) -> None:
        """Start what this member needs; without a connection to ZooKeeper that is nothing."""
        if ownership.connection is None:
            return
        tree = Tree(self._settings.root)
        jobs = JobQueue(ownership.connection, tree.jobs)
        events = EventLog(ownership.connection, tree)
        self._batch_service = BatchService(
            self._engine.projectdb, jobs, events, ownership.cluster, self._settings.slots
        )
        self._archive(ownership, events)
        self._redeliver(ownership, ownership.connection)
        self._take_census(ownership, jobs)
        self._carry_out_jobs(ownership, jobs, events)

    def stop(self) -> None:
        """Stop whatever runs and give all jobs back; blocks for some seconds at most."""
        self._running.close()

    def batch_service(self) -> BatchService:
        """Return what batches are asked of.

        Raises:
            Unavailable: the member has not joined.
        """
        if self._batch_service is None:
            raise Unavailable(NOT_JOINED)
        return self._batch_service

    def events(self) -> EventSearch:
        """Return what events are asked of.

        Raises:
            Unavailable: the member has not joined.
        """
        if self._events is None:
            raise Unavailable(NOT_JOINED)
        return self._events

    def latest_look(self) -> ClusterLook | None:
        """Return what the census last saw; None if it is not taken, or not by this member."""
        return None if self.census is None else self.census.latest

    def _archive(self, ownership: Coordinator, events: EventLog) -> None:
        projectdb = self._engine.projectdb.unguarded
        archive = EventArchive(projectdb)
        self._running.callback(archive.close)
        self._events = EventSearch(events, archive)
        kept = archive if keeps_archives(projectdb) else None
        scripts = ScriptVersions(projectdb)
        self._running.callback(scripts.close)
        archiving = EventArchiving(lambda: ownership.leading, events, kept, scripts.forget_gone)
        self._run(archiving.loop, within=1.0)

    def _redeliver(self, ownership: Coordinator, connection: Connection) -> None:
        tree = Tree(self._settings.root)
        present = partial(read_consumers, connection, tree)
        redelivery = Redelivery(lambda: ownership.leading, present, self._work)
        self._run(redelivery.loop, within=1.0)

    def _take_census(self, ownership: Coordinator, jobs: JobQueue) -> None:
        if self._surveyed is None:
            return
        self._running.callback(self._surveyed.close)
        self.census = Census(
            ownership, jobs, self._surveyed, self._settings.lease, self._follow_alerts()
        )
        self._run(self.census.loop, within=5.0)

    def _follow_alerts(self) -> Callable[[ClusterLook | None], None]:
        """Start to post alerts, if the settings say where; return what looks are told to."""
        settings = self._settings
        if not settings.alert_webhook:
            return lambda _look: None
        webhook = AlertWebhook(settings.alert_webhook, settings.secret, settings.root)
        self._run(webhook.loop, within=1.0)
        return webhook.follow

    def _carry_out_jobs(self, ownership: Coordinator, jobs: JobQueue, events: EventLog) -> None:
        fence = self._engine.fence
        finalizer = Finalizer(jobs, events, fence, self._engine.resultdb)
        self.runner = JobRunner(
            jobs,
            self._local_jobs,
            fence,
            partial(_claimant, ownership),
            self._wake,
            finalizer.loop.wake,
        )
        self._running.callback(self.runner.stop)
        self.runner.start()
        self._run(finalizer.loop, within=5.0)

    def _run(self, loop: Loop, within: float) -> None:
        """Start a loop; when this member stops, its present turn has so many seconds to end."""
        self._running.callback(loop.stop, within)
        loop.start()


def _claimant(ownership: Coordinator) -> Claimant | None:
    """Return the claimant that the member claims jobs as, None while it is no member."""
    path = ownership.path
    return None if path is None else Claimant(path)
