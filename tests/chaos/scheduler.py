"""The product's scheduler, unchanged, which writes down what it owns and every effect it has.

The stamp of an effect's start is taken before its gate is asked, so a process that is stopped
between gate and effect shows as one long effect around the stop.
"""

import itertools
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pyspider.scheduler.task_queue import TaskQueue

from pyspider_zk.errors import GateClosed
from pyspider_zk.hooks import ClusterScheduler
from pyspider_zk.hooks.holdings import Holdings
from tests.chaos.mutations import MUTATIONS
from tests.chaos.recorder import Recorder, boottime

# What a restarting Redis loses between pyspider's components is tried again after ten minutes;
# a run of a minute cannot wait for that.
TaskQueue.processing_timeout = 20


class ChaosScheduler(ClusterScheduler):
    """Schedules as ever, with a history."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.history = Recorder.from_environment()
        self._numbers = itertools.count()
        self._asked = threading.local()
        self._holdings = _Holdings(self)
        self.out_queue: Any = _OutQueue(self.out_queue, self._sending)
        broken = os.environ.get("CHAOS_WITHOUT")
        if broken:
            MUTATIONS[broken](self)

    def load_slot(self, slot: int, parts: Mapping[str, Any]) -> None:
        epoch = self.gate.held.get(slot)
        self.history.note("take", slot=slot, epoch=epoch)
        super().load_slot(slot, parts)
        self.history.note("ready", slot=slot, epoch=epoch)

    def insert_task(self, task: dict[str, Any]) -> Any:
        with self._effect("insert", task, boottime()):
            return super().insert_task(task)

    def update_task(self, task: dict[str, Any]) -> Any:
        with self._effect("update", task, boottime()):
            return super().update_task(task)

    def send_task(self, task: dict[str, Any], force: bool = True) -> None:
        self._asked.at = boottime()
        super().send_task(task, force)

    def _sending(self, task: dict[str, Any]) -> Any:
        return self._effect("send", task, getattr(self._asked, "at", boottime()))

    @contextmanager
    def _effect(self, kind: str, task: dict[str, Any], since: float) -> Iterator[None]:
        number = next(self._numbers)
        slot = self.gate.slot(task["project"])
        about = {"project": task["project"], "task": task["taskid"], "url": task.get("url")}
        ticking = task["taskid"] == "_on_cronjob"
        tick = task["fetch"]["save"]["tick"] if ticking else None
        epoch = self.gate.held.get(slot)
        self.history.note(kind, at=since, n=number, slot=slot, epoch=epoch, tick=tick, **about)
        outcome = "unknown"
        try:
            yield
            outcome = "done"
        except GateClosed:
            outcome = "refused"
            raise
        except Exception as error:
            outcome = f"failed: {error!r:.100}"
            raise
        finally:
            self.history.note("end", n=number, outcome=outcome)


class _Holdings(Holdings):
    """Tells when slots are given up, and whether their next owner gets a clean record."""

    def __init__(self, scheduler: ChaosScheduler) -> None:
        queues = scheduler.queues
        super().__init__(scheduler.gate, scheduler._intake, queues.records, scheduler)
        self._scheduler = scheduler

    def give_up(self, slots: Mapping[int, int], *, planned: bool) -> None:
        slots = dict(slots)
        if slots:
            clean = planned and self._scheduler.gate.all_open()
            self._scheduler.history.note("give_up", planned=planned, clean=clean, slots=slots)
        super().give_up(slots, planned=planned)
        if slots:
            self._scheduler.history.note("gave_up", slots=slots)


class _OutQueue:
    """The queue to the fetcher, whose every message is an effect."""

    def __init__(self, queue: Any, effect: Any) -> None:
        self._queue = queue
        self._effect = effect

    def put_nowait(self, task: dict[str, Any]) -> Any:
        with self._effect(task):
            return self._queue.put_nowait(task)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._queue, name)
