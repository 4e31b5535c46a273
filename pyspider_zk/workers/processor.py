"""pyspider's processor, which sends to the slot queues."""

import logging
import signal
from contextlib import closing
from typing import Any

from pyspider.processor.processor import Processor

from pyspider_zk.cluster.records import ComponentKind
from pyspider_zk.components.identity import presence
from pyspider_zk.components.signals import on_signals
from pyspider_zk.components.wiring import current_queues, current_settings
from pyspider_zk.config import Settings
from pyspider_zk.errors import Unavailable
from pyspider_zk.queues.api import Queues
from pyspider_zk.queues.back_off import BackOff
from pyspider_zk.queues.checked import CheckedQueue
from pyspider_zk.queues.names import QueueKind
from pyspider_zk.queues.packs import check_pair, failed_pack
from pyspider_zk.queues.resilient import ResilientQueue, SendBuffer
from pyspider_zk.workers.loaded_scripts import ExistingProjects, PruningQueue
from pyspider_zk.workers.outbox import Outbox

logger = logging.getLogger("processor")


class ClusterProcessor(Processor):
    """Runs scripts as pyspider does; sends their tasks to the owner of the project.

    The constructor's arguments are pyspider's; it does no I/O. ``settings`` and ``queues`` are
    for those who construct it themselves.
    """

    EXCEPTION_LIMIT = float("inf")  # pyspider ends after three, silently and with code 0

    inqueue: Any
    result_queue: Any
    project_manager: Any

    def __init__(
        self,
        *args: Any,
        settings: Settings | None = None,
        queues: Queues | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.settings = settings or current_settings()
        self.queues = queues or current_queues(self.settings)
        self._back_off = BackOff(logger, "what is processed waits")
        self.project_manager = ExistingProjects(self.projectdb, self.project_manager.env)
        pages = CheckedQueue(ResilientQueue(self.inqueue, self._back_off), check_pair, logger)
        self.inqueue = PruningQueue(pages, self.project_manager.prune)
        self._results = SendBuffer(ResilientQueue(self.result_queue, self._back_off))
        self.result_queue = self.project_manager.env["result_queue"] = self._results
        self._outbox = Outbox(self.queues.slot_queues, self.settings.slots, self._back_off)
        self.status_queue = self._outbox.queue(QueueKind.STATUS)
        self.newtask_queue = self._outbox.queue(QueueKind.NEWTASK)

    def on_task(self, task: dict[str, Any], response: Any) -> Any:
        """Run one callback; its results leave, then its new tasks and its status pack together.

        A script must not wait for room, because its time is limited. A task that cannot be
        processed counts as failed and does not end the process, even if its script raises
        SystemExit: signals do not come this way.
        """
        try:
            with self._outbox:
                done = super().on_task(task, response)
                self._results.flush()
                return done
        except Unavailable:
            raise
        except BaseException as error:
            self._give_up(task, error)
            return False

    def _give_up(self, task: dict[str, Any], error: BaseException) -> None:
        """Log the task, and report it to the scheduler as failed."""
        logger.error("process %s:%s failed", task["project"], task["taskid"], exc_info=error)
        with self._outbox:
            self.status_queue.put(failed_pack(task, error))

    def run(self) -> None:
        """Work until ``quit``; SIGTERM and Ctrl-C end after the current task.

        Raises:
            ClusterError: the cluster cannot be joined.
        """
        with (
            closing(self.queues),
            on_signals({signal.SIGTERM: self.quit, signal.SIGINT: self.quit}),
            presence(self.settings, ComponentKind.PROCESSOR),
        ):
            super().run()

    def quit(self) -> None:
        """End after the current task."""
        super().quit()
        self._back_off.close()
        self.project_manager.close()
