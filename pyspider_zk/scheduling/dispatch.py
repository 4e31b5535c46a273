"""Dispatch of tasks to the fetchers, many in a call."""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import takewhile
from typing import Any

from pyspider_zk.queues.tasks import usable_schedule

logger = logging.getLogger("scheduler")

BATCH = 200
"""How many tasks that wait for room are tried again at a time."""

Task = dict[str, Any]


class Dispatch:
    """Dispatch of tasks; those that find no room, or a closed fence, wait.

    Threads: the scheduler loop only.

    Args:
        out_queue: returns the queue to the fetchers, a ``ResilientQueue``.
        may_send: returns whether the fence lets tasks of a project go.
        on_sent: called with each task that had waited, when it is sent.

    Attributes:
        waiting: the tasks that wait, the next one at the right.
    """

    def __init__(
        self,
        out_queue: Callable[[], Any],
        may_send: Callable[[str], bool],
        on_sent: Callable[[Task], None],
    ) -> None:
        self.waiting: deque[Task] = deque()
        self._waiting_keys: set[tuple[str, str]] | None = None
        self._out_queue = out_queue
        self._may_send = may_send
        self._on_sent = on_sent
        self._collected: list[tuple[Task, Any]] | None = None

    @contextmanager
    def collecting(self) -> Iterator[None]:
        """Send the tasks of the block in few calls."""
        collected: list[tuple[Task, Any]] = []
        self._collected = collected
        try:
            yield
        finally:
            self._collected = None
            self.wait(self._unsent(collected))

    def send(self, task: Task) -> None:
        """Send a task, or with the others of a block; raises what it cannot be encoded for."""
        packed = self._out_queue().packed(task)
        if self._collected is None:
            self.wait(self._unsent([(task, packed)]))
        else:
            self._collected.append((task, packed))

    def wait(self, tasks: Iterable[Task]) -> None:
        """Let tasks wait behind all others."""
        self.waiting.extendleft(tasks)
        self._waiting_keys = None

    def go_first(self, tasks: Sequence[Task]) -> None:
        """Let tasks wait in front of all others."""
        self.waiting.extend(reversed(tasks))
        self._waiting_keys = None

    def drop(self, is_meant: Callable[[str], bool]) -> None:
        """Drop the tasks that wait of the projects that are meant."""
        kept = [task for task in self.waiting if not is_meant(task["project"])]
        self.waiting.clear()
        self.waiting.extend(kept)

    def withdraw(
        self, project: str, taskid: str, schedule: Mapping[str, Any] | None = None
    ) -> None:
        """Drop a task that waits: its answer is here, it is sent anew, or another request counts.

        It is answered if the queue had taken it though it said no, as when a link breaks, or if a
        former owner had sent it. What waits is indexed once per round, if anything waits.

        Args:
            schedule: of the task that was answered, if known. One with another schedule still has
                to be sent: the answer is from before a restart.
        """
        if not self.waiting:
            return
        if self._waiting_keys is None:
            self._waiting_keys = {_key(task) for task in self.waiting}
        if (project, taskid) in self._waiting_keys:
            for task in list(self.waiting):
                if _key(task) == (project, taskid) and _is_same(task, schedule):
                    self.waiting.remove(task)

    def send_waiting(self) -> None:
        """Send what found no room earlier, as far as there is room and the fence is open."""
        unsent: list[Task] = []
        while self.waiting and not unsent:
            some = [self.waiting.pop() for _ in range(min(BATCH, len(self.waiting)))]
            packed = self._packed(some)
            unsent = self._unsent(packed)
            self.go_first(unsent)
            for task, _ in packed[: len(packed) - len(unsent)]:
                self._on_sent(task)

    def _packed(self, tasks: Sequence[Task]) -> list[tuple[Task, Any]]:
        """Encode tasks; one that cannot be encoded is dropped."""
        packed = []
        for task in tasks:
            try:
                packed.append((task, self._out_queue().packed(task)))
            except Exception:
                logger.exception("task %(project)s:%(taskid)s cannot be sent", task)
        return packed

    def _unsent(self, packed: Sequence[tuple[Task, Any]]) -> list[Task]:
        """Send tasks as far as the fence is open; return those that were not sent."""
        projects = {task["project"] for task, _ in packed}
        is_open = {project: self._may_send(project) for project in projects}
        may_go = list(takewhile(lambda pair: is_open[pair[0]["project"]], packed))
        sent = self._out_queue().put_packed([raw for _, raw in may_go])
        return [task for task, _ in packed[sent:]]


def _key(task: Task) -> tuple[str, str]:
    return task["project"], task["taskid"]


def _is_same(task: Task, schedule: Mapping[str, Any] | None) -> bool:
    return schedule is None or usable_schedule(task.get("schedule")) == schedule
