"""Calls of scripts that fetch no page: the ticks of ``@every``, and requests for settings."""

import logging
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

from pyspider_zk.scheduling.cron import Cron
from pyspider_zk.scheduling.fenced_scheduler import FencedScheduler
from pyspider_zk.scheduling.project_set import ProjectSet
from pyspider_zk.scheduling.script_info import InfoRequests

logger = logging.getLogger("scheduler")

TICKS_WAITING = 10
"""How many ticks of a project may wait to be sent; further ones stay due."""


class ScriptCalls:
    """Sender of due ticks and, again, of requests for settings that were not answered.

    Threads: the scheduler loop only.
    """

    def __init__(self, scheduler: FencedScheduler, projects: ProjectSet, cron: Cron) -> None:
        self._scheduler = scheduler
        self._projects = projects
        self._cron = cron
        self._info_requests = InfoRequests()

    def repeat_info_requests(self) -> None:
        """Repeat the requests for settings that have not been answered for long."""
        if not self._info_requests.is_time():
            return
        waiting = {
            name
            for name, project in self._scheduler.projects.items()
            if project.active and project.waiting_get_info and name not in self._projects.quarantine
        }
        for name in self._info_requests.due(waiting):
            if not any(_is_info_request(task, name) for task in self._scheduler.send_buffer):
                logger.warning("project %s: its script has not answered; requested again", name)
                self._scheduler.request_info(name)

    def send_ticks(self) -> None:
        """Send each project the ticks that came due since its last one.

        While they cannot be sent, some wait in the buffer and the others stay due.
        """
        now = int(time.time())
        waiting = Counter(
            task["project"]
            for task in self._scheduler.send_buffer
            if task["taskid"] == "_on_cronjob"
        )
        for project in list(self._scheduler.projects.values()):
            if project.active and project.waiting_get_info:
                continue  # its interval is not known yet; nothing is lost meanwhile
            room = TICKS_WAITING - waiting[project.name]
            if project.name in self._projects.quarantine or room <= 0:
                continue
            with self._projects.isolating(project.name):
                interval = int(project.min_tick) if project.active else 0
                for tick in self._cron.due(project.name, interval, now, room):
                    self.send_tick(project.name, tick)

    def send_tick(self, project: str, tick: int) -> None:
        """Send one tick to a project's script."""
        self._scheduler.call_script(project, "_on_cronjob", {"tick": tick})


def _is_info_request(task: Mapping[str, Any], project: str) -> bool:
    return bool(task["taskid"] == "_on_get_info" and task["project"] == project)
