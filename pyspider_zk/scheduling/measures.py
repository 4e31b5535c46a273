"""Measures of a scheduler: its metrics, read from what it has anyway."""

from collections.abc import Mapping

from pyspider_zk.cluster.coordinator import Coordinator
from pyspider_zk.metrics import families
from pyspider_zk.metrics.families import Metrics
from pyspider_zk.scheduling.round_pace import RoundTimes
from pyspider_zk.scheduling.scheduler import SlotScheduler
from pyspider_zk.zookeeper.waiting import boottime

EVENTS = {"new": "pending", "done": "success", "failed": "failed", "retried": "retry"}
"""What pyspider calls an outcome."""


class SchedulerMeasures:
    """The metrics of one scheduler. Threads: any; nothing blocks, nothing is asked of others."""

    def __init__(self, slot_scheduler: SlotScheduler, round_times: RoundTimes) -> None:
        self._slots = slot_scheduler
        self._round_times = round_times

    def work(self) -> Metrics:
        """Return what it does."""
        yield families.TASKS.by(self._outcomes())
        yield from self._round_times.histogram.collect()
        yield families.FAILED_ROUNDS.one(self._round_times.failures)
        yield families.PENDING.by(self._pending())
        yield families.SEND_BUFFER.one(len(self._slots.engine.dispatch.waiting))
        yield families.PROJECTS.by(
            {"active": self._slots.load.projects, "quarantined": len(self._slots.quarantine)}
        )
        yield families.JOBS.one(len(self._slots.local_jobs.works()))

    def membership(self) -> Metrics:
        """Return what it is in the cluster."""
        yield families.SLOTS_OWNED.one(len(self._slots.fence.held))
        yield families.CLOSURES.one(self._slots.closures)
        ownership = self._slots.fence.ownership
        if ownership is None:
            return
        yield families.LEADING.one(ownership.leading)
        yield families.LEASE_LEFT.one(lease_left(ownership))
        vital_signs = ownership.vital_signs
        yield families.EPOCH.one(vital_signs.epoch)
        yield families.EPOCH_AGE.one(vital_signs.epoch_age)
        yield from vital_signs.renewals.collect()
        yield families.RENEWAL_FAILURES.one(vital_signs.failures)

    def _outcomes(self) -> Mapping[str, float]:
        engine = self._slots.engine
        events = engine.counts.events
        counted = {outcome: events.get(event, 0) for outcome, event in EVENTS.items()}
        return {**counted, "known": engine.counts.unchanged, "sent": engine.out_queue.sent}

    def _pending(self) -> Mapping[str, float]:
        engine = self._slots.engine
        with engine.lock:
            projects = list(engine.projects.values())
        unloaded = sum(project.task_queue.unloaded.count for project in projects)
        return {"loaded": max(0, self._slots.load.pending - unloaded), "unloaded": unloaded}


def lease_left(ownership: Coordinator) -> float:
    """Return the seconds until the fence closes without a renewal; not positive: it is closed."""
    return ownership.view.lease_until - boottime()
