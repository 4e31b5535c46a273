"""Databases of a run: which there are, whether pyspider can use them, and what stands there."""

import json
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext
from itertools import islice
from pathlib import Path
from typing import Any

from pyspider.database import connect_database

from pyspider_zk.databases.sqlite import transaction
from pyspider_zk.local.folder import prepare_databases
from pyspider_zk.local.plan import sqlite_url
from pyspider_zk.tasks.database import TaskWrite, task_database
from tests.bench.feeds import Links, Task
from tests.support.database_servers import PostgresServer

KINDS = ("taskdb", "projectdb", "resultdb")

Urls = Mapping[str, str]
Fresh = Callable[[Path], Urls]
"""Returns where a run finds databases that are empty; the folder is the run's own."""


def sqlite(folder: Path) -> Urls:
    """Return three files in the folder."""
    return {kind: sqlite_url(kind, folder / f"{kind}.db") for kind in KINDS}


def with_log(folder: Path) -> Urls:
    """Return three files with a write-ahead log, as ``pyspider-zk up`` makes them."""
    prepare_databases(folder / f"{kind}.db" for kind in KINDS)
    return sqlite(folder)


WITH_LOG = "sqlite with a write-ahead log"
OTHERS: Mapping[str, Fresh] = {WITH_LOG: with_log}
"""Databases that only some scenarios ask for, by name."""


def in_memory(memory: Path) -> Fresh:
    """Return what makes three files each in a folder of a file system in memory.

    They cost no wait for the disk, so they show what the processor limits.
    """

    def fresh(folder: Path) -> Urls:
        own = memory / folder.name
        own.mkdir()
        return sqlite(own)

    return fresh


def postgresql(server: PostgresServer) -> Fresh:
    """Return what names new databases of a server."""

    def fresh(folder: Path) -> Urls:
        name = folder.name.replace("-", "_")
        return {kind: server.url(kind.removesuffix("db"), f"{name}_{kind}") for kind in KINDS}

    return fresh


def why_not(urls: Urls) -> str:
    """Return why pyspider's backend cannot use these databases; empty: it can."""
    try:
        for url in urls.values():
            connect_database(url)
        taskdb = connect_database(urls["taskdb"])
        taskdb.insert("probe", "1", {"taskid": "1", "project": "probe", "url": "", "status": 1})
        taskdb.drop("probe")
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def add_projects(urls: Urls, names: list[str], status: str = "RUNNING", script: str = "#") -> None:
    """Write projects that may be crawled without a limit."""
    projectdb = connect_database(urls["projectdb"])
    row = {"status": status, "script": script, "group": "", "comments": ""}
    is_file = type(projectdb).__module__.startswith("pyspider.database.sqlite")
    with transaction(projectdb) if is_file else nullcontext():  # else each row is a commit
        for name in names:
            projectdb.insert(name, {**row, "rate": 1e6, "burst": 1e6})


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
