"""The contract of the bulk interface, on every backend; a second connection looks on."""

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
from pyspider.database.sqlite import taskdb as sqlite_taskdb
from sqlalchemy import Engine, event
from sqlalchemy.exc import DataError, SQLAlchemyError

from pyspider_zk.databases.breaker import Breaker
from pyspider_zk.databases.guarded import Guarded
from pyspider_zk.errors import ConfigError, DatabaseAway
from pyspider_zk.tasks.database import TaskWrite, task_database
from pyspider_zk.tasks.store import TaskStore
from tests.patches.test_patched_databases import PROJECTS, TASK, TEXTS, in_threads, without_times
from tests.patches.test_patched_servers import OLD, run
from tests.tasks.conftest import Opened, TaskBackend

NEW = {name: value for name, value in TASK.items() if name != "track"}
DONE = {"url": "http://example.org/é", "status": 2, "track": {"save": "é"}, "lastcrawltime": 5}
ODD = ["", " ", "%s", "%(a)s", "VALUES (%s)", "a'b", 'a"b', "a\\", "a`b", ":x", "?", "{}", "[1]"]
ODD += ["NULL", "a,b", "\\x41", '\\"', "a\nb"]
FIELDS = ["taskid", "status", "schedule", "track"]


class Closed(Exception):
    """The fence does not permit it."""


def close() -> None:
    raise Closed


@contextmanager
def taken_from(engine: Engine) -> Iterator[list[object]]:
    """Give the connections that are taken from an engine's pool while the block runs."""
    taken: list[object] = []

    def note(connection: object, *_: object) -> None:
        taken.append(connection)

    event.listen(engine, "checkout", note)
    try:
        yield taken
    finally:
        event.remove(engine, "checkout", note)


# --- rows ---------------------------------------------------------------------------------------


def test_rows_are_stored_as_pyspider_stores_them(ours: Opened) -> None:
    ours.taskdb.insert("p1", "t1", NEW)
    ours.taskdb.insert("p1", "t2", {**NEW, "taskid": "t2"})
    ours.taskdb.update("p1", "t2", DONE)
    pyspiders = ours.raw("p1")
    ours.taskdb.drop("p1")
    ours.write(ours.new("p1", "t1", NEW), ours.new("p1", "t2", {**NEW, "taskid": "t2"}))
    ours.write(ours.changed("p1", "t2", DONE))
    assert ours.raw("p1") == pyspiders
    assert isinstance(ours.taskdb.get_task("p1", "t1")["updatetime"], float)


def test_nothing_is_written_by_no_writes(ours: Opened) -> None:
    ours.write()
    ours.taskdb._list_project()
    assert not ours.taskdb.projects


def test_an_insert_of_a_task_that_is_there_overwrites_its_columns(ours: Opened) -> None:
    ours.taskdb.insert("p1", "t1", NEW)
    ours.taskdb.update("p1", "t1", updatetime=0)
    before = ours.taskdb.get_task("p1", "t1")["updatetime"]
    ours.write(ours.new("p1", "t1", DONE), ours.new("p1", "t2", DONE))
    found = ours.taskdb.get_task("p1", "t1")
    assert found["updatetime"] >= before
    assert without_times(found) == {**TASK, **DONE}
    assert ours.taskdb.status_count("p1") == {2: 2}


def test_an_update_changes_its_columns_only_and_makes_no_row(ours: Opened) -> None:
    ours.write(ours.new("p1", "t1", NEW))
    ours.write(ours.changed("p1", "t1", DONE), ours.changed("p1", "t2", DONE))
    assert without_times(ours.taskdb.get_task("p1", "t1")) == {**TASK, **DONE}
    assert ours.taskdb.get_task("p1", "t2") is None


def test_writes_of_one_task_are_applied_in_order(ours: Opened) -> None:
    def of(taskid: str) -> tuple[TaskWrite, TaskWrite]:
        return (
            ours.new("p1", taskid, {"url": "new", "status": 1}),
            ours.changed("p1", taskid, {"url": "changed", "lastcrawltime": 5}),
        )

    both = of("t1")
    ours.write(*both, *reversed(of("t2")), *of("t3"), *of("t3"), *reversed(of("t3")))
    rows = ours.bulk.get_many("p1", ["t1", "t2", "t3"], ["url", "status", "lastcrawltime"])
    assert rows == {
        "t1": {"url": "changed", "status": 1, "lastcrawltime": 5},
        "t2": {"url": "new", "status": 1, "lastcrawltime": None},
        "t3": {"url": "new", "status": 1, "lastcrawltime": 5},
    }


def test_an_update_in_a_project_without_table_is_an_error_as_in_pyspider(ours: Opened) -> None:
    with pytest.raises(LookupError):
        ours.write(ours.changed("p1", "t1", DONE), ours.new("p1", "t1", NEW))
    assert ours.bulk.get_many("p1", ["t1"], FIELDS) == {}
    ours.write(ours.new("p1", "t1", NEW), ours.changed("p1", "t2", DONE))
    assert list(ours.bulk.get_many("p1", ["t1", "t2"], FIELDS)) == ["t1"]


def test_pyspider_goes_on_with_a_table_that_was_made(backend: TaskBackend) -> None:
    backend.ours.write(backend.ours.new("p1", "t1", NEW))
    assert set(backend.ours.taskdb.projects) == {"p1"}
    backend.ours.taskdb.update("p1", "t1", DONE)
    assert [row["taskid"] for row in backend.ours.taskdb.load_tasks(2)] == ["t1"]
    assert backend.theirs.taskdb.status_count("p1") == {2: 1}


# --- reading ------------------------------------------------------------------------------------


@pytest.mark.parametrize("fields", [FIELDS, ("url",), ["status", "taskid", "updatetime"], []])
def test_many_rows_are_those_that_pyspider_gets_one_by_one(ours: Opened, fields: list[str]) -> None:
    ours.write(*(ours.new("p1", f"t{number}", NEW) for number in range(5)))
    ours.write(ours.changed("p1", "t1", DONE))
    ours.taskdb.insert("p1", "bare", {"url": "u"})
    asked = ["t1", "bare", "nobody", "t4", "t1"]
    expected = {each: ours.taskdb.get_task("p1", each, fields) for each in asked}
    del expected["nobody"]
    assert ours.bulk.get_many("p1", asked, fields) == expected


def test_no_table_and_no_ids_are_no_rows(ours: Opened) -> None:
    assert ours.bulk.get_many("nobody", ["t1"], FIELDS) == {}
    ours.write(ours.new("p1", "t1", NEW))
    assert ours.bulk.get_many("p1", [], FIELDS) == {}


def test_a_row_that_cannot_be_read_is_none(ours: Opened) -> None:
    ours.write(*(ours.new("p1", f"t{number}", NEW) for number in range(3)))
    bad = TaskWrite("p1", "t1", {"schedule": b"{no json"}, is_new=False)
    ours.bulk.write_many([bad], lambda: None)
    with pytest.raises(ValueError, match="Expecting"):
        ours.taskdb.get_task("p1", "t1", FIELDS)
    rows = ours.bulk.get_many("p1", ["t0", "t1", "t2"], FIELDS)
    assert [rows["t0"] is None, rows["t1"], rows["t2"] is None] == [False, None, False]
    assert ours.bulk.get_many("p1", ["t1"], ["status"]) == {"t1": {"status": 1}}


def test_ten_thousand_tasks_are_written_and_read(backend: TaskBackend) -> None:
    ours = backend.ours
    ids = [f"t{number}" for number in range(10_000)]
    columns = ours.bulk.encoded({"url": "u", "status": 1})
    ours.write(*(TaskWrite("p1", each, columns, True) for each in ids))
    assert ours.taskdb.status_count("p1") == {1: 10_000}
    rows = ours.bulk.get_many("p1", [*ids, *(f"no {each}" for each in ids)], ["taskid"])
    assert rows == {each: {"taskid": each} for each in ids}


# --- odd names and sizes ------------------------------------------------------------------------


def test_any_text_is_an_id_and_a_url(ours: Opened) -> None:
    ids = [*TEXTS, *ODD[2:], "x" * 255, "é" * 255]
    ours.write(*(ours.new("p1", each, {"url": each, "fetch": {each: each}}) for each in ids))
    ours.write(*(ours.changed("p1", each, {"track": {each: [each]}}) for each in ids))
    fields = ["taskid", "url", "fetch", "track"]
    rows = ours.bulk.get_many("p1", ids, fields)
    assert rows == {each: ours.taskdb.get_task("p1", each, fields) for each in ids}
    found = {each: row and (row["url"], row["track"]) for each, row in rows.items()}
    assert found == {each: (each, {each: [each]}) for each in ids}


def test_ids_that_a_database_takes_for_the_same_are_one(ours: Opened) -> None:
    ids = ["", " ", "a", "a ", "a  ", "b "]
    ours.write(ours.new("p1", "a ", NEW), ours.changed("p1", "a", DONE), ours.new("p1", "", NEW))
    ours.write(*(ours.changed("p1", each, {"url": repr(each)}) for each in ids))
    fields = ["taskid", "url", "status"]
    expected = {each: ours.taskdb.get_task("p1", each, fields) for each in ids}
    assert ours.bulk.get_many("p1", ids, fields) == {
        each: row for each, row in expected.items() if row
    }
    assert expected["a "] == {
        "taskid": "a ",
        "url": {True: "'a  '", False: "'a '"}[expected["a"] is not None],
        "status": 1 if expected["a"] is None else 2,
    }


def test_a_number_is_an_id(backend: TaskBackend) -> None:
    ours = backend.ours
    six: Any = 6
    seven: Any = 7
    ours.taskdb.insert("p1", six, NEW)
    ours.write(ours.new("p1", seven, NEW), ours.new("p1", "x", NEW))
    ours.write(ours.changed("p1", seven, DONE))
    rows = ours.bulk.get_many("p1", [six, seven], ["taskid", "status"])
    stored = (six, seven) if backend.dialect == "sqlite" else ("6", "7")
    assert rows == {
        six: {"taskid": stored[0], "status": 1},
        seven: {"taskid": stored[1], "status": 2},
    }
    assert ours.taskdb.get_task("p1", stored[1], ["status"]) == {"status": 2}


@pytest.mark.parametrize("taskid", [5, -7, 2**63 - 1, "5", "t ", "t"])
def test_a_row_is_found_by_the_id_that_was_given(ours: Opened, taskid: Any) -> None:
    ours.write(ours.new("p1", taskid, NEW))
    found = ours.bulk.get_many("p1", [taskid, str(taskid), "t ", "t"], ["status"])
    assert found[taskid] == {"status": 1}


def test_any_name_is_a_project(ours: Opened) -> None:
    for project in PROJECTS:
        if project == "P":  # in sqlite, tables that differ in case only are one
            continue
        ours.write(ours.new(project, "t1", NEW), ours.changed(project, "t1", DONE))
        assert ours.taskdb.status_count(project) == {2: 1}
        assert ours.bulk.get_many(project, ["t1"], ["status"]) == {"t1": {"status": 2}}


def test_projects_that_differ_in_case_only_are_two_or_refused(ours: Opened) -> None:
    ours.write(ours.new("p", "t1", NEW))
    try:
        ours.write(ours.new("P", "t1", DONE))
    except Exception:
        assert ours.bulk.get_many("P", ["t1"], ["status"]) == {}
    else:
        assert ours.bulk.get_many("P", ["t1"], ["status"]) == {"t1": {"status": 2}}
    assert ours.bulk.get_many("p", ["t1"], ["status"]) == {"t1": {"status": 1}}


def test_large_tasks_are_not_cut(ours: Opened) -> None:
    large = {"url": "http://a/" + "é" * 700_000, "fetch": {"data": "'\\%s" * 200_000}}
    ids = [f"t{number}" for number in range(6)]
    ours.write(*(ours.new("p1", each, large) for each in ids))
    ours.write(*(ours.changed("p1", each, {**large, "status": 2}) for each in ids))
    assert ours.bulk.get_many("p1", ids, ["url", "fetch"]) == dict.fromkeys(ids, large)


# --- all or nothing -----------------------------------------------------------------------------


def seen_by(their: Opened, projects: list[str]) -> list[dict[int, int]]:
    """Return how many tasks of each state another sees, who looks from a thread of its own."""
    seen: list[dict[int, int]] = []
    look = threading.Thread(target=lambda: seen.extend(map(their.taskdb.status_count, projects)))
    look.start()
    look.join()
    return seen


def test_another_sees_all_or_nothing(backend: TaskBackend) -> None:
    ours, theirs = backend.ours, backend.theirs
    ours.write(*(ours.new("p1", f"t{number}", NEW) for number in range(3)))
    while_open: list[dict[int, int]] = []
    changes = [ours.changed("p1", "t1", DONE), ours.changed("p1", "t2", DONE)]
    both = [*changes, ours.new("p1", "t4", NEW), ours.new("p2", "t1", NEW)]
    ours.bulk.write_many(both, lambda: while_open.extend(seen_by(theirs, ["p1", "p2"])))
    assert while_open == [{1: 3}, {}]
    assert seen_by(theirs, ["p1", "p2"]) == [{1: 2, 2: 2}, {1: 1}]


def test_what_before_commit_raises_undoes_everything(backend: TaskBackend) -> None:
    ours, theirs = backend.ours, backend.theirs
    ours.write(ours.new("p1", "t1", NEW))
    before = ours.raw("p1")
    writes = [ours.changed("p1", "t1", DONE), ours.new("p1", "t2", NEW), ours.new("p2", "t", NEW)]
    with pytest.raises(Closed):
        ours.bulk.write_many(writes, close)
    assert ours.raw("p1") == before
    assert theirs.taskdb.status_count("p2") == {}
    ours.write(*writes)
    assert seen_by(theirs, ["p1", "p2"]) == [{1: 1, 2: 1}, {1: 1}]


def test_a_table_is_undone_with_the_rows(transactional_tables: TaskBackend) -> None:
    ours, theirs = transactional_tables.ours, transactional_tables.theirs
    with pytest.raises(Closed):
        ours.bulk.write_many([ours.new("p1", "t1", NEW)], close)
    for each in (ours, theirs):
        assert not each.taskdb.projects
        each.taskdb._list_project()
        assert not each.taskdb.projects


REFUSED: dict[str, tuple[str, str, dict[str, Any]]] = {
    "half of a character": ("p1", "t5", {"url": "\ud800"}),
    "no column": ("p1", "t5", {"nosuch": 1}),
    "no number of a database": ("p1", "t5", {"status": 2**70}),
    "no name of a table": ("a b", "t5", {"status": 1}),
}
REFUSALS = (
    SQLAlchemyError,
    sqlite3.Error,
    AssertionError,
    LookupError,
    OverflowError,
    ValueError,
)


@pytest.mark.parametrize("is_new", [True, False])
@pytest.mark.parametrize("what", REFUSED)
def test_what_is_refused_in_the_midst_undoes_everything(
    backend: TaskBackend, what: str, is_new: bool
) -> None:
    ours, theirs = backend.ours, backend.theirs
    ours.write(*(ours.new("p1", f"t{number}", NEW) for number in range(10)))
    before = ours.raw("p1")
    writes = [ours.changed("p1", f"t{number}", DONE) for number in range(10)]
    writes[5] = TaskWrite(*REFUSED[what], is_new)
    committed: list[bool] = []
    with pytest.raises(REFUSALS):
        ours.bulk.write_many(writes, lambda: committed.append(True))
    assert (ours.raw("p1"), committed) == (before, [])
    ours.write(*writes[:5], *writes[6:])
    assert seen_by(theirs, ["p1"]) == [{1: 1, 2: 9}]


# --- others -------------------------------------------------------------------------------------


def test_a_lock_of_another_is_waited_for_no_longer_than_ever(locking: TaskBackend) -> None:
    ours, theirs = locking.ours, locking.theirs
    ours.write(ours.new("p1", "t1", NEW))
    if hasattr(ours.taskdb, "patience"):
        ours.taskdb.patience = 0.05

    def ours_waits() -> None:
        with pytest.raises(Exception, match=r"(?i)lock") as refused:
            ours.write(ours.new("p2", "t1", NEW), ours.changed("p1", "t1", DONE))
        assert type(refused.value).__name__ in ("OperationalError", "DatabaseError")

    theirs.bulk.write_many([theirs.changed("p1", "t1", {"url": "theirs"})], ours_waits)
    assert seen_by(theirs, ["p1", "p2"]) == [{1: 1}, {}]
    ours.write(ours.changed("p1", "t1", DONE))
    assert seen_by(theirs, ["p1"]) == [{2: 1}]


@pytest.mark.parametrize("is_new", [True, False])
def test_what_a_suspended_owner_has_locked_is_kept_and_not_refused(
    on_server: TaskBackend, is_new: bool
) -> None:
    ours, theirs = on_server.ours, on_server.theirs
    ours.write(*(ours.new("p1", each, NEW) for each in ("first", "other")))
    theirs.taskdb._list_project()
    tasks = TaskStore(Guarded(ours.taskdb, Breaker("taskdb")), ours.bulk)
    locked = "new" if is_new else "first"
    undone: list[str] = []
    for taskid in (locked, "other"):
        (tasks.insert if is_new else tasks.update)("p1", taskid, DONE)
        tasks.on_refusal("p1", taskid, partial(undone.append, taskid))

    def ours_waits() -> None:
        with pytest.raises(DatabaseAway):
            tasks.commit(lambda _: None, lambda: None)

    change = theirs.new if is_new else theirs.changed
    theirs.bulk.write_many([change("p1", locked, NEW)], ours_waits)
    assert undone == []
    assert all(tasks.has_written("p1", each) for each in (locked, "other"))


def test_a_table_that_another_dropped_is_made_again_by_the_second_try(backend: TaskBackend) -> None:
    ours, theirs = backend.ours, backend.theirs
    ours.write(ours.new("p1", "t1", NEW))
    theirs.taskdb._list_project()
    theirs.taskdb.drop("p1")
    with pytest.raises(Exception, match=r"no such table|exist"):
        ours.write(ours.new("p1", "t2", NEW))
    ours.write(ours.new("p1", "t2", NEW))
    assert list(ours.bulk.get_many("p1", ["t1", "t2"], FIELDS)) == ["t2"]


def test_projects_are_dropped_together_with_those_that_others_made(backend: TaskBackend) -> None:
    ours, theirs = backend.ours, backend.theirs
    for project in ("p1", "kept"):
        ours.write(ours.new(project, "t1", NEW))
    theirs.write(theirs.new("p2", "t1", NEW))

    ours.bulk.drop(["p1", "p2", "nobody"], lambda: None)

    theirs.taskdb._list_project()
    assert set(ours.taskdb.projects) == set(theirs.taskdb.projects) == {"kept"}


@pytest.mark.parametrize("is_for_good", [True, False])
def test_dropped_projects_begin_anew(backend: TaskBackend, is_for_good: bool) -> None:
    ours, theirs = backend.ours, backend.theirs
    for project in ("p1", "p2", "kept"):
        ours.write(ours.new(project, "t1", NEW))
    theirs.bulk.drop(["p2"], lambda: None)

    ours.bulk.drop(["p1", "p2"], lambda: None, is_for_good=is_for_good)
    ours.write(ours.new("p1", "t2", NEW), ours.new("p2", "t2", NEW))

    for project in ("p1", "p2"):
        assert set(ours.bulk.get_many(project, ["t1", "t2"], ["status"])) == {"t2"}
    assert set(ours.bulk.get_many("kept", ["t1"], ["status"])) == {"t1"}


@pytest.mark.parametrize("is_for_good", [True, False])
def test_nothing_is_dropped_behind_a_shut_fence(backend: TaskBackend, is_for_good: bool) -> None:
    ours = backend.ours
    for project in ("p1", "p2"):
        ours.write(ours.new(project, "t1", NEW))

    with pytest.raises(Closed):
        ours.bulk.drop(["p1", "p2"], close, is_for_good=is_for_good)

    for project in ("p1", "p2"):
        assert set(ours.bulk.get_many(project, ["t1"], ["status"])) == {"t1"}


def test_a_connection_that_is_lost_is_replaced_by_the_next_call(on_server: TaskBackend) -> None:
    server, ours = on_server.server, on_server.ours
    assert server
    ours.write(ours.new("p1", "t1", NEW))
    server.end_connections()
    ours.write(ours.changed("p1", "t1", DONE))
    server.end_connections()
    assert ours.bulk.get_many("p1", ["t1"], ["status"]) == {"t1": {"status": 2}}
    with pytest.raises(Exception, match=r"(?i)connection|gone|terminat") as lost:
        ours.bulk.write_many([ours.changed("p1", "t1", NEW)], server.end_connections)
    assert type(lost.value).__name__ in ("OperationalError", "InterfaceError")
    assert ours.bulk.get_many("p1", ["t1"], ["status"]) == {"t1": {"status": 2}}
    ours.write(ours.changed("p1", "t1", NEW))
    assert seen_by(ours, ["p1"]) == [{1: 1}]


def test_what_before_commit_raises_comes_first_when_the_server_is_gone(
    on_server: TaskBackend,
) -> None:
    server, ours = on_server.server, on_server.ours
    assert server
    ours.write(ours.new("p1", "t1", NEW))

    def lose_and_close() -> None:
        server.end_connections()
        close()

    with pytest.raises(Closed):
        ours.bulk.write_many([ours.changed("p1", "t1", DONE)], lose_and_close)
    assert ours.bulk.get_many("p1", ["t1"], ["status"]) == {"t1": {"status": 1}}


def test_tables_of_before_are_read_and_written(on_server: TaskBackend) -> None:
    ours = on_server.ours
    dialect = ours.taskdb._connections.dialect
    run(ours.taskdb, OLD[dialect].format("p1"))
    ids = [f"t{number}" for number in range(100)]
    ours.write(*(ours.new("p1", each, {**NEW, "taskid": each}) for each in ids))
    ours.write(*(ours.changed("p1", each, DONE) for each in ids))
    asked = ["t1", "T1", "t2 ", "T 2", "é"]
    single = {each: ours.taskdb.get_task("p1", each, FIELDS) for each in asked}
    rows = ours.bulk.get_many("p1", asked, FIELDS)
    assert rows == {each: row for each, row in single.items() if row}
    assert len(rows) == {"mysql": 3, "postgresql": 1}[dialect]  # there, cases are alike
    long = {"url": "http://a/" + "x" * 2000}
    with pytest.raises(DataError):
        ours.write(ours.changed("p1", "t1", NEW), ours.changed("p1", "t2", long))
    assert ours.taskdb.status_count("p1") == {2: 100}


def test_threads_share_a_bulk_interface(ours: Opened) -> None:
    def work(project: str) -> Callable[[], None]:
        def write_and_read() -> None:
            for number in range(5):
                ours.write(ours.new(project, f"t{number}", {**NEW, "url": project}))
                assert ours.bulk.get_many(project, [f"t{number}"], ["url"])

        return write_and_read

    if hasattr(ours.taskdb, "patience"):
        ours.taskdb.patience = 60.0
    projects = [f"p{number}" for number in range(4)]
    for project in projects:
        ours.taskdb.insert(project, "first", NEW)
    assert in_threads(*map(work, projects)) == []
    assert seen_by(ours, projects) == [{1: 6}] * 4


def test_a_database_that_cannot_be_fenced_is_refused() -> None:
    class OtherTaskDB(sqlite_taskdb.TaskDB):  # type: ignore[misc]
        """A task database that may change what pyspider's does."""

    for other in (OtherTaskDB(":memory:"), object()):
        with pytest.raises(ConfigError, match=f"a {type(other).__name__} cannot be used: use"):
            task_database(other)
