"""Window: the pending tasks of a project that are in memory, as many as there is room for."""

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from heapq import heapify, heappop, heappush
from itertools import count
from queue import Empty
from threading import RLock
from typing import Any, NamedTuple

from pyspider.scheduler.token_bucket import Bucket

from pyspider_zk.scheduling.unloaded import Scan, Unloaded, level

logger = logging.getLogger("scheduler")

MOST_TASKS = 300_000
"""How many due tasks the windows of all projects have room for, and as many that are put off."""

MOST_DUE, MOST_PUT_OFF = 5_000, 50_000
"""Of one project. A scan for tasks that are put off passes over all rows, so it loads many."""

SMALLEST = 100


SPARE_ENTRIES = 64
"""Dead entries that a heap keeps beside as many as it has tasks, before it drops them all."""


class HeapEntry(NamedTuple):
    """A task in a heap, never changed. Entries are compared as tuples, in C, by the first three.

    Attributes:
        exetime: when it is due, in seconds since the epoch; 0 is at once.
        rank: the priority, negated, of a task that is due at once; 0 for the others.
        number: which of equals came first; no two tasks in a heap have the same.
        since: when the task came in, in seconds since the epoch.
    """

    exetime: Any
    rank: Any
    number: int
    taskid: str
    priority: Any
    since: float


_entry = partial(tuple.__new__, HeapEntry)
"""Makes an entry of a tuple, sooner than ``HeapEntry`` does."""


class TaskHeap:
    """pyspider's ``PriorityTaskQueue``, as far as it is used, at a tenth of the price.

    Tasks come in pyspider's order: by their times; those that are due at once by their priorities,
    the highest first. Equals, whose order pyspider leaves open, come first-in first-out.

    An entry is dead once ``queue_dict`` has none, or another, for its task. Dead ones are dropped
    when they come to the top, or when they are more than the others.

    Threads: it has no lock. One thread changes it, under the lock of its window; others look under
    that lock, for ``top`` drops dead entries.

    Args:
        numbers: of arrivals, ascending.

    Attributes:
        queue: the heap, with dead entries.
        queue_dict: the entries that are not dead by task id, the first that came in first.
    """

    def __init__(self, numbers: Iterator[int]) -> None:
        self._numbers = numbers
        self.queue: list[HeapEntry] = []
        self.queue_dict: dict[str, HeapEntry] = {}

    def add(self, taskid: str, priority: Any, exetime: Any, number: int | None = None) -> None:
        """Add a task; one that is here gets the higher priority and the earlier time.

        Args:
            number: of its former arrival, if it comes back.
        """
        here = self.queue_dict.get(taskid)
        if here is None:
            number = next(self._numbers) if number is None else number
            since = time.time()
        elif priority > here.priority or exetime < here.exetime:
            priority = priority if priority > here.priority else here.priority
            exetime = exetime if exetime < here.exetime else here.exetime
            number, since = here.number, here.since
            self._drop_dead()
        else:
            return
        rank = -priority if exetime == 0 else 0
        entry = _entry((exetime, rank, number, taskid, priority, since))
        heappush(self.queue, entry)
        self.queue_dict[taskid] = entry

    def get_nowait(self) -> HeapEntry:
        """Remove the next task and return it.

        Raises:
            queue.Empty: there is none.
        """
        heap, tasks = self.queue, self.queue_dict
        while heap:
            entry = heappop(heap)
            if tasks.get(entry.taskid) is entry:
                del tasks[entry.taskid]
                return entry
        raise Empty

    def pop(self, taskid: str) -> HeapEntry | None:
        """Remove a task and return it, None if it is not here."""
        entry = self.queue_dict.pop(taskid, None)
        self._drop_dead()
        return entry

    def _drop_dead(self) -> None:
        """Drop all dead entries if they are too many."""
        if len(self.queue) > 2 * len(self.queue_dict) + SPARE_ENTRIES:
            self.queue[:] = self.queue_dict.values()
            heapify(self.queue)

    @property
    def top(self) -> HeapEntry | None:
        """The next task, None if there is none."""
        heap, tasks = self.queue, self.queue_dict
        while heap:
            entry = heap[0]
            if tasks.get(entry.taskid) is entry:
                return entry
            heappop(heap)
        return None

    @property
    def oldest(self) -> float | None:
        """When the task came in that is here longest, in seconds since the epoch; None: no task."""
        return next((entry.since for entry in self.queue_dict.values()), None)

    def qsize(self) -> int:
        """Return how many tasks there are."""
        return len(self.queue_dict)

    def __contains__(self, taskid: object) -> bool:
        return taskid in self.queue_dict


class WindowSize:
    """How many tasks a window has room for. It holds up to twice as many before it leaves some out.

    Attributes:
        due, put_off: how many.
    """

    def __init__(self) -> None:
        self.due, self.put_off = MOST_DUE, MOST_PUT_OFF

    def share(self, projects: int) -> None:
        """Share the room among so many projects."""
        share = max(SMALLEST, MOST_TASKS // max(1, projects))
        self.due, self.put_off = min(share, MOST_DUE), min(share, MOST_PUT_OFF)


class Window:
    """Queue of a project's tasks as pyspider's, of which it holds the next ones.

    Of the due tasks it holds those of the highest priorities, of those put off the earliest; while
    few are due, it takes whatever comes. Tasks that are left out stand in their rows, and are
    loaded again when there is room. Tasks in flight are always here.

    Threads: the scheduler loop changes it, and alone knows what is unloaded. Others may look at
    the three places, under ``mutex``.

    Args:
        on_change: called after each change; must be quick.
        size: shared by all projects.

    Attributes:
        priority_queue, time_queue, processing: the due tasks, those put off, those in flight.
        bucket: how many may be sent now.
        mutex: see above.
        unloaded: what is known of the pending tasks that are not here.
    """

    processing_timeout = 600.0
    """Seconds after which a task in flight counts as lost that may not take longer than usual."""

    def __init__(self, on_change: Callable[[], None], size: WindowSize) -> None:
        self.mutex = RLock()
        self.bucket = Bucket(0, 0)
        numbers = count()
        self.priority_queue = TaskHeap(numbers)
        self.time_queue = TaskHeap(numbers)
        self.processing = TaskHeap(numbers)
        self.unloaded = Unloaded()
        self._on_change = on_change
        self._window_size = size
        self._now = 0.0
        self._rows: dict[str, tuple[Any, Any] | None] = {}  # None: not known
        self._lasting: dict[str, float] = {}  # of those in flight that may take longer than usual

    def __contains__(self, taskid: object) -> bool:
        return (
            taskid in self.priority_queue.queue_dict
            or taskid in self.time_queue.queue_dict
            or taskid in self.processing.queue_dict
        )

    def is_processing(self, taskid: object) -> bool:
        """Return whether a task is in flight."""
        return taskid in self.processing.queue_dict

    def __len__(self) -> int:
        """Return how many tasks there are, here or in their rows alone, about; 0 is certain."""
        outside = max(1, self.unloaded.count) if self.unloaded else 0
        return sum(len(place.queue_dict) for place in self._places()) + outside

    def _places(self) -> tuple[TaskHeap, TaskHeap, TaskHeap]:
        return self.priority_queue, self.time_queue, self.processing

    def put(self, taskid: str, priority: Any = 0, exetime: Any = 0) -> None:
        """Put a task, or leave it out."""
        if taskid in self:
            self._merge(taskid, priority, exetime)
        elif self._has_room(priority, exetime):
            self._enter(taskid, priority, exetime)
            self.leave_out()
        else:
            self._note(priority, exetime)
        self._on_change()

    def _merge(self, taskid: str, priority: Any, exetime: Any) -> None:
        """Put a task that is here; one in flight stays as it is."""
        self._rows[taskid] = priority, exetime
        for place in (self.priority_queue, self.time_queue):
            if taskid in place:
                with self.mutex:
                    place.add(taskid, priority, exetime)
                return

    def _enter(self, taskid: str, priority: Any, exetime: Any) -> None:
        """Put a task that is not here."""
        is_put_off = exetime and exetime > time.time()
        with self.mutex:
            (self.time_queue if is_put_off else self.priority_queue).add(taskid, priority, exetime)

    def take(self, most: int) -> list[str]:
        """Let the next due tasks be in flight, as many as there are tokens; return their ids."""
        taken: list[str] = []
        count = int(min(most, self.bucket.get()))
        with self.mutex:
            until = time.time() + self.processing_timeout
            while len(taken) < count and self.priority_queue.queue_dict:
                task = self.priority_queue.get_nowait()
                self.processing.add(task.taskid, task.priority, until, task.number)
                taken.append(task.taskid)
        if taken:
            self.bucket.desc(len(taken))
            self._on_change()
        return taken

    def put_back(self, taskid: str) -> None:
        """Put a task back in its order that was got, and not sent."""
        with self.mutex:
            task = self.processing.queue_dict[taskid]
            self.processing.pop(taskid)
            self.priority_queue.add(taskid, task.priority, 0, task.number)
        self._rows.setdefault(taskid)
        self._on_change()

    def put_in_flight(
        self, taskid: str, priority: Any, until: float, lasting: float | None = None
    ) -> None:
        """Put a task that was sent; of two times at which it is given up, the earlier counts.

        Args:
            until: the task is given up then, or once it has lasted as long as it may.
            lasting: how long it may, in seconds, if that is not known already.
        """
        if lasting is not None:
            self._lasting[taskid] = lasting
        with self.mutex:
            self.processing.add(taskid, priority, min(until, time.time() + self.lasting(taskid)))

    def lasting(self, taskid: str) -> float:
        """Return for how many seconds a task may be in flight."""
        return self._lasting.get(taskid, self.processing_timeout)

    def undo(self, taskid: str) -> Callable[[], object]:
        """Return what puts a task back where it is now, if it is here, or else deletes it."""
        for place in self._places():
            item = place.queue_dict.get(taskid)
            if item is not None:
                return partial(self._restore, place, item)
        return partial(self.delete, taskid)

    def _restore(self, place: TaskHeap, task: HeapEntry) -> None:
        with self.mutex:
            self.delete(task.taskid)
            place.add(task.taskid, task.priority, task.exetime)
        self.doubt([task.taskid])

    def sent(self, taskid: str, lasting: float) -> None:
        """Let the time-out of a task begin now that had waited for the fetchers since it was got.

        If it ended meanwhile, the task is due again, and in flight once more.

        Args:
            lasting: for how many seconds it may be in flight.
        """
        with self.mutex:
            task = self.processing.pop(taskid) or self.priority_queue.pop(taskid)
            if task is None:
                return
            self._lasting[taskid] = lasting
            self.processing.add(taskid, task.priority, time.time() + lasting, task.number)
        self._rows.setdefault(taskid)
        self._on_change()

    def done(self, taskid: str) -> bool:
        """End a task in flight; return whether it was."""
        self._lasting.pop(taskid, None)
        with self.mutex:
            found = self.processing.pop(taskid) is not None
        if found and self._rows:
            self._rows.pop(taskid, None)
        self._on_change()
        return found

    def delete(self, taskid: str) -> bool:
        """Delete a task; return whether it was here."""
        self._lasting.pop(taskid, None)
        self._rows.pop(taskid, None)
        with self.mutex:
            found = any(place.pop(taskid) is not None for place in self._places())
        self._on_change()
        return found

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
        if not exetime:
            return False
        self._now = max(self._now, time.time())
        return bool(exetime > self._now)

    def _has_room(self, priority: Any, exetime: Any) -> bool:
        if self._is_put_off(exetime):
            return level(exetime) < self.unloaded.exetime
        if not self.unloaded.are_due or self.priority_queue.qsize() < self._window_size.due // 2:
            return True
        return level(priority) > self.unloaded.priority

    # -- leaving out ------------------------------------------------------------------------------

    def leave_out(self) -> None:
        """Leave out all but the most urgent due tasks, if too many, and so those put off."""
        size = self._window_size
        if len(self.priority_queue.queue_dict) > 2 * size.due:
            self._shorten(self.priority_queue, _urgency, size.due)
        if len(self.time_queue.queue_dict) > 2 * size.put_off:
            self._shorten(self.time_queue, _time, size.put_off)

    def _shorten(self, place: TaskHeap, key: Callable[[HeapEntry], Any], count: int) -> None:
        """Leave out all but the first tasks of a place.

        A scan looks for them by what their rows tell. That may be something else: a task that was
        requested twice has the higher priority and the earlier time in memory.
        """
        with self.mutex:
            for task in sorted(place.queue_dict.values(), key=key)[count:]:
                row = self._rows.pop(task.taskid, (task.priority, task.exetime))
                if row is None:
                    self.unloaded.add_unknown()
                self._note(*(row or (task.priority, task.exetime)))
                place.pop(task.taskid)

    def _note(self, priority: Any, exetime: Any) -> None:
        if self._is_put_off(exetime):
            self.unloaded.add_put_off(exetime)
        else:
            self.unloaded.add_due(priority)

    # -- loading ----------------------------------------------------------------------------------

    @property
    def room(self) -> int:
        """How many due tasks there is room for."""
        return max(0, self._window_size.due - self.priority_queue.qsize())

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
        has_come = is_due and not scan.is_of_all  # as pyspider does when a time has come
        exetime = 0 if has_come else exetime
        if scan.is_of_due:  # there is room
            self._enter(taskid, priority, exetime)
            self._on_change()
        else:
            self.put(taskid, priority, exetime)

    def passed(self, scan: Scan, last: Any) -> None:
        """Note that a scan has loaded a page, up to a position; None: to the end of the rows."""
        self.unloaded.passed(scan, last)
        if not self.unloaded:
            self._on_change()  # there may be nothing pending any more

    # -- time -------------------------------------------------------------------------------------

    def check_update(self) -> None:
        """Make the tasks due whose time has come, and those in flight that count as lost."""
        now = time.time()
        self._now = max(self._now, now)
        if self._let_come(self.time_queue, now):
            self.leave_out()
            self._on_change()
        for taskid in self._let_come(self.processing, now):
            self._rows.setdefault(taskid)
            self._lasting.pop(taskid, None)
            logger.info("processing: retry %s", taskid)

    def _let_come(self, place: TaskHeap, now: float) -> list[str]:
        """Make the tasks due whose time has come; return their ids."""
        come = []
        with self.mutex:
            while (task := place.top) is not None and task.exetime < now:
                place.get_nowait()
                self.priority_queue.add(task.taskid, task.priority, 0)
                come.append(task.taskid)
        return come


def _urgency(task: HeapEntry) -> tuple[float, float]:
    return -level(task.priority), task.exetime


def _time(task: HeapEntry) -> float:
    return level(task.exetime)
