"""Loading from the task database: the pending tasks of projects, and how many there are of each.

A little of it is done in each round, so that nobody waits long for a project of millions of tasks.

Threads: the scheduler loop only.
"""

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from typing import Any

from pyspider.database.base.taskdb import TaskDB

from pyspider_zk.errors import DatabaseAway
from pyspider_zk.projects.rows import is_name
from pyspider_zk.queues.tasks import usable_schedule
from pyspider_zk.scheduling.engine import ON_FINISHED, TaskEngine
from pyspider_zk.scheduling.heartbeat import ROWS_PER_BEAT
from pyspider_zk.scheduling.project import LoadedProject
from pyspider_zk.scheduling.slot_record import Part, restore_tasks
from pyspider_zk.scheduling.task_rules import time_in_flight
from pyspider_zk.scheduling.unloaded import Scan
from pyspider_zk.scheduling.window import Window
from pyspider_zk.tasks.pages import ActiveRow

PAGE = 1000
"""How many rows are loaded at a time."""

LOADING_SHARE = 0.02
"""Seconds of each round for loading."""

STEP = 50_000
"""How many rows are counted at a time."""

COUNTING_SHARE = 0.01
"""Seconds of each round for counting."""

EVENTS = {
    "success": (TaskDB.SUCCESS,),
    "failed": (TaskDB.FAILED, TaskDB.BAD),
    "pending": (TaskDB.ACTIVE,),
}
"""pyspider's counters of a project, and the states of tasks that each counts."""

Isolating = Callable[[str], AbstractContextManager[None]]
"""Context manager that puts a project into quarantine if its block fails."""


class TaskLoading:
    """Loader of pending tasks into the windows of their projects, page by page and in turns.

    Args:
        beat: shows that the loop runs.
    """

    def __init__(self, engine: TaskEngine, beat: Callable[[], None]) -> None:
        self._engine = engine
        self._beat = beat
        self._counts: dict[str, _Count] = {}  # of projects whose rows are not all counted yet
        self._counted: set[str] = set()  # those too whose rows are
        self._room = engine.attention.window_size.due
        self._turns: dict[str, None] = {}
        self._under_way: dict[str, dict[str, Mapping[str, Any]]] = {}  # by project and task id
        self._found_at = 0.0

    def expect(self, tasks: Iterable[Mapping[str, Any]], slots: Collection[int]) -> None:
        """Let these tasks count as in flight when their projects are loaded next.

        Args:
            tasks: all that are under way now, of the whole cluster.
            slots: those whose projects may be loaded; a project that is in memory knows better.
        """
        self._under_way.clear()
        self._found_at = time.time()
        for task in tasks:
            if _is_sent(task) and self._engine.fence.slot(task["project"]) in slots:
                self._under_way.setdefault(task["project"], {})[task["taskid"]] = task
        for project in self._engine.projects:
            self._under_way.pop(project, None)

    def expect_no_more(self, project: str) -> None:
        """Forget which tasks of a project were found: from now on its memory tells, or nobody."""
        self._under_way.pop(project, None)

    def load(self, project: LoadedProject, part: Part) -> None:
        """Load the first of the ACTIVE rows; ``work`` loads the others.

        Those that the former owner handed over are not loaded. After a death those count as in
        flight that were found with fetchers and processors; a pack of another may still come.

        Args:
            part: the state of the project that the former owner left.

        Raises:
            DatabaseAway: rows that were written before it was stopped wait for the database.
        """
        if project.name in self._engine.taskdb.projects_with_writes:
            raise DatabaseAway(f"tasks of project {project.name} wait to be written")
        if part.get("clean"):
            project.task_queue.doubt(restore_tasks(project, part))
        else:
            self._engine.inherited[project.name] = time.time()
            self._restore_under_way(project)
        self.count(project.name)
        if self._engine.taskdb.may_have(project.name):
            self._share_room()
            project.task_queue.unloaded.add_unknown()
            self._load_page(project)

    def _restore_under_way(self, project: LoadedProject) -> None:
        """Let the tasks count as in flight that were found, as far as they wait by their rows.

        One that was found so long ago that its time is over does not.
        """
        tasks = self._under_way.get(project.name, {})
        rows = self._engine.taskdb.get_many(project.name, tasks, ["status"]) if tasks else {}
        window = project.task_queue
        for taskid, task in tasks.items():
            row = rows.get(taskid)
            seconds = time_in_flight(task, window.processing_timeout)
            until = self._found_at + seconds
            if row is not None and row["status"] == TaskDB.ACTIVE and time.time() < until:
                window.put_in_flight(taskid, 0, until, seconds)
                window.doubt([taskid])
                project.has_sent |= taskid != ON_FINISHED

    def count(self, project: str) -> None:
        """Let a project's rows be counted for pyspider's counters, once after it was loaded.

        Where it takes several rounds, what happens meanwhile may be counted or not.
        """
        with suppress(DatabaseAway):  # there may be some
            if not self._engine.taskdb.may_have(project):
                return
        if project not in self._counted:
            self._counted.add(project)
            self._counts[project] = _Count()

    def forget(self, project: str) -> None:
        """Forget a project that is no longer in memory, but not what is expected of it."""
        self._engine.inherited.pop(project, None)
        self._counted.discard(project)
        self._counts.pop(project, None)

    def work(self, isolating: Isolating) -> bool:
        """Load and count for a round's share of time; return whether a project is short of tasks.

        It must be called while nothing waits to be committed: then each row is as new as the
        memory.
        """
        self._share_room()
        self._count_rows(isolating)
        windows = self._engine.attention.windows
        self._queue_up({*windows, *self._turns})
        windows.clear()
        until = time.monotonic() + LOADING_SHARE
        try:
            while self._turns and time.monotonic() < until:
                name = next(iter(self._turns))
                with isolating(name):
                    self._load_page(self._engine.projects[name])
                del self._turns[name]
                self._queue_up([name])
        except DatabaseAway:  # its breaker logs it
            return False
        return any(self._engine.projects[name].task_queue.is_short for name in self._turns)

    def _count_rows(self, isolating: Isolating) -> None:
        """Count for a round's share of time."""
        until = time.monotonic() + COUNTING_SHARE
        with suppress(DatabaseAway):  # its breaker logs it
            while self._counts and time.monotonic() < until:
                name, count = next(iter(self._counts.items()))
                with isolating(name):
                    some, count.after = self._engine.taskdb.count_page(name, count.after, STEP)
                    count.found.update(some)
                    if count.after is not None:
                        continue
                    self._tell(name, count.found)
                self._counts.pop(name, None)

    def _tell(self, project: str, found: Mapping[int, int]) -> None:
        for event, states in EVENTS.items():
            number = sum(found.get(state, 0) for state in states)
            self._engine.counters["all"].value((project, event), number)

    def _queue_up(self, names: Collection[str]) -> None:
        """Give a turn to the projects that there is something to load for, and to no others."""
        for name in names:
            project = self._engine.projects.get(name)
            if project is not None and project.task_loaded and project.task_queue.next_scan():
                self._turns.setdefault(name)
            else:
                self._turns.pop(name, None)

    def _load_page(self, project: LoadedProject) -> None:
        """Load a page of a project's tasks, if there is something to load.

        Raises:
            DatabaseAway: nothing was loaded.
        """
        window = project.task_queue
        scan = window.next_scan()
        if scan is None:
            return
        for number, (taskid, schedule) in enumerate(self._next_rows(project.name, window, scan)):
            if number % ROWS_PER_BEAT == 0:
                self._beat()
            # One that is in memory is known better there than in its row.
            if not any(each in window for each in self._engine.taskdb.spellings(taskid)):
                given = {**self._engine.default_schedule, **usable_schedule(schedule)}
                window.load(scan, taskid, given["priority"], given["exetime"])
        window.passed(scan, scan.after)

    def _next_rows(self, name: str, window: Window, scan: Scan) -> Iterable[ActiveRow]:
        size = min(PAGE, max(1, window.room)) if scan.is_of_due else PAGE
        page = self._engine.taskdb.active_page(name, scan.after, size)
        scan.after = page.last
        return page.rows

    def _share_room(self) -> None:
        """Share the room for tasks among the projects that have some.

        If it is much less for each than before, those that have too many leave some out.
        """
        size = self._engine.attention.window_size
        size.share(self._engine.attention.pending.projects)
        if 2 * size.due < self._room:
            for project in self._engine.projects.values():
                if project.task_loaded:
                    project.task_queue.leave_out()
        if not self._room / 2 <= size.due <= self._room:
            self._room = size.due


def _is_sent(task: Mapping[str, Any]) -> bool:
    """Return whether a message may be a task that a scheduler has sent; others may be anything."""
    parts = all(isinstance(task.get(part) or {}, dict) for part in ("fetch", "process"))
    return parts and is_name(task.get("project")) and isinstance(task.get("taskid"), str)


@dataclass
class _Count:
    """A count that has come as far as a position."""

    after: Any = None
    found: Counter[int] = field(default_factory=Counter)
