"""pyspider's result worker, which registers in the cluster."""

import logging
import signal
import threading
from typing import Any

from pyspider.result.result_worker import ResultWorker

from pyspider_zk.cluster.records import ComponentKind
from pyspider_zk.components.identity import presence
from pyspider_zk.components.signals import on_signals
from pyspider_zk.components.wiring import current_projectdb, current_settings
from pyspider_zk.config import Settings
from pyspider_zk.databases.guarded import guarded
from pyspider_zk.databases.tables import with_fresh_tables
from pyspider_zk.errors import BadMessage, DatabaseAway
from pyspider_zk.projects.cache import ProjectCache
from pyspider_zk.queues.back_off import BackOff
from pyspider_zk.queues.checked import CheckedQueue
from pyspider_zk.queues.packs import check_pair, check_result
from pyspider_zk.queues.resilient import ResilientQueue

logger = logging.getLogger("result")

PAUSE = 1.0
"""Seconds between two tries to save a result in a database that is unavailable."""

PATIENCE = 5.0
"""Seconds for the current result at the end, if its queue is full or unavailable."""


class ClusterResultWorker(ResultWorker):
    """Saves results as pyspider does, those of projects that exist.

    A late result of a deleted project would recreate its table. ``settings`` and ``projectdb``
    are for those who construct it themselves; without a project database all results are saved.
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
        results = ResilientQueue(self.inqueue, BackOff(logger, "results wait in it"))
        self.inqueue = CheckedQueue(results, check_pair, logger)
        self._ended = threading.Event()

    def on_result(self, task: dict[str, Any], result: Any) -> Any:
        """Save a result, unless its project is gone."""
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
                if self._ended.wait(PAUSE):
                    return self.inqueue.put([task, result], timeout=PATIENCE)

    def run(self) -> None:
        """Work until ``quit``; SIGTERM ends after the current result.

        Raises:
            ClusterError: the cluster cannot be joined.
        """
        with (
            on_signals({signal.SIGTERM: self.quit}),
            presence(self.settings, ComponentKind.RESULT_WORKER),
        ):
            super().run()
