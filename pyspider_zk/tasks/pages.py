"""Pages of a project's ACTIVE rows: of each only what its scheduling needs."""

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspider.database.base.taskdb import TaskDB

from pyspider_zk.tasks.documents import UNREADABLE, Read, from_json

logger = logging.getLogger(__name__)

ActiveRow = tuple[Any, Any]
"""A task's id, and its schedule."""

CountState = Callable[[int, Any, int], tuple[int, Any]]
"""Takes a state, a position and a limit; returns how many rows there are, and the next position."""

LOOKED_AT = 5_000
"""Rows of ended tasks, at most, of which the last ones are found."""

FOUND = ("taskid", "url", "status", "lastcrawltime")
"""Columns of a row that is found."""

FoundRow = Sequence[Any]
"""The values of these columns."""

STATES = (TaskDB.ACTIVE, TaskDB.SUCCESS, TaskDB.FAILED, TaskDB.BAD)
"""Of tasks."""


@dataclass(frozen=True, slots=True)
class ActivePage:
    """Some ACTIVE rows of a project.

    Attributes:
        rows: of tasks, those first that were written first.
        last: the position after which the next page begins; None if this page is the last one.
    """

    rows: Sequence[ActiveRow]
    last: Any


NO_ROWS = ActivePage((), None)


@dataclass(frozen=True, slots=True)
class FoundPage:
    """Some rows of a project that a search found.

    Attributes:
        looked_at: how many rows were; among them are those that were not meant.
        last: the position after which the next page begins; None if this page is the last one.
    """

    rows: Sequence[FoundRow]
    looked_at: int
    last: Any


NOTHING_FOUND = FoundPage((), 0, None)


def found_page(rows: Sequence[Sequence[Any]], looked_at: int, last: Any) -> FoundPage:
    """Return a page of rows, each with its position."""
    return FoundPage([row[:-1] for row in rows if _has_id(row)], looked_at, last)


def last_position(rows: Sequence[Sequence[Any]], limit: int) -> Any:
    """Return the last column of the last row; None if there are fewer rows than were asked for."""
    return rows[-1][-1] if len(rows) >= limit else None


def page_of(
    fields: Sequence[str],
    stored: Sequence[Sequence[Any]],
    limit: int,
    readable: Callable[[Mapping[str, Any]], dict[str, Any] | None],
) -> tuple[Sequence[dict[str, Any] | None], Any]:
    """Return rows of these columns and a position as they are read, and the position after them."""
    rows = [readable(dict(zip(fields, row[:-1], strict=True))) for row in stored]
    return rows, last_position(stored, limit)


def active_page_of(
    project: str, stored: Sequence[Sequence[Any]], limit: int, read: Read = json.loads
) -> ActivePage:
    """Return a page of rows: id, schedule as it is stored, time and position.

    Tasks of one priority are sent in the order of the rows: that of the times when they were
    requested, for nothing else writes a row that waits.

    Logs how many rows have no task id, and how many a schedule that cannot be decoded.
    """
    tasks = list(filter(_has_id, stored))
    rows: list[ActiveRow] = []
    bad = 0
    for taskid, schedule, *_ in sorted(tasks, key=_written):
        try:
            document = from_json(schedule, read) if schedule else {}
        except UNREADABLE:
            document = {}
            bad += 1
        rows.append((taskid, document))
    _log(project, len(stored) - len(tasks), bad)
    return ActivePage(rows, last_position(stored, limit))


def _has_id(row: Sequence[Any]) -> bool:
    return isinstance(row[0], str | int) and row[0] != ""


def _written(row: Sequence[Any]) -> float:
    """Return when a row was written; sqlite stores whatever it is given."""
    return row[2] if isinstance(row[2], int | float) else 0.0


def count_states(count: CountState, after: Any, limit: int) -> tuple[Mapping[int, int], Any]:
    """Return how many of the next rows are in each state, and the position then, None at the end.

    One state is counted after the other.

    Args:
        after: a state and a position in it; None begins.
        limit: of rows.
    """
    state, position = after or (STATES[0], None)
    found: dict[int, int] = {}
    for each in STATES[STATES.index(state) :]:
        found[each], position = count(each, position, limit)
        if position is not None:
            return found, (each, position)
        limit = max(1, limit - found[each])
    return found, None


def _log(project: str, without: int, bad: int) -> None:
    if without:
        logger.error("project %s: %d rows without a task id are passed over", project, without)
    if bad:
        logger.error(
            "project %s: %d tasks are scheduled by default, not as their rows say", project, bad
        )
