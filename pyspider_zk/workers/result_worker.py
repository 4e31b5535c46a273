"""pyspider's result worker, which registers in the cluster."""

import logging
import queue
import signal
import threading
import time
from contextlib import suppress
from typing import Any
from uuid import uuid4

from pyspider.result.result_worker import ResultWorker

from pyspider_zk.cluster.records import ComponentKind
from pyspider_zk.components.identity import presence
from pyspider_zk.components.monitoring import Monitoring, monitored
from pyspider_zk.components.signals import on_signals
from pyspider_zk.components.wiring import current_data_path, current_projectdb, current_settings
from pyspider_zk.config import Settings
from pyspider_zk.databases.guarded import guarded
from pyspider_zk.databases.tables import with_fresh_tables
from pyspider_zk.errors import BadMessage, DatabaseAway, brief
from pyspider_zk.metrics.health import Health
from pyspider_zk.projects.cache import ProjectCache
from pyspider_zk.queues.back_off import BackOff
from pyspider_zk.queues.consumer import LOOK, Consumer
from pyspider_zk.queues.packs import check_pair, check_result
from pyspider_zk.workers.work_meter import WorkMeter

logger = logging.getLogger("result")

MOST_AT_ONCE = 100
"""Results that are saved in one transaction, at most."""

PAUSE = 1.0
"""Seconds between two tries to save a result in a database that is unavailable."""


class ClusterResultWorker(ResultWorker):
    """Saves results as pyspider does, those of projects that exist.

    Many are saved in one transaction, if the database is an sqlite file; a subclass with an
    ``on_result`` of its own gets one after the other. A late result of a deleted project would
    recreate its table. ``settings`` and ``projectdb`` are for those who construct it themselves;
    without a project database all results are saved.
    """

    inqueue: Any
    resultdb: Any

    def __init__(
        self,
        *args: Any,
        settings: Settings | None = None,
        projectdb: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.settings = settings or current_settings()
        if self.resultdb is not None:
            self.resultdb = guarded(self.resultdb, "resultdb")
        projectdb = current_projectdb() if projectdb is None else projectdb
        self._existing = None if projectdb is None else ProjectCache(projectdb)
        self._back_off = BackOff(logger, "results wait in it")
        self._meter = WorkMeter(ComponentKind.RESULT_WORKER, lambda: self.inqueue.passed_over)
        self._name = uuid4().hex
        self.inqueue = Consumer(
            self.inqueue,
            self._back_off,
            check_pair,
            logger,
            self._name,
            before=self._meter.pulse.beat,
        )
        self._data = current_data_path()
        health = Health(lambda: self._meter.pulse.age, self.settings.hang, self._parts)
        self._monitoring = Monitoring(ComponentKind.RESULT_WORKER, health, [self._meter.metrics])
        self._ended = threading.Event()
        self._is_cut_short = False  # what is at hand is not saved, and is given back

    def on_result(self, task: dict[str, Any], result: Any) -> Any:
        """Save a result, unless its project is gone."""
        with self._meter.working():
            return self._save_usable(task, result)

    def _work(self, most: int) -> None:
        """Save the next results; wait for them, if there is none."""
        try:
            found = self.inqueue.get_some(most, LOOK)
            for number, (task, _) in found:
                self._meter.begin(number, task)
            if not self._save_together([each.body for each in found]):
                for each in found:
                    self._save_alone(*each.body)
            for number, _ in found:
                self._meter.end(number)
            if not self._is_cut_short:
                self.inqueue.acknowledge(*(number for number, _ in found))
        except queue.Empty:
            pass
        except Exception:  # as pyspider's worker: it goes on
            logger.exception("no results are saved")

    def _save_together(self, pairs: list[tuple[dict[str, Any], Any]]) -> bool:
        """Save results in one transaction; return whether that was possible."""
        if len(pairs) == 1 or self.resultdb is None:
            return False
        begin = time.monotonic()
        try:
            self.resultdb.together(lambda: [self._save_usable(*pair) for pair in pairs], _nothing)
        except Exception as error:  # which is at fault shows when each is saved alone
            logger.warning("%d results are saved one by one: %s", len(pairs), brief(error))
            return False
        for _ in pairs:
            self._meter.count((time.monotonic() - begin) / len(pairs), ok=True)
        return True

    def _save_alone(self, task: dict[str, Any], result: Any) -> None:
        try:
            self.on_result(task, result)
        except Exception:
            logger.exception("result of %(project)s:%(taskid)s is lost", task)

    def _save_usable(self, task: dict[str, Any], result: Any) -> Any:
        project = task.get("project")
        if self._existing is not None and project is not None and project not in self._existing:
            logger.warning("result of %s is dropped: there is no such project", project)
            return None
        try:
            check_result(result)
        except BadMessage as error:
            logger.error("result of %s:%s is dropped: it %s", project, task["taskid"], error)
            return None
        return self._save(task, result)

    def quit(self) -> None:
        """End after the current result; one that cannot be saved now goes back to its queue."""
        super().quit()
        self._ended.set()

    def _save(self, task: dict[str, Any], result: Any) -> Any:
        """Save a result, however long the database is unavailable.

        A result that an available database refuses is at fault itself, and raises.
        """
        while True:
            try:
                return with_fresh_tables(
                    self.resultdb, lambda: super(ClusterResultWorker, self).on_result(task, result)
                )
            except DatabaseAway:  # it was logged
                self._meter.pulse.beat()
                if self._ended.wait(PAUSE):
                    self._is_cut_short = True
                    return None

    def run(self) -> None:
        """Work until ``quit``; SIGTERM ends after the current result.

        Raises:
            ClusterError: the cluster cannot be joined.
        """
        with (
            on_signals({signal.SIGTERM: self.quit}),
            monitored(self.settings, self._monitoring, self._data),
            presence(
                self.settings,
                ComponentKind.RESULT_WORKER,
                consumer=self._name,
                report=self._meter.report,
            ),
        ):
            logger.info("result_worker starting...")
            has_own = type(self).on_result is not ClusterResultWorker.on_result
            with suppress(KeyboardInterrupt):
                while not self._quit:
                    self._work(1 if has_own else MOST_AT_ONCE)
            logger.info("result_worker exiting...")
            self.inqueue.give_back()

    def _parts(self) -> dict[str, bool]:
        """Return whether each part works that saving needs, as far as is known."""
        is_away = self.resultdb is not None and self.resultdb.is_away
        return {"message_queue": not self._back_off.is_away, "resultdb": not is_away}


def _nothing() -> None:
    """Is all that there is to do before a commit."""
