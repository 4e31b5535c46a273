"""Failure report: which tasks fail in all projects, by kinds of errors, as databases tell."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from pyspider_zk.tasks.database import TaskDatabase, answered, task_database
from pyspider_zk.tasks.failure_table import AboutFailures
from pyspider_zk.tasks.failures import (
    FailedTask,
    FailureKind,
    Position,
    spellings,
)
from pyspider_zk.tasks.filters import FailureFilter

T = TypeVar("T")

LOGS = ("taskid", "track")


class FailureReport:
    """Failures of all projects.

    Threads: any. A question blocks for as long as the database takes, some tenths of a second for
    100,000 failures, and raises ``Unavailable`` if it does not answer.

    Args:
        taskdb: pyspider's.
    """

    def __init__(self, taskdb: Any) -> None:
        self._taskdb = taskdb

    def kinds(
        self, wanted: FailureFilter, offset: int = 0, limit: int = 100
    ) -> tuple[Sequence[FailureKind], int]:
        """Return kinds, those of most tasks first, and how many there are in all."""
        nothing: tuple[Sequence[FailureKind], int] = (), 0
        return self._ask(lambda table, ask: table.kinds(ask, wanted, offset, limit), nothing)

    def tasks(
        self, wanted: FailureFilter, after: Position | None = None, limit: int = 100
    ) -> Sequence[FailedTask]:
        """Return tasks, the latest first, behind a position."""
        return self._ask(lambda table, ask: table.tasks(ask, wanted, after, limit), ())

    def projects(self, wanted: FailureFilter, limit: int = 10_000) -> Mapping[str, int]:
        """Return how many tasks of each project fail, the projects with most first."""
        return self._ask(lambda table, ask: table.projects(ask, wanted, limit), {})

    def logs(self, tasks: Sequence[FailedTask]) -> list[str]:
        """Return what each task's script logged last, tracebacks among it."""
        by_project: dict[str, list[Any]] = {}
        for task in tasks:
            by_project.setdefault(task.project, []).extend(spellings(task.taskid))
        database = self._database  # one for all: each reads which tables there are
        rows = answered(
            lambda: {
                (project, str(taskid)): row
                for project, taskids in by_project.items()
                for taskid, row in database.get_many(project, taskids, LOGS).items()
            },
        )
        return [_logs(rows.get((task.project, task.taskid))) for task in tasks]

    @property
    def _database(self) -> TaskDatabase:
        return task_database(self._taskdb)  # a new one knows the latest tables

    def _ask(self, question: AboutFailures[T], nothing: T) -> T:
        found = answered(lambda: self._database.ask_failures(question))
        return nothing if found is None else found


def _logs(row: Mapping[str, Any] | None) -> str:
    track = (row or {}).get("track")
    processed = track.get("process") if isinstance(track, dict) else None
    logs = processed.get("logs") if isinstance(processed, dict) else None
    return logs if isinstance(logs, str) else ""
