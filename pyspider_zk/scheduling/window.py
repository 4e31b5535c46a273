"""Window: the pending tasks of a project that are in memory, as many as there is room for."""

import heapq
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

from pyspider.scheduler.task_queue import InQueueTask, PriorityTaskQueue

from pyspider_zk.scheduling.due_queue import DueQueue
from pyspider_zk.scheduling.unloaded import Scan, Unloaded, level
from pyspider_zk.scheduling.watched_queue import WatchedQueue

MOST_TASKS = 300_000
"""How many due tasks the windows of all projects have room for, and as many that are put off."""

MOST_DUE, MOST_PUT_OFF = 5_000, 50_000
"""Of one project. A scan for tasks that are put off passes over all rows, so it loads many."""

SMALLEST = 100


class WindowSize:
    """How many tasks a window has room for. It holds up to twice as many before it leaves some out.

    Args:
        is_bounded: if not, there is room for everything.

    Attributes:
        due, put_off: how many.
    """

    def __init__(self, *, is_bounded: bool = True) -> None:
        self._is_bounded = is_bounded
        self.due, self.put_off = MOST_DUE, MOST_PUT_OFF
        if not is_bounded:
            self.due = self.put_off = sys.maxsize

    def share(self, projects: int) -> None:
        """Share the room among so many projects."""
        if self._is_bounded:
            share = max(SMALLEST, MOST_TASKS // max(1, projects))
            self.due, self.put_off = min(share, MOST_DUE), min(share, MOST_PUT_OFF)


class Window(WatchedQueue):
    """pyspider's queue of a project's tasks, of which it holds the next ones.

    Of the due tasks it holds those of the highest priorities, of those put off the earliest; while
    few are due, it takes whatever comes. Tasks that are left out stand in their rows, and are
    loaded again when there is room. Tasks in flight are always here.

    Threads: tasks are put by the scheduler loop only; all else as with pyspider's.

    Args:
        on_change: called after each change; must be quick.
        size: shared by all projects.

    Attributes:
        unloaded: what is known of the pending tasks that are not here.
    """

    def __init__(self, on_change: Callable[[], None], size: WindowSize) -> None:
        super().__init__(on_change)
        self.priority_queue = DueQueue()
        self.unloaded = Unloaded()
        self._window_size = size
        self._now = 0.0
        self._rows: dict[str, tuple[Any, Any] | None] = {}  # None: not known

    def size(self) -> int:
        """Return how many tasks there are, here or in their rows alone, about; 0 is certain."""
        outside = max(1, self.unloaded.count) if self.unloaded else 0
        return int(super().size()) + outside

    def put(self, taskid: str, priority: Any = 0, exetime: Any = 0) -> None:
        """Put a task, or leave it out."""
        if taskid in self:
            self._rows[taskid] = priority, exetime
            super().put(taskid, priority, exetime)
        elif self._has_room(priority, exetime):
            super().put(taskid, priority, exetime)
            self.leave_out()
        else:
            self._note(priority, exetime)
            self._on_change()

    def get(self) -> Any:
        """Return the id of the next due task, None without one or without a token."""
        taskid = super().get()
        if taskid is not None:
            self._rows.setdefault(taskid)
        return taskid

    def put_back(self, taskid: str) -> None:
        """Put a task back that was got, and not sent."""
        with self.mutex:
            task = self.processing[taskid]
            del self.processing[taskid]
            self.priority_queue.put(InQueueTask(taskid, task.priority, 0))
        self._on_change()

    def done(self, taskid: str) -> Any:
        """End a task in flight; return whether it was."""
        found = super().done(taskid)
        if found:
            self._rows.pop(taskid, None)
        return found

    def delete(self, taskid: str) -> Any:
        """Delete a task; return whether it was here."""
        self._rows.pop(taskid, None)
        return super().delete(taskid)

    def doubt(self, taskids: Iterable[str]) -> None:
        """Note that the rows of tasks may tell other priorities and times than this queue."""
        self._rows.update(dict.fromkeys(taskids))

    def follow_clock(self) -> None:
        """Go by the clock again after it was set back: tasks that were due may not be."""
        self._now = time.time()
        self.doubt(self.priority_queue.queue_dict)
        if self.unloaded:
            self.unloaded.add_unknown()

    def _is_put_off(self, exetime: Any) -> bool:
        """Return whether a time lies in the future. A clock that is adjusted never goes back."""
        self._now = max(self._now, time.time())
        return bool(exetime and exetime > self._now)

    def _has_room(self, priority: Any, exetime: Any) -> bool:
        if self._is_put_off(exetime):
            return level(exetime) < self.unloaded.exetime
        is_short = bool(self.priority_queue.qsize() < self._window_size.due // 2)
        return is_short or level(priority) > self.unloaded.priority

    # -- leaving out ------------------------------------------------------------------------------

    def leave_out(self) -> None:
        """Leave out all but the most urgent due tasks, if too many, and so those put off."""
        with self.mutex:  # others look at the queues as well
            size = self._window_size
            if self.priority_queue.qsize() > 2 * size.due:
                self._shorten(self.priority_queue, _urgency, size.due)
            if self.time_queue.qsize() > 2 * size.put_off:
                self._shorten(self.time_queue, _time, size.put_off)

    def _shorten(
        self, queue: PriorityTaskQueue, key: Callable[[InQueueTask], Any], count: int
    ) -> None:
        """Leave out all but the first tasks of a queue.

        A scan looks for them by what their rows tell. That may be something else: a task that was
        requested twice has the higher priority and the earlier time in memory.
        """
        tasks = sorted(queue.queue_dict.values(), key=key)
        for task in tasks[count:]:
            row = self._rows.pop(task.taskid, (task.priority, task.exetime))
            if row is None:
                self.unloaded.add_unknown()
            self._note(*(row or (task.priority, task.exetime)))
            del queue[task.taskid]
        queue.queue = tasks[:count]
        heapq.heapify(queue.queue)

    def _note(self, priority: Any, exetime: Any) -> None:
        if self._is_put_off(exetime):
            self.unloaded.add_put_off(exetime)
        else:
            self.unloaded.add_due(priority)

    # -- loading ----------------------------------------------------------------------------------

    @property
    def room(self) -> int:
        """How many due tasks there is room for."""
        return max(0, self._window_size.due - int(self.priority_queue.qsize()))

    @property
    def is_short(self) -> bool:
        """Whether it holds few due tasks, though there are more."""
        return self.unloaded.are_due and self.room >= self._window_size.due / 2

    def next_scan(self) -> Scan | None:
        """Return the scan that loads what there is room for, None for none; it may begin now."""
        size = self._window_size
        return self.unloaded.next_scan(
            due=self.room >= size.due / 2,
            put_off=self.time_queue.qsize() <= size.put_off // 2,
        )

    def load(self, scan: Scan, taskid: str, priority: Any, exetime: Any) -> None:
        """Put a task that a scan found, if it is one that the scan looks for."""
        is_due = not self._is_put_off(exetime)
        is_meant = (is_due and level(priority) >= scan.priority) or (
            exetime and level(exetime) >= scan.exetime
        )
        if taskid in self or not is_meant:
            return
        if not scan.is_of_all:
            self.unloaded.take_one()
        put = super().put if scan.is_of_due else self.put  # for due ones there is room
        has_come = is_due and not scan.is_of_all  # as pyspider does when a time has come
        put(taskid, priority, 0 if has_come else exetime)

    def passed(self, scan: Scan, last: Any) -> None:
        """Note that a scan has loaded a page, up to a position; None: to the end of the rows."""
        self.unloaded.passed(scan, last)
        if not self.unloaded:
            self._on_change()  # there may be nothing pending any more

    def _check_time_queue(self) -> None:
        self._now = max(self._now, time.time())
        before = self.time_queue.qsize()
        super()._check_time_queue()
        if self.time_queue.qsize() < before:
            self.leave_out()
            self._on_change()


def _urgency(task: InQueueTask) -> tuple[float, float]:
    return -level(task.priority), task.exetime


def _time(task: InQueueTask) -> float:
    return level(task.exetime)
