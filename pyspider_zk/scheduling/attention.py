"""Attention: which projects something happened to, for each step of a round that must look."""

from functools import partial

from pyspider_zk.scheduling.agenda import Agenda
from pyspider_zk.scheduling.window import Window, WindowSize


class Attention:
    """Attention to projects, so that those with nothing to do cost a round nothing.

    Whoever changes a project reports it here, and each step takes note of when it must look at the
    project again. Times are the wall clock's, by which pyspider's tasks and ticks are due; when it
    is set back, every project must be looked at anew.

    A project whose queue changes is only noted, often many times in a round; the steps are told
    when one of them asks.

    Threads: the scheduler loop only.

    Args:
        window_size: how many tasks each project may have in memory.

    Attributes:
        ticks: projects that may have a tick to send.
        deletion: projects that may be due for deletion.
    """

    def __init__(self, window_size: WindowSize) -> None:
        self.ticks = Agenda()
        self.deletion = Agenda()
        self.window_size = window_size
        self._changed: set[str] = set()
        self._selection = Agenda()
        self._unsaved: set[str] = set()
        self._windows: set[str] = set()
        self._pending = PendingTasks()

    @property
    def selection(self) -> Agenda:
        """Projects that may have tasks to send. Ask anew for each look at it."""
        self._tell()
        return self._selection

    @property
    def unsaved(self) -> set[str]:
        """Projects whose part of the slot record has changed since it was saved."""
        self._tell()
        return self._unsaved

    @property
    def windows(self) -> set[str]:
        """Projects that may have room for more tasks."""
        self._tell()
        return self._windows

    @property
    def pending(self) -> "PendingTasks":
        """How many tasks there are of all projects."""
        self._tell()
        return self._pending

    def new_queue(self, project: str) -> Window:
        """Return an empty queue for a project that reports its changes."""
        queue = Window(partial(self._changed.add, project), self.window_size)
        self._pending.follow(project, queue)
        return queue

    def on_tasks(self, project: str) -> None:
        """Note that a project's queue has changed."""
        self._changed.add(project)

    def _tell(self) -> None:
        """Tell the steps of the projects whose queues have changed."""
        for project in self._changed:
            self._selection.now(project)
        for told in (self._unsaved, self._windows, self._pending.changed):
            told |= self._changed
        self._changed.clear()

    def on_project(self, project: str) -> None:
        """Note that anything else of a project has changed, such as its row or its script."""
        self.on_tasks(project)
        self.ticks.now(project)
        self.deletion.now(project)

    def forget(self, project: str) -> None:
        """Forget a project that is no longer in memory."""
        for agenda in (self._selection, self.ticks, self.deletion):
            agenda.drop(project)
        for told in (self._changed, self._unsaved, self._windows):
            told.discard(project)
        self._pending.forget(project)


class PendingTasks:
    """Counter of the tasks in all queues, which measures only those that changed.

    Attributes:
        changed: the projects whose queues have changed since the last count.
        projects: how many projects had tasks then.
    """

    def __init__(self) -> None:
        self.changed: set[str] = set()
        self._queues: dict[str, Window] = {}
        self._sizes: dict[str, int] = {}
        self._total = 0
        self.projects = 0

    def follow(self, project: str, queue: Window) -> None:
        """Count a project's queue, in place of any former one."""
        self._queues[project] = queue
        self.changed.add(project)

    def forget(self, project: str) -> None:
        """Count a project no more."""
        self.changed.discard(project)
        self._queues.pop(project, None)
        self._note(project, 0)
        self._sizes.pop(project, None)

    def count(self) -> int:
        """Return how many tasks there are."""
        for project in self.changed & self._queues.keys():
            self._note(project, len(self._queues[project]))
        self.changed.clear()
        return self._total

    def _note(self, project: str, size: int) -> None:
        former = self._sizes.get(project, 0)
        self._sizes[project] = size
        self._total += size - former
        self.projects += bool(size) - bool(former)
