"""pyspider's result worker, present in the cluster."""

import signal
from typing import Any

from pyspider.result.result_worker import ResultWorker

from pyspider_zk.config import Settings
from pyspider_zk.core.records import ComponentKind
from pyspider_zk.hooks.identity import presence
from pyspider_zk.hooks.signals import on_signals
from pyspider_zk.wiring import current_settings


class ClusterResultWorker(ResultWorker):
    """Saves results as pyspider does."""

    def __init__(self, *args: Any, settings: Settings | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.settings = settings or current_settings()

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
