"""Tasks that stand in the task database before a scheduler starts."""

import json
import sqlite3
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from pyspider.database import connect_database

from pyspider_zk.tasks.database import TaskWrite, task_database
from tests.bench.databases import Urls
from tests.bench.links import Links, Task

AT_ONCE = 10_000  # rows of one transaction of a server
COLUMNS = ("taskid", "project", "url", "status", "schedule", "fetch", "process", "updatetime")
PARTS = ("schedule", "fetch", "process")


def store(urls: Urls, project: str, tasks: Iterable[Task]) -> None:
    """Write rows of a project, ACTIVE unless a task has another status."""
    taskdb = connect_database(urls["taskdb"])
    if type(taskdb).__module__.startswith("pyspider.database.sqlite"):
        taskdb._create_project(project)
        _insert_at_once(taskdb, project, tasks)
    else:
        _insert_in_pieces(taskdb, project, iter(tasks))


def pending(links: Links, project: str, count: int) -> Iterable[Task]:
    """Yield new tasks that wait to be fetched."""
    return (links.new(project) for _ in range(count))


def done(links: Links, project: str, count: int) -> Iterable[Task]:
    """Yield tasks that were crawled just now."""
    now = time.time()
    return (links.new(project) | {"status": 2, "lastcrawltime": now} for _ in range(count))


def _insert_in_pieces(taskdb: Any, project: str, tasks: Iterator[Task]) -> None:
    bulk = task_database(taskdb)
    while some := list(islice(tasks, AT_ONCE)):
        rows = [(task["taskid"], {"status": taskdb.ACTIVE, **task}) for task in some]
        writes = [TaskWrite(project, taskid, bulk.encoded(row), True) for taskid, row in rows]
        bulk.write_many(writes, lambda: None)


def _insert_at_once(taskdb: Any, project: str, tasks: Iterable[Task]) -> None:
    """Write rows in one statement: there may be millions, in a file whose pages it dirties once."""
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
