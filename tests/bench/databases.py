"""Databases of a run: which there are, and whether pyspider's backend can use them here."""

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path

from pyspider.database import connect_database

from pyspider_zk.databases.sqlite import transaction
from pyspider_zk.local.folder import prepare_databases
from pyspider_zk.local.plan import sqlite_url

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


def postgresql(address: str) -> Fresh:
    """Return what names new databases of a server."""

    def fresh(folder: Path) -> Urls:
        base = f"postgres@{address}/{folder.name.replace('-', '_')}"
        return {kind: f"sqlalchemy+postgresql+{kind}://{base}_{kind}" for kind in KINDS}

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
