"""Calls of scripts that fetch no page: the ticks of ``@every``, and requests for settings.

Threads: the scheduler loop only.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable

from pyspider_zk.pauses import pause_after
from pyspider_zk.scheduling.cron import Cron
from pyspider_zk.scheduling.engine import TaskEngine
from pyspider_zk.scheduling.project import LoadedProject
from pyspider_zk.scheduling.project_set import ProjectSet

logger = logging.getLogger("scheduler")

TICKS_WAITING = 10
"""How many ticks of a project may wait to be sent; further ones stay due."""


INFO_PAUSES = (60.0, 120.0, 300.0, 600.0)
"""Seconds until a request is repeated; the last one repeats."""

INFO_LOOK = 1.0
"""Seconds between two checks which projects wait."""


class ScriptCalls:
    """Sender of due ticks, and again of requests for settings that were not answered well.

    Args:
        beat: shows that the loop runs.
        clock: of the requests, in seconds.
    """

    def __init__(
        self,
        engine: TaskEngine,
        projects: ProjectSet,
        cron: Cron,
        beat: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._engine = engine
        self._projects = projects
        self._cron = cron
        self._beat = beat
        self._agenda = engine.attention.ticks
        self._clock = clock
        self._asked: dict[str, tuple[float, int]] = {}  # who is to answer: since when, how often
        self._next_look = float("-inf")

    def repeat_info_requests(self) -> None:
        """Repeat the requests for settings that have not been answered for long, or not well."""
        now = self._clock()
        if now < self._next_look:
            return
        self._next_look = now + INFO_LOOK
        self._asked = {name: asked for name, asked in self._asked.items() if self._waits(name)}
        late = [name for name in self._asked if self._is_late(name, now)]
        unsent = self._unsent("_on_get_info") if late else ()
        for name in late:
            self._beat()
            self._asked[name] = (now, self._asked[name][1] + 1)
            if name not in unsent:
                logger.warning("project %s: its script has not answered well; asked again", name)
                with self._projects.isolating(name):
                    self._engine.request_info(name)

    def _waits(self, name: str) -> bool:
        project = self._engine.projects.get(name)
        return project is not None and _is_to_answer(project)

    def _is_late(self, name: str, now: float) -> bool:
        sent, times = self._asked[name]
        return now - sent >= pause_after(times + 1, INFO_PAUSES)

    def send_ticks(self) -> None:
        """Send each project the ticks that came due since its last one.

        While they cannot be sent, some wait in the buffer and the others stay due.
        """
        now = time.time()
        if not self._agenda.is_due(now):
            return
        waiting = self._unsent("_on_cronjob")

        def send(name: str) -> None:
            project = self._engine.projects.get(name)
            if project is not None:
                with self._projects.isolating(name):
                    self._send_ticks_of(project, int(now), TICKS_WAITING - waiting[name])

        self._agenda.work(now, send)

    def _unsent(self, callback: str) -> Counter[str]:
        """Return how many calls of a callback wait to be sent, by project."""
        waiting = self._engine.dispatch.waiting
        return Counter(task["project"] for task in waiting if task["taskid"] == callback)

    def _send_ticks_of(self, project: LoadedProject, now: int, room: int) -> None:
        """Send a project's due ticks, as far as there is room, and note when the next is due."""
        name = project.name
        self._cron.begin(name, now)
        if _is_to_answer(project):  # pyspider asked when it loaded it, or its script changed
            self._asked.setdefault(name, (self._clock(), 0))
        if project.active and project.waiting_get_info:
            return  # its interval is not known yet; nothing is lost meanwhile
        interval = int(project.min_tick) if project.active else 0
        if not interval:
            self._cron.drop(name)
            return
        self._agenda.now(name)  # also if sending fails
        for tick in self._cron.due(name, interval, now, room) if room > 0 else ():
            self.send_tick(name, tick)
        self._agenda.at(name, self._cron.next(name, interval))

    def send_tick(self, project: str, tick: int) -> None:
        """Send one tick to a project's script."""
        self._engine.attention.unsaved.add(project)
        self._engine.call_script(project, "_on_cronjob", {"tick": tick})


def _is_to_answer(project: LoadedProject) -> bool:
    """Return whether a script has yet to answer, or what it needs may be there by now."""
    return project.active and (project.waiting_get_info or bool(project.cannot_start))
