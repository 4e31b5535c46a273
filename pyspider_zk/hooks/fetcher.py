"""pyspider's fetcher, which gives back what it could not finish."""

import logging
import queue
import signal
from typing import Any

from pyspider.fetcher.tornado_fetcher import Fetcher

from pyspider_zk.config import Settings
from pyspider_zk.core.records import ComponentKind
from pyspider_zk.hooks.identity import presence
from pyspider_zk.hooks.signals import on_signals
from pyspider_zk.wiring import current_settings

logger = logging.getLogger("fetcher")


class ClusterFetcher(Fetcher):
    """Fetches as pyspider does.

    What is under way when it is told to quit goes back to its queue; pyspider would miss it only
    after ten minutes.
    """

    def __init__(self, *args: Any, settings: Settings | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._settings = settings
        self._under_way: dict[tuple[Any, Any], dict[str, Any]] = {}

    def fetch(self, task: dict[str, Any], callback: Any = None) -> Any:
        """Fetch a task; one from the queue is remembered until its result is sent."""
        if callback is None:
            self._under_way[_key(task)] = task
        return super().fetch(task, callback)

    def send_result(self, type: Any, task: dict[str, Any], result: Any) -> None:  # noqa: A002 - pyspider's name
        """Send a result to the processor."""
        super().send_result(type, task, result)
        self._under_way.pop(_key(task), None)

    def run(self) -> None:
        """Work until ``quit`` or SIGTERM.

        Raises:
            ClusterError: the cluster cannot be joined.
        """
        settings = self._settings or current_settings()
        with (
            on_signals({signal.SIGTERM: self.quit}),
            presence(settings, ComponentKind.FETCHER),
        ):
            super().run()
            self._give_back()

    def _give_back(self) -> None:
        for task in self._under_way.values():
            try:
                self.inqueue.put(task, timeout=5)
            except queue.Full:
                logger.warning("%(project)s:%(taskid)s waits for its time-out", task)


def _key(task: dict[str, Any]) -> tuple[Any, Any]:
    return task.get("project"), task.get("taskid")
