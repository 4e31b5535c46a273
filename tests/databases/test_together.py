"""Statements that take effect together, on a real sqlite file."""

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from pyspider.database import connect_database

from pyspider_zk.databases.breaker import Breaker
from pyspider_zk.databases.guarded import Guarded
from pyspider_zk.databases.tables import drop_tables
from pyspider_zk.errors import FenceClosed

ROW = {"status": "RUNNING", "script": "", "group": "", "comments": "", "rate": 1, "burst": 1}


def database(folder: Path, kind: str) -> Any:
    return connect_database(f"sqlite+{kind}db:///{folder}/{kind}.db")


@pytest.fixture
def projects(tmp_path: Path) -> Guarded:
    """Give a guarded project database with two projects."""
    made = database(tmp_path, "project")
    for name in ("p", "q"):
        made.insert(name, ROW)
    return Guarded(made, Breaker("projectdb"))


def statuses(folder: Path) -> dict[str, str]:
    return {row["name"]: row["status"] for row in database(folder, "project").get_all()}


def tasks(folder: Path, *projects: str) -> Guarded:
    made = database(folder, "task")
    for project in projects:
        made.insert(project, "t", {"status": 1})
    return Guarded(made, Breaker("taskdb"))


def fine() -> None:
    """Let it be committed."""


def shut() -> None:
    raise FenceClosed("the lease ended")


def test_nobody_sees_one_without_the_other(projects: Guarded, tmp_path: Path) -> None:
    def stop() -> str:
        projects.update("p", {"status": "STOP"})
        assert statuses(tmp_path) == {"p": "RUNNING", "q": "RUNNING"}
        projects.update("q", {"status": "STOP"})
        return "both"

    assert projects.together(stop, fine) == "both"
    assert statuses(tmp_path) == {"p": "STOP", "q": "STOP"}


@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()])
def test_what_fails_in_the_middle_changes_nothing(
    projects: Guarded, tmp_path: Path, error: BaseException
) -> None:
    def stop() -> None:
        projects.update("p", {"status": "STOP"})
        raise error

    with pytest.raises(type(error)):
        projects.together(stop, fine)

    assert statuses(tmp_path) == {"p": "RUNNING", "q": "RUNNING"}
    projects.update("q", {"status": "STOP"})  # a transaction of its own again
    assert statuses(tmp_path)["q"] == "STOP"


def test_a_fence_that_shuts_before_the_end_lets_nothing_through(
    projects: Guarded, tmp_path: Path
) -> None:
    with pytest.raises(FenceClosed):
        projects.together(lambda: projects.update("p", {"status": "STOP"}), shut)
    assert statuses(tmp_path)["p"] == "RUNNING"


def test_a_faulty_statement_does_not_count_as_an_outage(projects: Guarded) -> None:
    """The probe needs the lock that the transaction holds."""

    def spoil() -> None:
        projects.update("p", {"status": "STOP"})
        projects.update("p", {"no such column": 1})

    with pytest.raises(sqlite3.OperationalError, match="no such column"):
        projects.together(spoil, fine)
    assert projects.get("p")["status"] == "RUNNING"


def test_tables_go_together_with_those_that_others_made(tmp_path: Path) -> None:
    taskdb = tasks(tmp_path, "p", "kept")
    tasks(tmp_path, "q")

    drop_tables(taskdb, ["p", "q", "nobody"], fine)

    assert taskdb.projects == {"kept"}
    assert database(tmp_path, "task").projects == {"kept"}


@pytest.mark.parametrize("names", [["p", "q"], ["p"]])
def test_no_table_goes_behind_a_shut_fence(tmp_path: Path, names: list[str]) -> None:
    taskdb = tasks(tmp_path, "p", "q")
    with pytest.raises(FenceClosed):
        drop_tables(taskdb, names, shut)
    assert database(tmp_path, "task").get_task("p", "t") is not None
    assert taskdb.get_task("q", "t") is not None


@pytest.mark.parametrize("beside", [["q"], []])
def test_a_name_that_is_sql_touches_no_other_table(tmp_path: Path, beside: list[str]) -> None:
    taskdb = tasks(tmp_path, "p", "q")
    hostile = "p` -- "
    taskdb._execute("CREATE TABLE `taskdb_p`` -- ` (taskid)")

    drop_tables(taskdb, [*beside, hostile], fine)

    assert hostile not in database(tmp_path, "task").projects
    assert taskdb.get_task("p", "t") is not None


def test_a_database_without_such_transactions_is_changed_row_by_row(tmp_path: Path) -> None:
    url = f"sqlalchemy+sqlite+taskdb:///{tmp_path}/task.db"
    made = connect_database(url)
    for project in ("p", "q", "kept"):
        made.insert(project, "t", {"status": 1})
    taskdb = Guarded(made, Breaker("taskdb"))
    with pytest.raises(FenceClosed):
        drop_tables(taskdb, ["p", "q"], shut)
    assert connect_database(url).projects == {"p", "q", "kept"}

    drop_tables(taskdb, ["p", "q", "nobody"], fine)

    assert connect_database(url).projects == {"kept"}
