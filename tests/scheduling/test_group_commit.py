"""What a round writes takes effect together, or not at all, and only then is it acknowledged."""

from collections.abc import Callable, Collection
from typing import Any

import pytest
from pyspider.database import connect_database

from pyspider_zk.databases.breaker import Breaker
from pyspider_zk.databases.guarded import Guarded
from pyspider_zk.errors import DatabaseAway, FenceClosed
from pyspider_zk.scheduling.group_commit import GroupCommit
from pyspider_zk.tasks.database import task_database
from pyspider_zk.testing import SoleOwner
from tests.support.world import MOMENT, SLOTS, World, crawling, with_table

Task = Callable[..., dict[str, Any]]

FIELDS = ["taskid", "status", "schedule"]


@pytest.fixture
def tasks(world: World) -> GroupCommit:
    inner = world.database("task")
    return GroupCommit(Guarded(inner, Breaker("taskdb")), task_database(inner))


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


# -- the database as a round sees it ------------------------------------------------------------


@pytest.mark.parametrize(
    "fields", [["taskid"], ["project", "taskid"], FIELDS, [*FIELDS, "project"], None]
)
def test_a_row_is_the_same_whether_it_was_read_ahead(
    tasks: GroupCommit, stored: Any, fields: list[str] | None
) -> None:
    stored.insert("p", "a", row("a", schedule={"priority": 3}))
    seen = [tasks.get_task("p", each, fields) for each in ("a", "b")]
    tasks.read_ahead({"p": ["a", "b"]}, FIELDS)
    assert [tasks.get_task("p", each, fields) for each in ("a", "b")] == seen
    assert seen[1] is None


def test_a_write_is_seen_at_once_and_by_others_after_the_commit(
    tasks: GroupCommit, stored: Any
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
    tasks: GroupCommit, stored: Any, is_for_good: bool
) -> None:
    for project in ("p", "q"):
        tasks.insert(project, "a", {**row("a"), "project": project})
    tasks.commit(nothing, alive)
    tasks.read_ahead({"p": ["a"], "q": ["a"]}, FIELDS)
    tasks.insert("p", "b", row("b"))
    tasks.drop_all(["p"], nothing, is_for_good=is_for_good)

    assert tasks.row_ahead("p", "a") is None
    assert tasks.row_ahead("q", "a") is not None
    assert [tasks.get_task("p", each) for each in ("a", "b")] == [None, None]
    tasks.commit(nothing, alive)
    assert stored.get_task("p", "b") is None


def test_an_update_is_seen_over_the_row_that_it_changes(tasks: GroupCommit) -> None:
    tasks.insert("p", "a", row("a", schedule={"priority": 3}, track={"x": 1}))
    tasks.commit(nothing, alive)
    tasks.update("p", "a", status=4)

    assert tasks.get_task("p", "a", [*FIELDS, "track"]) == {
        "taskid": "a",
        "status": 4,
        "schedule": {"priority": 3},
        "track": {"x": 1},
    }


def test_a_new_row_looks_as_the_database_will_show_it(tasks: GroupCommit) -> None:
    tasks.insert("p", "a", row("a"))
    before = tasks.get_task("p", "a")
    tasks.commit(nothing, alive)
    after = tasks.get_task("p", "a")

    assert before is not None
    assert after is not None
    assert {**before, "updatetime": 0} == {**after, "updatetime": 0}


def test_what_is_changed_after_it_was_written_is_not_stored(
    tasks: GroupCommit, stored: Any
) -> None:
    schedule = {"priority": 3}
    tasks.insert("p", "a", row("a", schedule=schedule))
    schedule["priority"] = 9
    tasks.commit(nothing, alive)

    assert stored.get_task("p", "a")["schedule"] == {"priority": 3}


def test_rows_that_were_read_ahead_are_read_once(
    tasks: GroupCommit, monkeypatch: pytest.MonkeyPatch
) -> None:
    for taskid in "abc":
        tasks.insert("p", taskid, row(taskid))
    tasks.commit(nothing, alive)
    tasks.read_ahead({"p": ["a", "b", "none"]}, FIELDS)
    monkeypatch.delattr(tasks._database._inner.__class__, "get_task")

    assert tasks.get_task("p", "a", FIELDS) == {"taskid": "a", "status": 1, "schedule": {}}
    assert tasks.get_task("p", "b", ["status"]) == {"status": 1}
    assert tasks.get_task("p", "none", FIELDS) is None
    with pytest.raises(NotImplementedError):
        tasks.get_task("p", "c", FIELDS)  # was not read ahead
    with pytest.raises(NotImplementedError):
        tasks.get_task("p", "a", ["track"])  # nor was this column


def test_rows_that_were_read_ahead_are_forgotten_with_the_commit(
    tasks: GroupCommit, stored: Any
) -> None:
    tasks.read_ahead({"p": ["a"]}, FIELDS)
    stored.insert("p", "a", row("a"))
    tasks.commit(nothing, alive)

    assert tasks.get_task("p", "a", FIELDS) is not None


def test_a_row_that_cannot_be_read_ahead_fails_where_it_is_needed(
    tasks: GroupCommit, world: World
) -> None:
    tasks.insert("p", "a", row("a"))
    tasks.commit(nothing, alive)
    world.taskdb._execute("UPDATE taskdb_p SET schedule = '{'")
    tasks.read_ahead({"p": ["a"]}, FIELDS)

    with pytest.raises(ValueError, match="Expecting"):
        tasks.get_task("p", "a", FIELDS)


def test_a_commit_that_is_not_allowed_leaves_everything_to_the_next(
    tasks: GroupCommit, stored: Any
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
    tasks: GroupCommit, stored: Any, world: World
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


def test_a_row_that_is_refused_takes_no_other_with_it(tasks: GroupCommit, world: World) -> None:
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


def test_what_is_discarded_is_not_written(tasks: GroupCommit, stored: Any) -> None:
    tasks.insert("p", "a", row("a"))
    tasks.insert("q", "b", row("b"))
    tasks.discard("p".__eq__)
    tasks.commit(nothing, alive)

    assert stored.get_task("p", "a") is None
    assert stored.get_task("q", "b") is not None


@pytest.mark.parametrize("what", [{"fetch": {"x": object()}}, {"url": "\ud800"}])
def test_what_cannot_be_stored_is_refused_when_it_is_written(
    tasks: GroupCommit, what: dict[str, Any]
) -> None:
    with pytest.raises((TypeError, ValueError)):
        tasks.insert("p", "a", row("a", **what))
    assert not tasks.projects_with_writes


# -- the scheduler's rounds -----------------------------------------------------------------------


def test_a_round_is_one_transaction_of_all_its_projects(
    world: World, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = crawling(world)
    for name in ("q", "r"):
        world.project(name)
    world.new(*(task(project, f"t{n}") for n in range(20) for project in "pqr"))
    transactions: list[int] = []
    bulk = scheduler.fenced.taskdb._bulk
    write_many = bulk.write_many
    monkeypatch.setattr(
        bulk,
        "write_many",
        lambda writes, *more: (transactions.append(len(writes)), write_many(writes, *more))[1],
    )

    scheduler.run_once()

    assert transactions == [60]
    assert len(world.statuses("q")) == 20


def test_messages_are_acknowledged_only_once_their_rows_are_committed(
    world: World, task: Task
) -> None:
    scheduler = crawling(world)
    world.new(task("p", "first"))
    scheduler.run_once()
    world.finish(*(each for each in world.dispatched() if each["taskid"] == "first"))
    world.new(task("p", "second"))
    with world.tasks_locked(), pytest.raises(DatabaseAway):
        scheduler.applier.apply()

    assert world.waiting() == 2
    successor = world.scheduler()
    successor.run_once()
    assert world.statuses("p") == {"first": 2, "second": 1}
    assert world.waiting() == 0


def test_an_owner_goes_on_after_an_outage_where_it_stood(world: World, task: Task) -> None:
    scheduler = crawling(world)
    world.new(task("p", "a"), task("p", "b"))
    with world.tasks_locked(), pytest.raises(DatabaseAway):
        scheduler.applier.apply()
    scheduler.fenced.taskdb._database._breaker.answered()
    scheduler.run_once()

    assert world.statuses("p") == {"a": 1, "b": 1}
    assert world.waiting() == 0
    assert sorted(each["taskid"] for each in world.dispatched()) == ["a", "b"]


def test_nothing_is_written_if_the_lease_ends_while_the_transaction_is_open(
    world: World, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = SoleOwner(SLOTS)
    scheduler = crawling(world, owner)
    world.new(task("p", "a"))
    bulk = scheduler.fenced.taskdb._bulk
    write_many = bulk.write_many

    def stopped_before_commit(writes: Any, check: Callable[[], None], seals: Any) -> None:
        def late() -> None:
            owner.lose_lease()
            check()

        write_many(writes, late, seals)

    monkeypatch.setattr(bulk, "write_many", stopped_before_commit)
    with pytest.raises(FenceClosed):
        scheduler.run_once()

    assert world.statuses("p") == {}
    assert world.waiting() == 1


def test_a_new_task_whose_row_is_refused_is_not_sent_and_becomes_a_dead_letter(
    world: World, task: Task
) -> None:
    scheduler = with_table(world, task)
    world.refuse_row("p", "bad")
    world.new(*(task("p", each) for each in ("a", "bad", "b")))
    for _ in range(8):
        scheduler.run_once()

    assert set(world.statuses("p")) == {"first", "a", "b"}
    assert {each["taskid"] for each in world.dispatched()} == {"first", "a", "b"}
    assert "bad" not in scheduler.fenced.projects["p"].task_queue
    (letter,) = world.queues.slot_queues.dead_letters(9)
    assert "failed 3 times" in letter.reason
    assert world.waiting() == 0


def test_a_new_task_whose_row_was_refused_is_applied_once_it_is_accepted(
    world: World, task: Task
) -> None:
    scheduler = with_table(world, task)
    world.refuse_row("p", "late")
    world.new(task("p", "late"))
    scheduler.run_once()
    world.accept_row()
    for _ in range(3):
        scheduler.run_once()

    assert set(world.statuses("p")) == {"first", "late"}
    assert [each["taskid"] for each in world.dispatched()] == ["first", "late"]


def test_a_pack_whose_row_is_refused_is_applied_later(world: World, task: Task) -> None:
    scheduler = crawling(world)
    scheduler.intake._pauses = (MOMENT, MOMENT)
    world.new(task("p", "a"))
    scheduler.run_once()
    (sent,) = world.dispatched()
    world.refuse_row("p", "a")
    world.finish(sent)
    scheduler.run_once()
    assert scheduler.fenced.projects["p"].task_queue.is_processing("a")
    world.accept_row()
    for _ in range(3):
        scheduler.run_once()

    assert world.statuses("p") == {"a": 2}
    assert world.waiting() == 0
    assert len(scheduler.fenced.projects["p"].task_queue) == 0


def test_a_failed_fetch_whose_row_is_refused_waits_for_no_second_fetch(
    world: World, task: Task
) -> None:
    scheduler = crawling(world)
    scheduler.intake._pauses = (MOMENT, MOMENT)
    world.new(task("p", "a"))
    scheduler.run_once()
    (sent,) = world.dispatched()
    world.refuse_row("p", "a")
    world.finish(sent, ok=False)
    scheduler.run_once()

    tasks = scheduler.fenced.projects["p"].task_queue
    assert tasks.is_processing("a")
    assert "a" not in tasks.time_queue


def test_a_slot_that_moves_while_the_database_is_away_moves_as_after_a_death(
    world: World, task: Task
) -> None:
    scheduler = crawling(world)
    world.new(task("p", "a"))
    with world.tasks_locked():
        with pytest.raises(DatabaseAway):
            scheduler.applier.apply()
        scheduler.handover.give_up(dict(scheduler.fence.held), planned=True)

    records = world.queues.records.load_many(range(SLOTS))
    assert [record["clean"] for record in records.values() if record["clean"]] == []
    assert world.waiting() == 1
    assert not scheduler.fenced.taskdb.projects_with_writes
    successor = world.scheduler()
    for _ in range(2):
        successor.run_once()
    assert world.statuses("p") == {"a": 1}


def test_a_project_that_is_started_again_is_loaded_once_its_rows_are_written(
    world: World, task: Task
) -> None:
    scheduler = crawling(world)
    world.new(task("p", "a"))
    with world.tasks_locked():
        with pytest.raises(DatabaseAway):
            scheduler.applier.apply()
        for status in ("STOP", "RUNNING"):
            world.projectdb.update("p", {"status": status})
            scheduler.rows.look_soon()
            with pytest.raises(DatabaseAway):
                scheduler.run_once()
    scheduler.fenced.taskdb._database._breaker.answered()
    for _ in range(3):
        scheduler.run_once()

    assert world.statuses("p") == {"a": 1}
    assert [each["taskid"] for each in world.dispatched()] == ["a"]
