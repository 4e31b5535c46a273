"""Task heap: the tasks in one of the three places of a window, of which the next one is on top."""

import time
from collections.abc import Iterator
from functools import partial
from heapq import heapify, heappop, heappush
from queue import Empty
from typing import Any, NamedTuple

SPARE = 64
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
        if len(self.queue) > 2 * len(self.queue_dict) + SPARE:
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

    def __getitem__(self, taskid: str) -> HeapEntry:
        return self.queue_dict[taskid]

    def __delitem__(self, taskid: str) -> None:
        del self.queue_dict[taskid]
        self._drop_dead()
