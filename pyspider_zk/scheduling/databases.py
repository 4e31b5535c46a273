"""pyspider's databases as a scheduler uses them: behind breakers and the fence."""

import math
from collections.abc import Callable, Collection
from functools import cached_property, partial
from typing import Any, TypeVar

from pyspider_zk.cluster.ownership import Fence
from pyspider_zk.databases.breaker import Breaker
from pyspider_zk.databases.guarded import PATIENCE, Guarded
from pyspider_zk.scheduling.slot_seals import SlotSeals
from pyspider_zk.tasks.database import task_database
from pyspider_zk.tasks.failure_report import FailureReport
from pyspider_zk.tasks.store import TaskStore
from pyspider_zk.tasks.task_report import Reports, TaskReport
from pyspider_zk.tasks.task_search import TaskSearch
from pyspider_zk.zookeeper.waiting import boottime

T = TypeVar("T")


class FencedDatabases:
    """Databases of one scheduler. Threads: the scheduler loop, but for ``away``.

    Args:
        taskdb, projectdb, resultdb: pyspider's; there may be no result database.
        cluster: its root, by which its seals go.

    Attributes:
        tasks: what is written there takes effect with ``commit``.
        projectdb, resultdb: behind their breakers.
        seals: of the slots, in the task database.
    """

    def __init__(
        self, taskdb: Any, projectdb: Any, resultdb: Any, fence: Fence, cluster: str
    ) -> None:
        self._fence = fence
        self._breakers = {kind: Breaker(kind) for kind in ("taskdb", "projectdb", "resultdb")}
        self._tasks, bulk = self._guarded("taskdb", taskdb), task_database(taskdb)
        self.seals = SlotSeals(self._tasks, bulk, cluster, fence)
        self.tasks = TaskStore(self._tasks, bulk, self.seals.checking)
        self.projectdb = self._guarded("projectdb", projectdb)
        self.resultdb = None if resultdb is None else self._guarded("resultdb", resultdb)

    def _guarded(self, kind: str, database: Any) -> Guarded:
        return Guarded(database, self._breakers[kind], self._lease_left)

    def _lease_left(self) -> float:
        """Return how long a statement may wait: no write may take effect after the lease.

        Without a lease there are no writes.
        """
        ownership = self._fence.ownership
        left = PATIENCE if ownership is None else ownership.view.lease_until - boottime()
        return math.floor(left * 20) / 20 if 0 < left < PATIENCE else PATIENCE

    def reader(self) -> TaskStore:
        """Return another connection to the task database, for reads of one other thread."""
        copied = self._tasks.copy()
        return TaskStore(copied, task_database(copied.unguarded))

    @cached_property
    def reports(self) -> Reports:
        """Reports of the tasks, for other threads.

        They have copies: pyspider's database objects list their tables for all who share them, and
        the loop would miss a table that it is just making.

        Raises:
            Unavailable: a database does not answer.
        """
        resultdb = None if self.resultdb is None else self.resultdb.copy().unguarded
        copied, original = self._tasks.copy().unguarded, self._tasks.unguarded
        return Reports(TaskReport(copied, resultdb), FailureReport(copied), TaskSearch(original))

    @property
    def away(self) -> tuple[str, ...]:
        """The names of databases that do not answer. Threads: any."""
        return tuple(kind for kind, breaker in self._breakers.items() if breaker.is_open)

    def check_all(self, projects: Collection[str]) -> None:
        """Raise ``FenceClosed`` if an effect on one of these projects is not allowed."""
        for project in projects:
            self._fence.check(project)

    def together(self, projects: Collection[str], work: Callable[[], T]) -> T:
        """Change rows of the project database, of many in one transaction; return what it returns.

        Raises:
            FenceClosed: nothing was written, where there are transactions.
        """
        if len(projects) == 1:
            return work()
        changed: T = self.projectdb.together(work, partial(self.check_all, projects))
        return changed
