"""pyspider's result worker, present in the cluster."""

import logging
import signal
from typing import Any

from pyspider.result.result_worker import ResultWorker

from pyspider_zk.config import Settings
from pyspider_zk.core.records import ComponentKind
from pyspider_zk.hooks.identity import presence
from pyspider_zk.hooks.signals import on_signals
from pyspider_zk.queues.patience import Patience
from pyspider_zk.queues.patient import PatientQueue
from pyspider_zk.wiring import current_settings

logger = logging.getLogger("result")


class ClusterResultWorker(ResultWorker):
    """Saves results as pyspider does."""

    inqueue: Any

    def __init__(self, *args: Any, settings: Settings | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.settings = settings or current_settings()
        self.inqueue = PatientQueue(self.inqueue, Patience(logger, "results wait in it"))

    def run(self) -> None:
        """Work until ``quit``; SIGTERM ends after the result at hand.

        Raises:
            ClusterError: the cluster cannot be joined.
        """
        with (
            on_signals({signal.SIGTERM: self.quit}),
            presence(self.settings, ComponentKind.RESULT_WORKER),
        ):
            super().run()
