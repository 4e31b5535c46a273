"""Pages of ACTIVE rows, and counting in steps, on every backend."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import pytest
from pyspider.database.base.taskdb import TaskDB

from pyspider_zk.databases.tables import with_fresh_tables
from pyspider_zk.tasks.database import TaskWrite
from pyspider_zk.tasks.pages import ActivePage
from pyspider_zk.tasks.sql import sqlite_count, sqlite_page
from tests.patches.test_patched_databases import TEXTS
from tests.patches.test_patched_servers import OLD, run
from tests.tasks.conftest import Opened, TaskBackend
from tests.tasks.test_contract import DONE, NEW, ODD

ACTIVE, SUCCESS = TaskDB.ACTIVE, TaskDB.SUCCESS


@pytest.fixture
def ours(backend: TaskBackend) -> Opened:
    """Return one of the databases that have pages."""
    return backend.ours


def is_end(page: ActivePage) -> bool:
    return not page.rows and page.last is None


def pages(ours: Opened, limit: int, project: str = "p1") -> Iterator[ActivePage]:
    page = ours.bulk.active_page(project, None, limit)
    yield page
    while page.last is not None:
        page = ours.bulk.active_page(project, page.last, limit)
        yield page


def rows(ours: Opened, limit: int) -> list[tuple[Any, Any]]:
    return [row for page in pages(ours, limit) for row in page.rows]


def ids(ours: Opened, limit: int) -> list[Any]:
    return [taskid for taskid, _ in rows(ours, limit)]


def counts(ours: Opened, limit: int) -> list[Mapping[int, int]]:
    """Return what each step counts, without states of which there are none."""
    count, last = ours.bulk.count_page("p1", None, limit)
    steps = [count]
    while last is not None:
        count, last = ours.bulk.count_page("p1", last, limit)
        steps.append(count)
    return [{state: number for state, number in step.items() if number} for step in steps]


def total(ours: Opened, limit: int) -> int:
    return sum(sum(step.values()) for step in counts(ours, limit))


def write(ours: Opened, taskids: Sequence[Any], columns: dict[str, Any] = NEW) -> None:
    ours.write(*(ours.new("p1", each, columns) for each in taskids))


def store(ours: Opened, taskid: str, columns: dict[str, Any]) -> None:
    """Store columns that nobody checks or encodes."""
    change = TaskWrite("p1", taskid, columns, is_new=False)
    ours.bulk.write_many([change], lambda: None)


# --- rows ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [1, 3, 9, 10, 100])
def test_each_active_row_comes_once_as_pyspider_reads_it(ours: Opened, limit: int) -> None:
    write(ours, [f"t{number}" for number in range(9)])
    write(ours, ["done 1", "t3", "t8"], DONE)
    write(ours, ["bare"], {"url": "u", "status": ACTIVE})
    found = rows(ours, limit)
    fields = ["taskid", "schedule"]
    expected = [tuple(row.values()) for row in ours.taskdb.load_tasks(ACTIVE, "p1", fields)]
    assert sorted(found, key=repr) == sorted(expected, key=repr)
    assert {each for each, _ in found} == {
        *(f"t{number}" for number in (0, 1, 2, 4, 5, 6, 7)),
        "bare",
    }


def test_those_come_first_that_were_written_first(ours: Opened) -> None:
    write(ours, ["c", "a"])
    write(ours, ["d", "b", "e"])
    write(ours, ["a"], {"status": ACTIVE})
    assert ids(ours, 100) == ["c", "d", "b", "e", "a"]


def test_a_time_that_is_none_comes_first(untyped: TaskBackend) -> None:
    write(untyped.ours, ["a", "b", "c"])
    untyped.ours.taskdb._execute("UPDATE taskdb_p1 SET updatetime = 'x' WHERE taskid = 'b'")
    assert ids(untyped.ours, 100) == ["b", "a", "c"]


def test_a_page_has_no_more_rows_than_asked_for(backend: TaskBackend) -> None:
    write(backend.ours, [f"t{number}" for number in range(7)])
    found = list(pages(backend.ours, 3))
    assert [len(page.rows) for page in found] == [3, 3, 1]
    assert [page.last is None for page in found] == [False, False, True]


def test_without_a_table_there_is_one_empty_page(ours: Opened) -> None:
    assert is_end(ours.bulk.active_page("nobody", None, 10))
    assert ours.bulk.count_page("nobody", None, 10) == ({}, None)


def test_without_active_rows_there_is_one_empty_page(ours: Opened) -> None:
    write(ours, ["t1"], DONE)
    assert is_end(ours.bulk.active_page("p1", None, 10))
    assert counts(ours, 10) == [{SUCCESS: 1}]


@pytest.mark.parametrize("limit", [1, 2, 1000])
def test_any_text_is_an_id_of_a_page(ours: Opened, limit: int) -> None:
    taskids = [*TEXTS, *ODD[2:], "A", "a", "a b", "x" * 255, "é" * 255]
    write(ours, taskids)
    assert sorted(ids(ours, limit)) == sorted(set(taskids))
    assert total(ours, limit) == len(set(taskids))


def test_a_number_is_an_id_of_a_page(backend: TaskBackend) -> None:
    write(backend.ours, [10, 9, -1])
    expected = {10, 9, -1} if backend.dialect == "sqlite" else {"10", "9", "-1"}
    assert set(ids(backend.ours, 1)) == expected
    assert total(backend.ours, 1) == 3


@pytest.mark.parametrize("limit", [1, 2, 1000])
def test_tables_of_before_have_pages(on_server: TaskBackend, limit: int) -> None:
    ours = on_server.ours
    run(ours.taskdb, OLD[ours.taskdb._connections.dialect].format("p1"))
    taskids = ["b", "Ab", "a", "C", "é", "%s", "漢字", "1", "10", "9"]
    write(ours, taskids)
    write(ours, ["done"], DONE)
    assert sorted(ids(ours, limit)) == sorted(taskids)
    assert total(ours, limit) == len(taskids) + 1


# --- what others wrote --------------------------------------------------------------------------


def test_a_schedule_that_cannot_be_read_is_empty(
    ours: Opened, caplog: pytest.LogCaptureFixture
) -> None:
    write(ours, [f"t{number}" for number in range(5)])
    for taskid, raw in {"t1": b"{no json", "t2": None, "t3": b"", "t4": b'"\xff'}.items():
        store(ours, taskid, {"schedule": raw})
    found = dict(rows(ours, 100))
    assert found == {"t0": NEW["schedule"], "t1": {}, "t2": {}, "t3": {}, "t4": {}}
    assert caplog.text.count("project p1: 2 tasks are scheduled by default") == 1


def test_a_schedule_of_another_type_is_empty(typeless: TaskBackend) -> None:
    ours = typeless.ours
    write(ours, ["number", "text", "blob", "t"])
    store(ours, "number", {"schedule": 5})
    store(ours, "text", {"schedule": '{"age": 1}'})
    store(ours, "blob", {"schedule": b'{"age": 2}'})
    found = dict(rows(ours, 100))
    assert found == {"number": {}, "text": {"age": 1}, "blob": {"age": 2}, "t": NEW["schedule"]}


@pytest.mark.parametrize("limit", [1, 100])
def test_rows_without_a_task_id_are_passed_over(
    ours: Opened, limit: int, caplog: pytest.LogCaptureFixture
) -> None:
    write(ours, ["", "t1", "t2"])
    assert ids(ours, limit) == ["t1", "t2"]
    assert caplog.text.count("project p1: 1 rows without a task id are passed over") == 1


@pytest.mark.parametrize("limit", [1, 2, 100])
def test_only_text_and_whole_numbers_are_ids(untyped: TaskBackend, limit: int) -> None:
    ours = untyped.ours
    write(ours, ["t1", b"x", None, 1.5, None, "t2", 3])
    assert sorted(ids(ours, limit), key=str) == [3, "t1", "t2"]


# --- meanwhile ----------------------------------------------------------------------------------


def test_between_two_pages_rows_change(backend: TaskBackend) -> None:
    ours, theirs = backend.ours, backend.theirs
    write(ours, [f"t{number}" for number in range(6)])
    write(ours, ["t1"], DONE)
    page = ours.bulk.active_page("p1", None, 2)
    assert [row[0] for row in page.rows] == ["t0", "t2"]
    write(theirs, ["t0", "t2", "t4"], DONE)
    write(theirs, ["t1", "t9"])
    rest = ours.bulk.active_page("p1", page.last, 10)
    assert [row[0] for row in rest.rows] == ["t3", "t5", "t9"]  # but not t1, which lies behind


def test_a_table_that_another_made_is_found(backend: TaskBackend) -> None:
    assert ids(backend.ours, 10) == []
    write(backend.theirs, ["t1"])
    backend.ours.bulk.look_again()
    assert ids(backend.ours, 10) == ["t1"]
    assert counts(backend.ours, 10) == [{ACTIVE: 1}]


def test_a_table_that_another_dropped_between_two_pages_has_no_more(backend: TaskBackend) -> None:
    ours, theirs = backend.ours, backend.theirs
    write(ours, ["t1", "t2", "t3"])
    page = ours.bulk.active_page("p1", None, 1)
    _, last = ours.bulk.count_page("p1", None, 1)
    theirs.bulk.drop(["p1"], lambda: None)
    again = partial(with_fresh_tables, ours.taskdb)
    assert is_end(again(lambda: ours.bulk.active_page("p1", page.last, 1)))
    counted, last = again(lambda: ours.bulk.count_page("p1", last, 1))
    assert (sum(counted.values()), last) == (0, None)


# --- counting -----------------------------------------------------------------------------------


def test_a_table_is_counted_in_steps(backend: TaskBackend) -> None:
    ours = backend.ours
    write(ours, [f"t{number}" for number in range(7)])
    write(ours, [f"t{number}" for number in (0, 2, 6)], DONE)
    assert counts(ours, 3) == [{ACTIVE: 3}, {ACTIVE: 1, SUCCESS: 2}, {SUCCESS: 1}]
    assert counts(ours, 4) == [{ACTIVE: 4}, {SUCCESS: 3}]
    assert counts(ours, 100) == [{ACTIVE: 4, SUCCESS: 3}]


FIELDS = ("taskid", "status", "track", "url")


def state_rows(ours: Opened, limit: int, project: str = "p1") -> list[dict[str, Any] | None]:
    """Return the rows of tasks that have succeeded, from pages of at most so many."""
    found: list[dict[str, Any] | None] = []
    last: Any = None
    while True:
        some, last = ours.bulk.state_page(project, SUCCESS, last, limit, FIELDS)
        assert len(some) <= limit
        found += some
        if last is None:
            return found


@pytest.mark.parametrize("limit", [1, 3, 7, 100])
def test_rows_in_a_state_come_once_as_pyspider_reads_them(ours: Opened, limit: int) -> None:
    write(ours, [f"t{number}" for number in range(9)])
    write(ours, [*(f"t{number}" for number in range(0, 9, 2)), "bare", *TEXTS], DONE)
    found = state_rows(ours, limit)
    known = ours.taskdb.load_tasks(SUCCESS, "p1", list(FIELDS))
    assert sorted(map(repr, found)) == sorted(map(repr, known))
    assert len(found) > 5
    assert state_rows(ours, limit, "nobody") == []


def test_a_row_in_a_state_that_cannot_be_read_is_none(ours: Opened) -> None:
    write(ours, ["a", "b"], DONE)
    store(ours, "a", {"track": b"{"})
    assert [row and row["taskid"] for row in state_rows(ours, 10)] == [None, "b"]


def test_steps_and_pages_have_the_same_positions(ours: Opened) -> None:
    taskids = [*TEXTS, *ODD[2:], "t1", "t2"]
    write(ours, taskids)
    write(ours, ["done"], DONE)
    for page in pages(ours, 4):
        rest = ours.bulk.active_page("p1", page.last, 1000).rows if page.last else ()
        last = (ACTIVE, page.last) if page.last else (SUCCESS, None)
        counted, _ = ours.bulk.count_page("p1", last, 1000)
        assert counted.get(ACTIVE, 0) == len(rest)


@pytest.mark.parametrize(
    "statement", [sqlite_page("taskdb_p1", ("taskid", "track")), sqlite_count("taskdb_p1")]
)
def test_sqlite_finds_a_page_by_its_index(untyped: TaskBackend, statement: str) -> None:
    write(untyped.ours, ["t1"])
    query = f"EXPLAIN QUERY PLAN {statement}"
    plan = str(untyped.ours.taskdb._execute(query, (ACTIVE, 5, 10)).fetchall())
    assert "USING" in plan
    assert "status_taskdb_p1_index (status=? AND rowid>?)" in plan
    assert "B-TREE" not in plan  # nothing is sorted


# --- what has ended -----------------------------------------------------------------------------


def test_those_that_ended_last_come_first(ours: Opened) -> None:
    write(ours, ["a", "b", "c", "d", "waiting"])
    for taskid, status, crawled in (("b", 3, 7.0), ("d", 2, 9.0), ("a", 2, 8.0), ("c", 4, 10.0)):
        write(ours, [taskid], {"status": status, "lastcrawltime": crawled})
    write(ours, ["never"], {"url": "u", "status": 2})
    assert list(ours.bulk.last_ended("p1", 10)) == ["d", "a", "b"]
    assert list(ours.bulk.last_ended("p1", 1)) == ["d"]
    assert list(ours.bulk.last_ended("nobody", 10)) == []
