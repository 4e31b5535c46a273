"""Scheduler of the slots that a member holds: its parts, and one round of them."""

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice

from pyspider_zk.cluster.ownership import Fence
from pyspider_zk.cluster.records import Load
from pyspider_zk.errors import DatabaseAway
from pyspider_zk.jobs.local_jobs import LocalJobs
from pyspider_zk.queues.api import Queues
from pyspider_zk.queues.names import SlotQueue
from pyspider_zk.scheduling.clock_jumps import ClockJumps
from pyspider_zk.scheduling.counters import NAMED, FiveMinutes, log_counters
from pyspider_zk.scheduling.cron import Cron
from pyspider_zk.scheduling.deletion import Deletion
from pyspider_zk.scheduling.engine import TaskEngine
from pyspider_zk.scheduling.heartbeat import Heartbeat
from pyspider_zk.scheduling.history import HistoryAdditions
from pyspider_zk.scheduling.intake import Intake
from pyspider_zk.scheduling.loading import TaskLoading
from pyspider_zk.scheduling.message_applier import MessageApplier
from pyspider_zk.scheduling.operations import ProjectOperations
from pyspider_zk.scheduling.parking import Parking
from pyspider_zk.scheduling.project_rows import ProjectRows
from pyspider_zk.scheduling.project_set import ProjectSet
from pyspider_zk.scheduling.quarantine import Quarantine
from pyspider_zk.scheduling.script_calls import ScriptCalls
from pyspider_zk.scheduling.selection import TaskSelection
from pyspider_zk.scheduling.transfer import Handover

NEWS_SHARE = 0.01
"""Seconds of each round for saving the records of slots with news."""

SLOTS_AT_ONCE = 8
"""Whose records are saved before the time is looked at again."""

SAVE_INTERVAL = 60.0
"""Seconds after which the records of all slots are saved again, and the counters logged."""


class SlotScheduler:
    """Scheduler of the projects of some slots, composed of parts.

    All decisions about tasks are those of pyspider's scheduler. The parts here decide which
    projects are in memory, where messages come from, when they count as applied, and when nothing
    may be done.

    Threads: the one that calls ``run_once`` owns it; others may use what is documented so. The
    constructor does no I/O.

    Args:
        due: returns in each round the queues that may have new messages; see ``Arrivals``.
        is_inbox_due: returns in each round whether to look into the inbox, if this member leads.
        engine: decides about tasks; nobody else may call it during a round.
        clock: in seconds, for messages that wait.

    Attributes:
        rows: the rows of the project database.
        project_set: the projects in memory.
        intake: the messages without acknowledgement.
        applier: applies messages.
        cron: which ticks are due.
        script_calls: sends ticks.
        selection: sends due tasks to the fetcher.
        deletion: deletes projects.
        handover: loads slots and gives them up.
        local_jobs: the jobs to carry out for projects.
        is_busy: whether the next round should follow at once.
        may_find_more: whether a round for new messages should follow at once.
        heartbeat: shows that the loop runs.
        closures: how often the fence was found closed that had been open.
    """

    def __init__(
        self,
        engine: TaskEngine,
        slots: int,
        queues: Queues,
        due: Callable[[], Collection[SlotQueue] | None] = lambda: None,
        is_inbox_due: Callable[[], bool] = lambda: True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.engine = engine
        self.queues = queues
        self._due = due
        self._is_inbox_due = is_inbox_due
        self.is_busy = False
        self.may_find_more = False
        self.closures = 0
        self._was_open = False
        self._lately = FiveMinutes()
        self.heartbeat = Heartbeat(engine.fence, self._load)
        beat = self.heartbeat.beat
        self.cron = Cron()
        self.rows = ProjectRows(engine, slots, beat)
        self._loading = TaskLoading(engine, beat)
        self.project_set = ProjectSet(engine, self.rows, self._loading, self.cron, beat)
        parking = Parking(queues.parking_lot, clock=clock)
        self.intake = Intake(queues.slot_queues, parking, clock=clock)
        self.applier = MessageApplier(engine, self.project_set, self.intake, self.heartbeat)
        self.script_calls = ScriptCalls(engine, self.project_set, self.cron, beat)
        self.selection = TaskSelection(engine, self.project_set)
        self.deletion = Deletion(engine, self.project_set)
        self.handover = Handover(
            engine.fence,
            self.intake,
            queues.records,
            self.project_set,
            self.applier,
            engine.databases.seals,
            queues.work,
            beat,
        )
        operations = ProjectOperations(engine, self.project_set, self.applier, self.deletion)
        self.local_jobs = LocalJobs(operations.stages, engine.fence, engine.calls.post)
        self._history = HistoryAdditions(engine.counts, queues.history)
        self._clock_jumps = ClockJumps()
        self._saved = 0.0  # by the wall clock, as pyspider does
        self._saved_at: dict[int, int] = {}  # epochs of the slots whose records were saved

    @property
    def fence(self) -> Fence:
        """The slots that are held, and whether effects are allowed. Threads: any."""
        return self.engine.fence

    @property
    def quarantine(self) -> Quarantine:
        """The projects at fault. Threads: any."""
        return self.project_set.quarantine

    @property
    def load(self) -> Load:
        """How much there is to do here. Threads: any."""
        return self.heartbeat.load

    @property
    def active_projects(self) -> Mapping[int, int]:
        """How many active projects the slots have. Threads: any."""
        return self.rows.index.active

    # -- a round ----------------------------------------------------------------------------------

    def run_once(self) -> None:
        """Do one round: make posted calls, follow the assignment, apply messages, send tasks."""
        self.is_busy = self.may_find_more = False
        self.engine.calls.make()
        self.heartbeat.beat()
        self._follow_clock()
        self.project_set.follow_rows()
        ownership = self.fence.ownership
        if ownership is None:
            return
        self.handover.follow(ownership)
        self.local_jobs.follow()
        if ownership.leading and self._is_inbox_due():
            self.queues.inbox.forward(self.engine.LOOP_LIMIT)
        due = self._due()
        outage = self._work(due) if self._is_open() else None
        self._save()
        if outage is not None:
            raise outage

    def take_arrivals(self) -> None:
        """Apply new messages and send the tasks of their projects, between two rounds.

        Everything else runs once per round, because pyspider counts rounds.
        """
        self.may_find_more = False
        self.engine.calls.make()
        self.heartbeat.beat()
        if self._is_open():
            with self._applied(self._due(), with_parked=False):
                self.selection.select(self.applier.touched)

    def _is_open(self) -> bool:
        """Return whether there are slots to work for and the fence is open; count its closures."""
        holds_slots, was_open = bool(self.fence.held), self._was_open
        self._was_open = holds_slots and self.fence.all_open()
        self.closures += was_open and holds_slots and not self._was_open
        return self._was_open

    def _work(self, due: Collection[SlotQueue] | None) -> DatabaseAway | None:
        """Do what only the owner of slots may do; return the outage that kept it from crawling.

        Jobs and deletions that do not need that database go on meanwhile, also if a commit waits
        for it: projects can be stopped.
        """
        outage: DatabaseAway | None = None
        try:
            with self._applied(due, with_parked=True):
                self._send()
        except DatabaseAway as error:
            outage = error
        self.is_busy |= self.local_jobs.work(self.heartbeat.beat)
        self.deletion.delete_due()
        return outage

    def _send(self) -> None:
        """Load tasks, and send ticks and due tasks."""
        self.is_busy = self._loading.work(self.project_set.isolating)
        self.script_calls.send_ticks()
        self.script_calls.repeat_info_requests()
        self.selection.select()

    @contextmanager
    def _applied(self, due: Collection[SlotQueue] | None, *, with_parked: bool) -> Iterator[None]:
        """Read messages, decide, commit under the seals; after the block acknowledge them.

        So no task waits to be sent for an acknowledgement.
        """
        self.applier.finish()
        self.intake.read(self.engine.LOOP_LIMIT, due=due)
        self.applier.apply(with_parked=with_parked)
        self.applier.write()
        try:
            yield
        finally:
            self.applier.acknowledge()
        self.may_find_more = bool(self.intake.read_of) or self.intake.has_backlog

    def _follow_clock(self) -> None:
        """Repair what depends on the wall clock if that was set back."""
        if self._clock_jumps.follow(self.engine):
            self._saved = min(self._saved, time.time())

    def _save(self) -> None:
        """Save the records of changed slots every minute, and of those with news at once."""
        self._save_news()
        now = time.time()
        if now - self._saved > SAVE_INTERVAL:
            self._saved = now
            self._save_changed()
            self._lately = log_counters(self.engine.counters, self.heartbeat.beat)
            self.add_history()

    def _save_news(self) -> None:
        """Save slots with news for a round's share of time; the others wait for the next round.

        A project whose script became known begins to tick: the next owner must know since when.
        One that begins to run is to be told when it has finished.
        """
        news, until = self.project_set.news, time.monotonic() + NEWS_SHARE
        while news:
            some = set(islice(news, SLOTS_AT_ONCE))
            if not self.handover.save(some):
                return
            news -= some
            if time.monotonic() >= until:
                return

    def _save_changed(self) -> None:
        """Save the slots that changed since they were saved, for the next owner after a death."""
        held, unsaved = dict(self.fence.held), self.engine.attention.unsaved
        new = {slot for slot, epoch in held.items() if self._saved_at.get(slot) != epoch}
        if self.handover.save(new | set(map(self.fence.slot, unsaved))):
            unsaved.clear()
            self._saved_at = held

    def add_history(self) -> None:
        """Add what was counted to the history.

        Raises:
            Unavailable: it is added the next time.
        """
        self._history.add(time.time(), self.engine.attention.pending.count())

    def _load(self) -> Load:
        meter, away = self.heartbeat.slot_meter, self.engine.databases.away
        meter.follow(self.fence.held, may_work=self._was_open and not away)
        projects = self.engine.projects.items()
        paused = [name for name, project in projects if project.pause.state is True]
        broken = [name for name, project in projects if project.active and project.cannot_start]
        return Load(
            len(self.engine.projects),
            self.engine.attention.pending.count(),
            *self.heartbeat.meter.rates(),
            quarantined=len(self.quarantine),
            away=away,
            slot_rates=meter.busiest,
            paused=len(paused),
            paused_names=tuple(paused[:NAMED]),
            broken=len(broken),
            broken_names=tuple(broken[:NAMED]),
            ended=self._lately.ended,
            failed=self._lately.failed,
            failing_names=self._lately.worst,
        )
