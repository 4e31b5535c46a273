"""The product's scheduler, unchanged, which writes down what it owns and every effect it has.

The stamp of an effect's start is taken before its fence is asked, so a process that is stopped
between fence and effect shows as one long effect around the stop.
"""

import itertools
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from queue import Full
from typing import Any

from pyspider_zk.cluster.coordinator import Coordinator
from pyspider_zk.errors import FenceClosed
from pyspider_zk.hooks import ClusterScheduler
from pyspider_zk.scheduling.project import LoadedProject
from pyspider_zk.scheduling.window import Window
from pyspider_zk.tasks.database import Seals, TaskWrite
from tests.chaos.mutations import MUTATIONS
from tests.chaos.recorder import PROCESSING_TIMEOUT, Recorder, boottime, note_commit

# What a restarting Redis loses between pyspider's components is tried again after ten minutes;
# a run of a minute cannot wait for that.
Window.processing_timeout = PROCESSING_TIMEOUT


class ChaosScheduler(ClusterScheduler):
    """Schedules as ever, with a history."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.history = Recorder.from_environment()
        self._numbers = itertools.count()
        self._asked_at: dict[str, float] = {}
        self._loop_thread = 0
        self._watches = _HandoverWatch(self), _ProjectSetWatch(self)
        self.out_queue: Any = _OutQueue(self.out_queue, self._sending)
        self.taskdb._bulk = _Bulk(self.taskdb._bulk, self._effect, self.history.name)
        broken = os.environ.get("CHAOS_WITHOUT")
        if broken:
            MUTATIONS[broken](self)

    def run(self) -> None:
        self._loop_thread = threading.get_ident()
        super().run()

    def states(self, slot: int) -> dict[str, Any]:
        """Return what no database holds of the projects of a slot."""
        mine = (one for one in list(self.projects.values()) if self.fence.slot(one.name) == slot)
        return {one.name: self._state(one) for one in mine}

    def _state(self, project: LoadedProject) -> dict[str, Any]:
        tasks, hours = project.task_queue, self.counters["1h"].counters
        ends = (hours.get((project.name, event)) for event in ("success", "failed", "retry"))
        return {
            "bucket": tasks.bucket.bucket,
            "rate": tasks.bucket.rate,
            "burst": tasks.bucket.burst,
            "paused": project.pause.state is True,
            "counted": sum(counter.sum for counter in ends if counter is not None),
            "known": not project.waiting_get_info,
            "tick": self.slot_scheduler.cron.last(project.name),
            "processing": len(tasks.processing.queue_dict),
        }

    def _may_send(self, project: str) -> bool:
        self._asked_at[project] = boottime()
        return super()._may_send(project)

    def _sending(self, task: dict[str, Any]) -> Any:
        """Return a dispatch, which began when the fence was asked about its project, if it was."""
        is_ours = threading.get_ident() == self._loop_thread  # nobody asks for one sent by hand
        since = self._asked_at.get(task["project"], boottime()) if is_ours else boottime()
        return self._effect("send", task, since)

    @contextmanager
    def _effect(self, kind: str, task: dict[str, Any], since: float) -> Iterator[None]:
        number = next(self._numbers)
        slot = self.fence.slot(task["project"])
        about = {"project": task["project"], "task": task["taskid"], "url": task.get("url")}
        if kind != "send":
            about["status"] = task.get("status")
        if threading.get_ident() != self._loop_thread:
            about["by_hand"] = True
        ticking = task["taskid"] == "_on_cronjob"
        tick = task["fetch"]["save"]["tick"] if ticking else None
        epoch = self.fence.held.get(slot)
        self.history.note(kind, at=since, n=number, slot=slot, epoch=epoch, tick=tick, **about)
        outcome = "unknown"
        try:
            yield
            outcome = "done"
        except FenceClosed:
            outcome = "refused"
            raise
        except Exception as error:
            outcome = f"failed: {error!r:.100}"
            raise
        finally:
            self.history.note("end", n=number, outcome=outcome)


class _HandoverWatch:
    """Tells when slots are given up, and whether their next owner gets a clean record."""

    def __init__(self, scheduler: ChaosScheduler) -> None:
        self._scheduler = scheduler
        self._told: set[tuple[int, int]] = set()
        self._left: set[tuple[int, int]] = set()
        handover = scheduler.slot_scheduler.handover
        self._uncommitted: list[int] = []  # of the slots that are given up just now
        self._follow, self._give_up = handover.follow, handover.give_up
        self._finished = handover._finished
        handover.follow, handover.give_up = self.follow, self.give_up
        handover._finished = self.finished

    def follow(self, ownership: Coordinator) -> None:
        held = set(self._scheduler.fence.held)
        asked = {pair for pair in ownership.view.releasing.items() if pair[0] not in held}
        could = {pair for pair in asked if ownership.open(*pair)}
        self._follow(ownership)
        for slot, epoch in asked - self._told - self._left:
            # A lease that began anew in the meantime may have come too late for that.
            is_open = (slot, epoch) in could and ownership.open(slot, epoch)
            self._scheduler.history.note("skip", slot=slot, epoch=epoch, open=is_open)
            if is_open:
                self._told.add((slot, epoch))

    def give_up(self, slots: Mapping[int, int], *, planned: bool) -> None:
        slots = dict(slots)
        if slots:
            self._left.update(slots.items())
            clean = planned and self._scheduler.fence.all_open()
            about = {"planned": planned, "clean": clean, "slots": slots}
            states = {slot: self._scheduler.states(slot) for slot in slots} if clean else {}
            states = {slot: found for slot, found in states.items() if found}
            self._scheduler.history.note("give_up", states=states, **about)
        self._uncommitted = []
        self._give_up(slots, planned=planned)
        if slots:
            ownership = self._scheduler.fence.ownership
            is_open = all(ownership.open(slot, epoch) for slot, epoch in slots.items())
            about = {"open": is_open, "uncommitted": self._uncommitted}
            self._scheduler.history.note("gave_up", slots=slots, **about)

    def finished(self, slots: Mapping[int, int]) -> dict[int, int]:
        found = self._finished(slots)
        self._uncommitted = sorted(slots.keys() - found.keys())
        return found


class _ProjectSetWatch:
    """Tells when the projects of a slot are in memory, and with what state."""

    def __init__(self, scheduler: ChaosScheduler) -> None:
        self._scheduler = scheduler
        self._loading: int | None = None  # the slot that is being taken
        project_set = scheduler.slot_scheduler.project_set
        self._load_slot, self._update = project_set.load_slot, project_set._update
        project_set.load_slot, project_set._update = self.load_slot, self.update

    def load_slot(self, slot: int, parts: Mapping[str, Any]) -> None:
        epoch = self._scheduler.fence.held.get(slot)
        clean = all(part.get("clean") for part in parts.values()) if parts else None
        self._scheduler.history.note("take", slot=slot, epoch=epoch, clean=clean)
        self._loading = slot
        try:
            self._load_slot(slot, parts)
        finally:
            self._loading = None
        states = self._scheduler.states(slot)
        self._scheduler.history.note("ready", slot=slot, epoch=epoch, states=states)

    def update(self, info: dict[str, Any]) -> None:
        """Note what comes into memory only after its slot: a database was locked meanwhile."""
        scheduler, name = self._scheduler, info["name"]
        slot = scheduler.fence.slot(name)
        is_late = name not in scheduler.projects and slot != self._loading
        self._update(info)
        if is_late:
            states = {name: scheduler._state(scheduler.projects[name])}
            epoch = scheduler.fence.held.get(slot)
            scheduler.history.note("loaded", slot=slot, epoch=epoch, states=states)


class _Bulk:
    """The task database in bulk, whose every written row is an effect."""

    def __init__(self, bulk: Any, effect: Any, member: str) -> None:
        self._bulk = bulk
        self._effect = effect
        self._member = member

    def write_many(
        self, writes: Sequence[TaskWrite], before_commit: Callable[[], None], seals: Seals
    ) -> None:
        since = boottime()

        def note_and_check() -> None:
            note_commit(self._bulk._taskdb, self._member, seals)
            before_commit()

        with ExitStack() as effects:
            for write in writes:
                kind = "insert" if write.is_new else "update"
                about = {name: write.columns.get(name) for name in ("url", "status")}
                task = {"project": write.project, "taskid": write.taskid, **about}
                effects.enter_context(self._effect(kind, task, since))
            self._bulk.write_many(writes, note_and_check, seals)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._bulk, name)


class _OutQueue:
    """The queue to the fetcher, whose every message is an effect."""

    def __init__(self, queue: Any, effect: Any) -> None:
        self._queue = queue
        self._effect = effect

    def packed(self, task: dict[str, Any]) -> Any:
        return task, self._queue.packed(task)

    def put_packed(self, messages: Sequence[Any]) -> int:
        for count, (task, raw) in enumerate(messages):
            try:
                with self._effect(task):
                    self._put(raw)
            except Full:
                return count
        return len(messages)

    def put_nowait(self, task: dict[str, Any]) -> Any:
        with self._effect(task):
            return self._queue.put_nowait(task)

    def _put(self, raw: Any) -> None:
        if not self._queue.put_packed([raw]):
            raise Full

    def __getattr__(self, name: str) -> Any:
        return getattr(self._queue, name)
