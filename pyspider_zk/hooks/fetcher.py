"""pyspider's fetcher, which gives back what it could not finish."""

import functools
import logging
import queue
import signal
import time
from typing import Any

from pyspider.fetcher.tornado_fetcher import Fetcher

from pyspider_zk.config import Settings
from pyspider_zk.core.packs import brief, check_named, failed_page, named
from pyspider_zk.core.records import ComponentKind
from pyspider_zk.hooks.identity import presence
from pyspider_zk.hooks.signals import on_signals
from pyspider_zk.queues.checked import CheckedQueue
from pyspider_zk.queues.patience import Patience
from pyspider_zk.queues.patient import Backlog, PatientQueue
from pyspider_zk.wiring import current_settings

logger = logging.getLogger("fetcher")

PATIENCE = 5.0
"""Seconds for what is left at the end, if its queue is full or away."""

PAGE_LIMIT = 48 * 2**20
"""Bytes of a page; with its task it must fit into one message."""

_LEFT = "the queue is full or away: %d tasks wait for their time-out"


class ClusterFetcher(Fetcher):
    """Fetches as pyspider does.

    A result that finds no room, or a message queue that is away, is kept and sent later; meanwhile
    no task is taken, so that at most as many are kept as are fetched at the same time. What is
    under way when it is told to quit goes back to its queue; pyspider would miss it only after
    ten minutes.
    """

    inqueue: Any
    outqueue: Any

    def __init__(self, *args: Any, settings: Settings | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.settings = settings or current_settings()
        patience = Patience(logger, "results are kept and no tasks taken")
        if self.inqueue is not None:
            self.inqueue = CheckedQueue(PatientQueue(self.inqueue, patience), check_named, logger)
        if self.outqueue is not None:
            self.outqueue = Backlog(PatientQueue(self.outqueue, patience))
        self._under_way: dict[int, dict[str, Any]] = {}  # by identity: a task may come twice

    def fetch(self, task: dict[str, Any], callback: Any = None) -> Any:
        """Fetch a task; one from the queue is remembered until its result is sent."""
        if callback is not None:
            return super().fetch(task, callback)
        self._under_way[id(task)] = task
        if not isinstance(task.get("fetch", {}), dict):
            return self._give_up(task, f"fetch must be a mapping, not {task['fetch']!r:.80}")
        fetching = super().fetch(task)
        if self.async_mode:
            self.ioloop.add_future(fetching, functools.partial(self._ended, task))
        return fetching

    def send_result(self, type: Any, task: dict[str, Any], result: Any) -> None:  # noqa: A002, ARG002 - pyspider's
        """Send a result to the processor; one that cannot be sent is sent as a failed one.

        Without a queue nobody waits for it but who asked: so the web UI fetches for its editor.
        """
        if self.outqueue is None:
            self._under_way.pop(id(task), None)
            return
        try:
            self.outqueue.put((task, _fitting(task, result)))
            self._under_way.pop(id(task), None)
        except Exception as error:  # what a message cannot hold differs from queue to queue
            self._give_up(task, error)

    def _ended(self, task: dict[str, Any], fetching: Any) -> None:
        """Tell the processor of a fetch that ended without a result."""
        if id(task) in self._under_way:
            self._give_up(task, fetching.exception() or "ended without a result")

    def _give_up(self, task: dict[str, Any], error: object) -> dict[str, Any]:
        """Tell the processor that a fetch failed, and return what it is told."""
        logger.error("fetch %s:%s failed: %s", task["project"], task["taskid"], brief(error))
        self._under_way.pop(id(task), None)
        page = failed_page({**named(task)}, error)
        try:
            if self.outqueue is not None:
                self.outqueue.put((named(task), page))
        except Exception:
            logger.exception("%(project)s:%(taskid)s waits for its time-out", task)
        return page

    def run(self) -> None:
        """Work until ``quit`` or SIGTERM.

        Raises:
            ClusterError: the cluster cannot be joined.
        """
        with (
            on_signals({signal.SIGTERM: self.quit}),
            presence(self.settings, ComponentKind.FETCHER),
        ):
            super().run()
            self._send_rest()
            self._give_back()

    def _send_rest(self) -> None:
        """Send the results that are still kept."""
        try:
            self.outqueue.flush(PATIENCE)
        except queue.Full:
            logger.warning(_LEFT, self.outqueue.kept)

    def _give_back(self) -> None:
        """Put what is unfinished back where it came from."""
        waiting = list(self._under_way.values())
        until = time.monotonic() + PATIENCE
        try:
            while waiting:
                self.inqueue.put(waiting[0], timeout=until - time.monotonic())
                del waiting[0]
        except queue.Full:
            logger.warning(_LEFT, len(waiting))


def _fitting(task: dict[str, Any], result: Any) -> Any:
    """Return a result; a failed one if its page is too large for a message."""
    content = result.get("content") or ""
    size = len(content.encode(errors="replace") if isinstance(content, str) else content)
    if size <= PAGE_LIMIT:
        return result
    error = f"the page has {size} bytes, the limit is {PAGE_LIMIT}"
    logger.error("fetch %s:%s failed: %s", task["project"], task["taskid"], error)
    return failed_page(task, error)
