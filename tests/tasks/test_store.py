"""A round sees its own writes at once; everybody else sees them together, or none of them."""

from collections.abc import Collection
from typing import Any

import pytest
from pyspider.database import connect_database

from pyspider_zk.databases.breaker import Breaker
from pyspider_zk.databases.guarded import Guarded
from pyspider_zk.errors import DatabaseAway, FenceClosed
from pyspider_zk.tasks.database import task_database
from pyspider_zk.tasks.store import TaskStore
from tests.support.world import World

FIELDS = ["taskid", "status", "schedule"]


@pytest.fixture
def tasks(world: World) -> TaskStore:
    inner = world.database("task")
    return TaskStore(Guarded(inner, Breaker("taskdb")), task_database(inner))


@pytest.fixture
def stored(world: World) -> Any:
    """Give a connection that sees only what was committed."""
    return connect_database(f"sqlite+taskdb:///{world.folder}/task.db")


def nothing(projects: Collection[str]) -> None:
    """Allow every commit."""


def alive() -> None:
    """Need no sign of life."""


def row(taskid: str, **columns: Any) -> dict[str, Any]:
    return {"taskid": taskid, "project": "p", "url": f"data:,{taskid}", "status": 1, **columns}


@pytest.mark.parametrize(
    "fields", [["taskid"], ["project", "taskid"], FIELDS, [*FIELDS, "project"], None]
)
def test_a_row_is_the_same_whether_it_was_read_ahead(
    tasks: TaskStore, stored: Any, fields: list[str] | None
) -> None:
    stored.insert("p", "a", row("a", schedule={"priority": 3}))
    seen = [tasks.get_task("p", each, fields) for each in ("a", "b")]
    tasks.read_ahead("p", ["a", "b"])
    assert [tasks.get_task("p", each, fields) for each in ("a", "b")] == seen
    assert seen[1] is None


def test_a_write_is_seen_at_once_and_by_others_after_the_commit(
    tasks: TaskStore, stored: Any
) -> None:
    tasks.insert("p", "a", row("a", schedule={"priority": 3}))
    tasks.update("p", "a", status=2)

    assert tasks.get_task("p", "a", FIELDS) == {
        "taskid": "a",
        "status": 2,
        "schedule": {"priority": 3},
    }
    assert stored.get_task("p", "a") is None
    assert tasks.commit(nothing, alive) == {}
    assert stored.get_task("p", "a", FIELDS) == tasks.get_task("p", "a", FIELDS)
    assert not tasks.projects_with_writes


@pytest.mark.parametrize("is_for_good", [True, False])
def test_what_was_known_of_a_dropped_project_is_forgotten(
    tasks: TaskStore, stored: Any, is_for_good: bool
) -> None:
    for project in ("p", "q"):
        tasks.insert(project, "a", {**row("a"), "project": project})
    tasks.commit(nothing, alive)
    for project in ("p", "q"):
        tasks.read_ahead(project, ["a"])
    tasks.insert("p", "b", row("b"))
    tasks.drop_all(["p"], nothing, is_for_good=is_for_good)

    assert ("p", "a") not in tasks._rows
    assert ("q", "a") in tasks._rows
    assert [tasks.get_task("p", each) for each in ("a", "b")] == [None, None]
    tasks.commit(nothing, alive)
    assert stored.get_task("p", "b") is None


def test_an_update_is_seen_over_the_row_that_it_changes(tasks: TaskStore) -> None:
    tasks.insert("p", "a", row("a", schedule={"priority": 3}, track={"x": 1}))
    tasks.commit(nothing, alive)
    tasks.update("p", "a", status=4)

    assert tasks.get_task("p", "a", [*FIELDS, "track"]) == {
        "taskid": "a",
        "status": 4,
        "schedule": {"priority": 3},
        "track": {"x": 1},
    }


def test_a_new_row_looks_as_the_database_will_show_it(tasks: TaskStore) -> None:
    tasks.insert("p", "a", row("a"))
    before = tasks.get_task("p", "a")
    tasks.commit(nothing, alive)
    after = tasks.get_task("p", "a")

    assert before is not None
    assert after is not None
    assert {**before, "updatetime": 0} == {**after, "updatetime": 0}


def test_what_is_changed_after_it_was_written_is_not_stored(tasks: TaskStore, stored: Any) -> None:
    schedule = {"priority": 3}
    tasks.insert("p", "a", row("a", schedule=schedule))
    schedule["priority"] = 9
    tasks.commit(nothing, alive)

    assert stored.get_task("p", "a")["schedule"] == {"priority": 3}


def test_rows_that_were_read_ahead_are_read_once(
    tasks: TaskStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for taskid in "abc":
        tasks.insert("p", taskid, row(taskid))
    tasks.commit(nothing, alive)
    tasks.read_ahead("p", ["a", "b", "none"])
    monkeypatch.delattr(type(tasks._bulk), "get_many")

    assert tasks.get_task("p", "a", FIELDS) == {"taskid": "a", "status": 1, "schedule": {}}
    assert tasks.get_task("p", "b", ["status"]) == {"status": 1}
    assert tasks.get_task("p", "none", FIELDS) is None
    with pytest.raises(AttributeError):
        tasks.get_task("p", "c", FIELDS)  # was not read ahead
    with pytest.raises(AttributeError):
        tasks.get_task("p", "a", ["track"])  # nor was this column


def test_rows_that_were_read_ahead_are_forgotten_with_the_commit(
    tasks: TaskStore, stored: Any
) -> None:
    tasks.read_ahead("p", ["a"])
    stored.insert("p", "a", row("a"))
    tasks.look_again()
    tasks.commit(nothing, alive)

    assert tasks.get_task("p", "a", FIELDS) is not None


def test_a_document_that_is_unreadable_counts_as_empty(tasks: TaskStore, world: World) -> None:
    tasks.insert("p", "a", row("a"))
    tasks.commit(nothing, alive)
    world.taskdb._execute("UPDATE taskdb_p SET schedule = '{'")
    tasks.read_ahead("p", ["a"])

    assert tasks.get_many("p", ["a"], FIELDS) == {"a": None}
    assert tasks.get_task("p", "a", FIELDS) == {"taskid": "a", "status": 1, "schedule": {}}


def test_a_commit_that_is_not_allowed_leaves_everything_to_the_next(
    tasks: TaskStore, stored: Any
) -> None:
    asked: list[Collection[str]] = []

    def refuse(projects: Collection[str]) -> None:
        asked.append(set(projects))
        raise FenceClosed("not ours")

    tasks.insert("p", "a", row("a"))
    tasks.insert("q", "b", row("b"))
    with pytest.raises(FenceClosed):
        tasks.commit(refuse, alive)

    assert asked == [{"p", "q"}]
    assert (stored.get_task("p", "a"), stored.get_task("q", "b")) == (None, None)
    tasks.commit(nothing, alive)
    assert stored.get_task("p", "a") is not None
    assert stored.get_task("q", "b") is not None


def test_a_database_that_is_away_gets_everything_later(
    tasks: TaskStore, stored: Any, world: World
) -> None:
    tasks.insert("p", "a", row("a"))
    tasks.commit(nothing, alive)
    tasks.insert("p", "b", row("b"))
    with world.tasks_locked(), pytest.raises(DatabaseAway):
        tasks.commit(nothing, alive)
    assert tasks.projects_with_writes

    tasks._database._breaker.answered()
    tasks.commit(nothing, alive)

    assert stored.get_task("p", "b") is not None


def test_a_row_that_is_refused_takes_no_other_with_it(tasks: TaskStore, world: World) -> None:
    tasks.insert("p", "a", row("a"))
    tasks.commit(nothing, alive)
    world.refuse_row("p", "bad")
    undone: list[str] = []
    for taskid in ["b", "bad", "c", "d"]:
        tasks.insert("p", taskid, row(taskid))
        tasks.on_refusal("p", taskid, lambda taskid=taskid: undone.append(taskid))

    refused = tasks.commit(nothing, alive)

    assert [*refused] == [("p", "bad")]
    assert "refused" in str(refused["p", "bad"])
    assert undone == ["bad"]
    assert set(world.statuses("p")) == {"a", "b", "c", "d"}
    assert not tasks.projects_with_writes


def test_a_single_row_that_was_undone_is_not_written_after_all(
    tasks: TaskStore, world: World
) -> None:
    tasks.insert("p", "a", row("a"))
    tasks.commit(nothing, alive)
    world.refuse_row("p", "bad")
    tasks.insert("p", "bad", row("bad"))
    tasks.on_refusal("p", "bad", world.accept_row)

    refused = tasks.commit(nothing, alive)

    assert [*refused] == [("p", "bad")]
    assert set(world.statuses("p")) == {"a"}


def test_what_is_discarded_is_not_written(tasks: TaskStore, stored: Any) -> None:
    tasks.insert("p", "a", row("a"))
    tasks.insert("q", "b", row("b"))
    tasks.discard("p".__eq__)
    tasks.commit(nothing, alive)

    assert stored.get_task("p", "a") is None
    assert stored.get_task("q", "b") is not None


@pytest.mark.parametrize("what", [{"fetch": {"x": object()}}, {"url": "\ud800"}])
def test_what_cannot_be_stored_is_refused_when_it_is_written(
    tasks: TaskStore, what: dict[str, Any]
) -> None:
    with pytest.raises((TypeError, ValueError)):
        tasks.insert("p", "a", row("a", **what))
    assert not tasks.projects_with_writes
