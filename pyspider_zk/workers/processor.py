"""pyspider's processor, which sends to the slot queues."""

import logging
import queue
import signal
import socket
import time
from collections.abc import Mapping
from contextlib import closing, suppress
from typing import Any

from pyspider.processor.processor import Processor

from pyspider_zk.cluster.event_log import EventLog
from pyspider_zk.cluster.events import Event, EventKind
from pyspider_zk.cluster.presence import Presence
from pyspider_zk.cluster.records import ComponentKind
from pyspider_zk.cluster.tree import Tree
from pyspider_zk.components.identity import presence
from pyspider_zk.components.monitoring import Monitoring, monitored
from pyspider_zk.components.signals import on_signals
from pyspider_zk.components.watchdog import LostTask
from pyspider_zk.components.wiring import (
    current_data_path,
    current_queues,
    current_settings,
    current_task_mark,
)
from pyspider_zk.config import Settings
from pyspider_zk.errors import DatabaseAway, Unavailable
from pyspider_zk.metrics.families import LOST, Metrics
from pyspider_zk.metrics.health import Health, patience
from pyspider_zk.queues.api import Queues
from pyspider_zk.queues.back_off import BackOff
from pyspider_zk.queues.consumer import Consumer, Taken
from pyspider_zk.queues.names import QueueKind
from pyspider_zk.queues.packs import check_pair, failed_pack
from pyspider_zk.queues.resilient import ResilientQueue, SendBuffer
from pyspider_zk.workers.loaded_scripts import ExistingProjects
from pyspider_zk.workers.outbox import MeteredPacks, Outbox
from pyspider_zk.workers.work_meter import WorkMeter

logger = logging.getLogger("processor")

TOLD = 600.0
"""Seconds for which an alert tells of a lost processor."""

INFO = "_on_get_info"
"""The id of the task, and the callback, by which a script tells of itself."""

MOST_UNSENT = 1000
"""Messages, and KiB of results, after which a processor sends before it has done all it took."""

SETTINGS = ("min_tick", "retry_delay", "crawl_config")
"""What schedulers want to know of a script."""


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
        self._mark = current_task_mark()
        self._back_off = BackOff(logger, "what is processed waits")
        self._data = current_data_path()
        self.project_manager.env["limited"] = self._mark.limit
        self.project_manager = ExistingProjects(self.projectdb, self.project_manager.env)
        self.inqueue = Consumer(
            self.inqueue,
            self._back_off,
            check_pair,
            logger,
            self._mark.name,
            before=self._before_reading,
            refuse=self._refuse,
        )
        self._meter = WorkMeter(ComponentKind.PROCESSOR, lambda: self.inqueue.passed_over)
        self._results = SendBuffer(ResilientQueue(self.result_queue, self._back_off))
        self.result_queue = self.project_manager.env["result_queue"] = self._results
        self._outbox = Outbox(self.queues.slot_queues, self.settings.slots, self._back_off)
        self.status_queue = MeteredPacks(self._outbox, self._meter)
        self.newtask_queue = self._outbox.queue(QueueKind.NEWTASK)
        limit = patience(self.settings.hang, self.project_manager.env["process_time_limit"])
        health = Health(self._loop_age, limit, self._parts)
        self._monitoring = Monitoring(
            ComponentKind.PROCESSOR, health, [self._meter.metrics, self._lost]
        )

    def on_task(self, task: dict[str, Any], response: Any) -> Any:
        """Run one callback; what comes of it leaves with that of the next ones; see ``Consumer``.

        A script must not wait for room, because its time is limited. A task that cannot be
        processed counts as failed and does not end the process, even if its script raises
        SystemExit: signals do not come this way.
        """
        self._meter.pulse.beat()
        is_part = self._mark.is_at_hand  # a message that a script has sent
        self._meter.begin(id(task), task)
        try:
            with self._mark.at_hand(task), self._outbox:
                done = super().on_task(task, response)
                self._mark.limit(0)
                if self.project_manager.has_given_up:
                    raise DatabaseAway("its script was not to be had")
        except DatabaseAway:  # which is no failure of the task
            done = False
            if not is_part:
                self.inqueue.leave()
        except BaseException as error:
            done = False
            self._give_up(task, error)
        self._meter.end(id(task))
        unsent = max(self._outbox.size, self._results.kept_bytes // 1024)
        if not is_part and unsent > MOST_UNSENT:
            self.send()
        return done

    def send(self) -> None:
        """Send the results, then the new tasks and status packs; then the tasks are done.

        Raises:
            Unavailable: the message queue still is, and this process ends; or there is no room.
        """
        self._results.flush()
        self._outbox.send()
        self.inqueue.done()

    def _give_up(self, task: dict[str, Any], error: BaseException) -> None:
        """Log the task, and report it to the scheduler as failed."""
        logger.error("process %s:%s failed", task["project"], task["taskid"], exc_info=error)
        self._fail(task, error)

    def _fail(self, task: Mapping[str, Any], reason: object) -> None:
        with self._outbox:
            self.status_queue.put(failed_pack(task, reason))

    def _refuse(self, pair: Any, reason: str) -> None:
        """Report a task that several processors have died with."""
        self._fail(pair[0], reason)
        self._outbox.send()

    def run(self) -> None:
        """Work until ``quit``; SIGTERM and Ctrl-C end after the current task.

        Raises:
            ClusterError: the cluster cannot be joined.
        """
        with (
            closing(self.queues),
            on_signals({signal.SIGTERM: self.quit, signal.SIGINT: self.quit}),
            monitored(self.settings, self._monitoring, self._data),
            presence(
                self.settings,
                ComponentKind.PROCESSOR,
                consumer=self._mark.name,
                report=self._meter.report,
            ) as present,
        ):
            if lost := self._mark.lost():
                self._report(lost, present)
            super().run()
            with suppress(Unavailable):  # then all of it is given back, and done again
                self.send()
            self.inqueue.give_back()

    def _report(self, lost: LostTask, present: Presence) -> None:
        """Report the task that the process before this one did not survive."""
        if self._mark.is_last:
            self.quit()
        had = self.inqueue.take(0)
        if lost.task:
            self._fail(lost.task, lost.reason)
            self._outbox.send()
            self.inqueue.acknowledge(*(each.number for each in had if _is_of(each, lost.task)))
        self.inqueue.give_back(died=not lost.task)
        named = "{project}:{taskid} {url}".format_map(lost.task) if lost.task else "of a long name"
        text = f"a processor was lost to task {named}: {lost.reason}"
        event = Event(EventKind.PROCESSOR, text, time.time(), socket.gethostname(), lost.task)
        try:
            EventLog(present.connection, Tree(self.settings.root)).append(event)
        except Unavailable as error:
            logger.warning("no event tells that %s: %s", text, error)
        present.tell_lost(text, TOLD)
        self._mark.reported()

    def _lost(self) -> Metrics:
        yield LOST.by(self._mark.deaths())

    def _before_reading(self) -> None:
        self.send()
        if self._quit:  # meanwhile
            raise queue.Empty
        self._meter.pulse.beat()
        self.project_manager.prune()
        for project in self.project_manager.drop_outdated():
            self._tell_settings(project)

    def _tell_settings(self, project: str) -> None:
        """Tell the scheduler what a script says of itself, as if it had asked; not a broken one."""
        url = f"data:,{INFO}"
        task = {"taskid": INFO, "project": project, "url": url, "process": {"callback": INFO}}
        with self._mark.at_hand(task):  # its top may never end
            loaded = self.project_manager.get(project)
        if loaded is None or loaded["exception"]:
            return
        page = {"status_code": 200, "url": url, "orig_url": url, "content": "", "save": SETTINGS}
        self.on_task(task, page)
        self.send()

    def _parts(self) -> dict[str, bool]:
        """Return whether each part works that processing needs, as far as is known."""
        return {
            "message_queue": not self._back_off.is_away,
            "projectdb": not self.project_manager.is_away,
        }

    def _loop_age(self) -> float:
        """Return the seconds since the loop moved; to wait for others is to move."""
        waits = not all(self._parts().values())
        return 0.0 if waits else min(self._meter.pulse.age, self._back_off.since_wait)

    def quit(self) -> None:
        """End after the current task."""
        super().quit()
        self._back_off.close()
        self.project_manager.close()


def _is_of(message: Taken, task: Mapping[str, Any]) -> bool:
    """Return whether a page is that of a task."""
    own = message.body[0]
    return all(own[key] == task.get(key) for key in ("project", "taskid"))
