"""Refetching: has those tasks of a project fetched again that are meant, once per batch."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspider.database.base.taskdb import TaskDB

from pyspider_zk.errors import BadMessage, brief
from pyspider_zk.jobs.execution import OperationRefused, ProjectTarget
from pyspider_zk.queues.tasks import usable_schedule
from pyspider_zk.scheduling.engine import TaskEngine
from pyspider_zk.scheduling.message_applier import MessageApplier
from pyspider_zk.tasks.columns import TaskKey
from pyspider_zk.tasks.failures import error_of, failure_kind, spellings, status_code_of
from pyspider_zk.tasks.filters import FailureFilter

logger = logging.getLogger("scheduler")

PAGE = 500
"""Rows that are looked at in one go, of all projects together: they hold up a round."""

BATCH = "refetched_by"
"""The part of a task's schedule that names the batch by which it was fetched again."""

FIELDS = ("taskid", "url", "status", "schedule", "process", "track")

FORMER = ("retried", "exetime", "cancel")
"""The parts of its schedule that a task begins anew without."""

Row = Mapping[str, Any]


@dataclass(frozen=True)
class RefetchFilter:
    """The tasks that are meant, by the operation's arguments; all that are given must hold.

    Attributes:
        tasks: ids; none: all in a state.
        state: without ids FAILED, unless another is given.
        callback: the name of the script's method that gets the page; "": none is named.
        error: text that the last error contains, in capitals or not.
        status_code: of the last answer; 0: there was none.
        kind: how tasks fail; without ids and state those are meant that are tried again, too.
        url: text that it contains, in capitals or not.
    """

    tasks: Sequence[Any] = ()
    state: str = ""
    callback: str | None = None
    error: str = ""
    status_code: int | None = None
    kind: str = ""
    url: str = ""

    @property
    def paged_status(self) -> int:
        """The status of the rows that are looked at if there are no ids."""
        return _status(self.state or "FAILED")

    def accepts(self, row: Row) -> bool:
        """Return whether a task is meant, if it has one of the ids."""
        return (
            (not self.state or row["status"] == _status(self.state))
            and self.callback in (None, _part(row, "process").get("callback") or "")
            and self.url.lower() in str(row["url"]).lower()
            and (not self.error or any(self.error.lower() in text.lower() for text in _errors(row)))
            and self.status_code in (None, status_code_of(_part(_part(row, "track"), "fetch")))
            and (not (self.kind and self.tasks) or _kind(row) == self.kind)
        )


@dataclass
class RefetchProgress:
    """How far refetching came within a project: the position in its rows, and the first fault."""

    after: Any = None
    fault: str = ""

    def note(self, project: str, taskid: object, fault: object) -> None:
        """Note that a task cannot be fetched again."""
        reason = f"{taskid}: {brief(fault)}"
        logger.error("project %s: not fetched again: %s", project, reason)
        self.fault = self.fault or reason


class Refetching:
    """Refetching in some projects, a page of rows in each call.

    A task begins anew, with all its tries, as if its script had requested it by ``force_update``.
    Its row keeps the batch, so that a repeated job leaves it alone. So is one that is under way.

    Threads: the scheduling loop.
    """

    def __init__(self, engine: TaskEngine, applier: MessageApplier, wanted: RefetchFilter) -> None:
        self._engine = engine
        self._applier = applier
        self._wanted = wanted
        self._room = PAGE
        engine.taskdb.look_again()  # tasks may have been restored from a backup

    def step(self, target: ProjectTarget) -> bool:
        """Apply a project's next tasks; return whether they are the last.

        What is read must be committed, and the effects are to be.
        """
        if self._room <= 0 or self._is_full(target.project):
            return False
        place: RefetchProgress = target.place or RefetchProgress()
        target.place = place
        rows, last = self._next(target.project, place)
        meant = [row for row in rows if self._is_left(row, target.batch)]
        self._engine.taskdb.read_ahead(target.project, [row["taskid"] for row in meant])
        for row in meant:
            if self._is_full(target.project):
                return False  # this page is looked at again, without those that were applied
            self._apply(target, place, row)
        place.after = last
        return last is None

    def _is_full(self, project: str) -> bool:
        return self._engine.is_full(self._engine.projects[project])

    def _next(self, project: str, place: RefetchProgress) -> tuple[Sequence[Row], Any]:
        """Return the next rows that can be read, and the position after them."""
        taskdb, wanted, last = self._engine.taskdb, self._wanted, None
        found: Sequence[tuple[object, Row | None]]
        if wanted.tasks:
            found = self._rows(project, wanted.tasks)
        elif wanted.kind:
            found, last = self._failing(project, place)
        else:
            page, last = taskdb.state_page(
                project, wanted.paged_status, place.after, self._room, FIELDS
            )
            found = [("one of its tasks", row) for row in page]
        self._room -= max(1, len(found))
        for taskid, row in found:
            if row is None:
                place.note(project, taskid, "there is no such task, or its row cannot be read")
        return [row for _, row in found if row is not None], last

    def _rows(self, project: str, tasks: Sequence[Any]) -> list[tuple[object, Row | None]]:
        wanted = {taskid: spellings(taskid) for taskid in tasks}
        every = [each for ids in wanted.values() for each in ids]
        known = self._engine.taskdb.get_many(project, every, FIELDS)
        return [
            (taskid, next((known[each] for each in ids if each in known), None))
            for taskid, ids in wanted.items()
        ]

    def _failing(
        self, project: str, place: RefetchProgress
    ) -> tuple[list[tuple[object, Row | None]], Any]:
        """Return the rows of the next tasks that fail so, and the position then.

        One that has no row, or has ended well after all, does not fail any more.
        """
        taskdb, asked = self._engine.taskdb, self._wanted
        wanted = FailureFilter(
            project,
            asked.kind,
            asked.callback,
            asked.status_code,
            url=asked.url or None,
            error=asked.error or None,
        )
        failed = taskdb.failed_tasks(wanted, place.after, self._room)
        last = failed[-1].position if len(failed) == self._room else None
        found: list[tuple[object, Row | None]] = []
        for taskid, row in self._rows(project, [task.taskid for task in failed]):
            if row is None or row["status"] in (TaskDB.SUCCESS, TaskDB.BAD):
                taskdb.recover(project, taskid)
            else:
                found.append((taskid, row))
        return found, last

    def _is_left(self, row: Row, batch: str) -> bool:
        return _part(row, "schedule").get(BATCH) != batch and self._wanted.accepts(row)

    def _apply(self, target: ProjectTarget, place: RefetchProgress, row: Row) -> None:
        try:
            self._applier.apply_task({"project": target.project, **_anew(row, target.batch)})
        except (BadMessage, TypeError, ValueError) as error:
            place.note(target.project, row["taskid"], error)


def note_refused(target: ProjectTarget, refused: Mapping[TaskKey, Exception]) -> None:
    """Note which tasks' rows the database has refused."""
    for (project, taskid), error in refused.items():
        if project == target.project and target.place is not None:
            target.place.note(project, taskid, error)


def check_faults(target: ProjectTarget) -> bool:
    """Return True if all tasks that are meant are fetched again.

    Raises:
        OperationRefused: some cannot be; the others are.
    """
    if target.place.fault:
        raise OperationRefused(f"some tasks cannot be fetched again, such as {target.place.fault}")
    return True


def _anew(row: Row, batch: str) -> dict[str, Any]:
    """Return the request for a task that begins anew, to be fetched whatever has changed since."""
    former = usable_schedule(row["schedule"])
    kept = {name: value for name, value in former.items() if name not in FORMER}
    schedule = {**kept, "force_update": True, BATCH: batch}
    return {"taskid": row["taskid"], "url": row["url"], "schedule": schedule}


def _status(state: str) -> int:
    status: int = getattr(TaskDB, state)
    return status


def _kind(row: Row) -> str:
    track = _part(row, "track")
    return failure_kind(_part(track, "process"), _part(track, "fetch"))


def _errors(row: Row) -> list[str]:
    """Return the texts of a row that say what went wrong last."""
    track = _part(row, "track")
    processed, fetched = _part(track, "process"), _part(track, "fetch")
    said = fetched.get("error"), processed.get("exception"), processed.get("logs")
    return [error_of(processed, fetched), *(str(text) for text in said if text)]


def _part(row: Row, name: str) -> Row:
    part = row.get(name)
    return part if isinstance(part, Mapping) else {}
