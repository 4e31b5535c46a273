"""Tasks that stand in the task database before a scheduler starts."""

import json
import sqlite3
import time
from collections.abc import Iterable
from typing import Any

from pyspider.database import connect_database

from tests.bench.databases import Urls, with_begin
from tests.bench.links import Links, Task

COLUMNS = ("taskid", "project", "url", "status", "schedule", "fetch", "process", "updatetime")
PARTS = ("schedule", "fetch", "process")


def store(urls: Urls, project: str, tasks: Iterable[Task]) -> None:
    """Write rows of a project, ACTIVE unless a task has another status."""
    taskdb = connect_database(urls["taskdb"])
    if type(taskdb).__module__.startswith("pyspider.database.sqlite"):
        taskdb._create_project(project)
        _insert_many(taskdb, project, tasks)
    else:
        with_begin(taskdb, lambda: _insert(taskdb, tasks))


def pending(links: Links, project: str, count: int) -> Iterable[Task]:
    """Yield new tasks that wait to be fetched."""
    return (links.new(project) for _ in range(count))


def done(links: Links, project: str, count: int) -> Iterable[Task]:
    """Yield tasks that were crawled just now."""
    now = time.time()
    return (links.new(project) | {"status": 2, "lastcrawltime": now} for _ in range(count))


def _insert(taskdb: Any, tasks: Iterable[Task]) -> None:
    for task in tasks:
        taskdb.insert(task["project"], task["taskid"], {"status": taskdb.ACTIVE, **task})


def _insert_many(taskdb: Any, project: str, tasks: Iterable[Task]) -> None:
    """Write rows in one statement: there may be millions."""
    now = time.time()
    columns = (*COLUMNS, "lastcrawltime")
    marks = ",".join("?" * len(columns))
    with sqlite3.connect(taskdb.path) as connection:
        connection.executemany(
            f"INSERT INTO taskdb_{project} ({','.join(columns)}) VALUES ({marks})",  # noqa: S608
            ([_value(taskdb, task, column, now) for column in columns] for task in tasks),
        )
    connection.close()


def _value(taskdb: Any, task: Task, column: str, now: float) -> object:
    if column in PARTS:
        return json.dumps(task[column])
    return task.get(column, {"status": taskdb.ACTIVE, "updatetime": now}.get(column))
