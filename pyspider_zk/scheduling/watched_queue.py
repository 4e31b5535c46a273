"""Watched queue: tells when a project's tasks change, which pyspider's queue does not."""

from collections.abc import Callable
from typing import Any

from pyspider.scheduler.task_queue import TaskQueue


class WatchedQueue(TaskQueue):
    """pyspider's queue of a project's tasks, which reports each change.

    Threads: as pyspider's; whoever changes it is who reports.

    Args:
        on_change: called after each change; must be quick.
    """

    def __init__(self, on_change: Callable[[], None]) -> None:
        super().__init__()
        self._on_change = on_change

    def put(self, taskid: str, priority: Any = 0, exetime: Any = 0) -> None:
        """Put a task, as pyspider does."""
        super().put(taskid, priority, exetime)
        self._on_change()

    def get(self) -> Any:
        """Return the id of the next due task, None without one or without a token."""
        taskid = super().get()
        if taskid is not None:
            self._on_change()
        return taskid

    def done(self, taskid: str) -> Any:
        """End a task in flight; return whether it was."""
        found = super().done(taskid)
        self._on_change()
        return found

    def delete(self, taskid: str) -> Any:
        """Delete a task; return whether it was there."""
        found = super().delete(taskid)
        self._on_change()
        return found
