"""Active rows of a project's tasks, including unreadable ones."""

import logging
from collections.abc import Iterable, Iterator
from typing import Any

logger = logging.getLogger(__name__)

UNREADABLE = (ValueError, TypeError, RecursionError)
"""Errors of invalid JSON in a row; no client library raises these for a lost database."""


def active_rows(taskdb: Any, project: str, fields: list[str]) -> Iterator[dict[str, Any]]:
    """Yield the ACTIVE rows of a project.

    If one is unreadable, all are read again one by one, so some come twice. Of the unreadable ones
    only the task id is known. A row without one is not a task: nobody could request it.
    """
    try:
        rows = taskdb.load_tasks(taskdb.ACTIVE, project, fields)
        yield from _with_id(project, rows)
    except UNREADABLE as error:
        logger.error("project %s has a task that cannot be read: %s", project, error)
        yield from _with_id(project, _one_by_one(taskdb, project, fields))


def _with_id(project: str, rows: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    without = 0
    for row in rows:
        if isinstance(row["taskid"], str | int) and row["taskid"] != "":
            yield row
        else:
            without += 1
    if without:
        logger.error("project %s: %d rows without a task id are passed over", project, without)


def _one_by_one(taskdb: Any, project: str, fields: list[str]) -> Iterator[dict[str, Any]]:
    bad = 0
    for row in taskdb.load_tasks(taskdb.ACTIVE, project, ["taskid"]):
        try:
            whole = taskdb.get_task(project, row["taskid"], fields)
        except UNREADABLE:
            bad += 1
            whole = {"taskid": row["taskid"]}
        if whole:
            yield whole
    logger.error(
        "project %s: %d tasks are scheduled by default, not as their rows say", project, bad
    )
