"""The groups in which a transaction carries out writes."""

import pytest

from pyspider_zk.tasks.writes import (
    MOST_BYTES,
    MOST_ROWS,
    STEP,
    RowGroup,
    TaskWrite,
    grouped,
    pieces,
    projects_to_make,
    statements,
)


def groups(*writes: TaskWrite) -> list[RowGroup]:
    return list(grouped(writes, 9.0, lambda taskid: taskid))


def test_writes_of_the_same_columns_are_one_group_sorted_by_id() -> None:
    writes = [TaskWrite("p", taskid, {"url": taskid}, True) for taskid in "cab"]
    (group,) = groups(*writes)
    assert group == RowGroup(
        "p",
        True,
        ("taskid", "project", "url", "updatetime"),
        [("a", "p", "a", 9 + STEP), ("b", "p", "b", 9 + 2 * STEP), ("c", "p", "c", 9.0)],
    )


def test_other_projects_and_columns_are_groups_of_their_own() -> None:
    found = groups(
        TaskWrite("p", "a", {"url": "1"}, False),
        TaskWrite("q", "a", {"url": "2"}, False),
        TaskWrite("p", "b", {"status": 3}, False),
    )
    assert [(group.project, group.names, group.rows) for group in found] == [
        ("p", ("taskid", "url", "updatetime"), [("a", "1", 9.0)]),
        ("q", ("taskid", "url", "updatetime"), [("a", "2", 9 + STEP)]),
        ("p", ("taskid", "status", "updatetime"), [("b", 3, 9 + 2 * STEP)]),
    ]


def test_what_follows_an_insert_is_part_of_it() -> None:
    first = TaskWrite("p", "a", {"url": "1", "status": 1}, True)
    (group,) = groups(first, TaskWrite("p", "a", {"status": 2}, False))
    assert group.is_new
    assert group.rows == [("a", "p", "1", 2, 9.0)]


def test_an_update_before_an_insert_comes_before_it() -> None:
    insert = TaskWrite("p", "a", {"status": 1}, True)
    update = TaskWrite("p", "a", {"url": "1"}, False)
    found = groups(update, insert, update)
    assert [(group.is_new, group.rows) for group in found] == [
        (False, [("a", "1", 9.0)]),
        (True, [("a", "p", 1, "1", 9.0)]),
    ]


def test_ids_that_are_compared_as_one_are_written_by_the_first() -> None:
    writes = [TaskWrite("p", taskid, {"url": taskid}, True) for taskid in ("a ", "a")]
    (group,) = grouped(writes, 9.0, str.strip)
    assert group.rows == [("a ", "p", "a", 9.0)]


def test_tables_are_made_for_inserts_only() -> None:
    def write(project: str, is_new: bool) -> TaskWrite:
        return TaskWrite(project, "a", {}, is_new)

    known = {"old"}
    writes = [write("old", False), write("new", True), write("new", False), write("old", True)]
    assert projects_to_make(writes, known) == ["new"]
    with pytest.raises(LookupError, match="'new' has no tasks"):
        projects_to_make([write("new", False), write("new", True)], known)


def test_pieces_lose_nothing() -> None:
    numbers = list(range(MOST_ROWS * 2 + 1))
    found = list(pieces(numbers))
    assert [len(piece) for piece in found] == [MOST_ROWS, MOST_ROWS, 1]
    assert [number for piece in found for number in piece] == numbers
    assert list(pieces([])) == []


def test_a_statement_has_no_more_rows_and_bytes_than_it_may() -> None:
    small = [(str(number), None, 1.5) for number in range(MOST_ROWS + 1)]
    assert [len(piece) for piece in statements(small)] == [MOST_ROWS, 1]
    half = b"x" * (MOST_BYTES // 2)
    large = [("a", half), ("", half), ("b", half), ("c", half * 3), ("d",)]
    assert [len(piece) for piece in statements(large)] == [1, 1, 1, 1, 1]
    assert [len(piece) for piece in statements([("", half), ("", half), ("e",)])] == [2, 1]
    assert list(statements([])) == []
