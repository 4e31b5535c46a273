"""A scheduler that wakes up late writes nothing, because its slots are sealed by the next owner."""

import sqlite3
from collections.abc import Callable
from typing import Any

import pytest

from pyspider_zk.errors import SealBroken
from pyspider_zk.projects.slots import slot_of
from pyspider_zk.scheduling import slot_seals
from pyspider_zk.tasks.seals import TABLE
from tests.support.sole_owner import SoleOwner
from tests.support.world import SLOTS, World, crawling, granted

Task = Callable[..., dict[str, Any]]


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let what could not be sealed be tried again in the next round."""
    monkeypatch.setattr(slot_seals, "PAUSE", 0.0)


def execute(world: World, statement: str, *values: object) -> list[Any]:
    return list(world.taskdb._execute(statement.format(f"`{TABLE}`", *values)))


def epochs(world: World) -> set[int]:
    return {epoch for (epoch,) in execute(world, "SELECT epoch FROM {}")}


def test_slots_are_sealed_before_their_rows_are_loaded(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.project("p")
    scheduler = world.scheduler(granted(3))
    found: list[set[int]] = []
    monkeypatch.setattr(scheduler.project_set, "load_slot", lambda *_: found.append(epochs(world)))
    scheduler.run_once()

    assert found == [{3}] * SLOTS
    assert execute(world, "SELECT COUNT(*) FROM {}") == [(SLOTS,)]


def test_a_scheduler_that_wakes_up_after_a_takeover_writes_nothing(
    world: World, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = crawling(world, granted(1))
    world.new(task("p", "a"))
    bulk, successor = late.engine.taskdb._bulk, world.scheduler(granted(2))
    write_many = bulk.write_many

    def taken_over_meanwhile(*of_late: Any) -> None:
        monkeypatch.setattr(bulk, "write_many", write_many)
        for _ in range(2):
            successor.run_once()
        world.taskdb._list_project()
        world.taskdb.update("p", "a", status=2)
        write_many(*of_late)

    monkeypatch.setattr(bulk, "write_many", taken_over_meanwhile)
    with pytest.raises(SealBroken, match="sealed at epoch 2"):
        late.run_once()
    assert world.statuses("p") == {"a": 2}

    late.run_once()
    assert slot_of("p", SLOTS) not in late.fence.held
    assert len(successor.fence.held) == SLOTS


def test_a_deletion_that_wakes_up_late_deletes_no_tasks(world: World, task: Task) -> None:
    late = crawling(world, granted(1))
    world.new(task("p", "a"))
    late.run_once()
    world.scheduler(granted(2)).run_once()

    with pytest.raises(SealBroken):
        late.deletion.delete("p")
    assert world.statuses("p") == {"a": 1}
    assert world.projectdb.get("p") is not None


@pytest.mark.parametrize("statement", ["DROP TABLE {}", "DELETE FROM {}", "UPDATE {} SET epoch=0"])
def test_slots_whose_seals_are_lost_are_taken_anew(
    world: World, task: Task, statement: str
) -> None:
    scheduler = crawling(world, granted(7))
    world.new(task("p", "a"))
    execute(world, statement)
    with pytest.raises(SealBroken):
        scheduler.run_once()
    assert world.waiting() == 1

    for _ in range(3):
        scheduler.run_once()
    assert epochs(world) >= {7}
    assert world.statuses("p") == {"a": 1}
    assert world.waiting() == 0


def test_a_seal_that_somebody_raised_costs_its_own_slot_only(
    world: World, task: Task, caplog: pytest.LogCaptureFixture
) -> None:
    world.project("q")
    scheduler = crawling(world, granted(7))
    slot = slot_of("p", SLOTS)
    execute(world, "UPDATE {} SET epoch = 99 WHERE slot = {}", slot)
    world.new(task("p", "a"), task("q", "b"))
    assert slot != slot_of("q", SLOTS)
    with pytest.raises(SealBroken):
        scheduler.run_once()
    for _ in range(3):
        scheduler.run_once()

    assert (world.statuses("p"), world.statuses("q")) == ({}, {"b": 1})
    (said,) = (each.getMessage() for each in caplog.records if each.levelname == "ERROR")
    assert f"slot {slot} is sealed at 99, ours is 7" in said
    assert "delete the rows of ''" in said
    execute(world, "DELETE FROM {} WHERE slot = {}", slot)
    for _ in range(2):
        scheduler.run_once()
    assert world.statuses("p") == {"a": 1}


def test_a_damaged_table_of_seals_is_named_and_loses_nothing(
    world: World, task: Task, caplog: pytest.LogCaptureFixture
) -> None:
    scheduler = crawling(world)
    world.new(task("p", "a"))
    execute(world, "DROP TABLE {}")
    execute(world, "CREATE TABLE {} (x)")
    with pytest.raises(SealBroken):
        scheduler.run_once()
    for _ in range(3):
        scheduler.run_once()

    assert slot_of("p", SLOTS) not in scheduler.fence.held
    assert world.waiting() == 1
    (said,) = (each.getMessage() for each in caplog.records if each.levelname == "ERROR")
    assert f"if the table {TABLE} is damaged, drop it" in said
    execute(world, "DROP TABLE {}")
    for _ in range(2):
        scheduler.run_once()
    assert world.statuses("p") == {"a": 1}


def test_what_could_not_be_sealed_is_not_tried_in_every_round(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slot_seals, "PAUSE", 1.0)
    crawling(world, granted(9))
    late = world.scheduler(granted(5))
    seals, now, tries = late.engine.databases.seals, [100.0], list[int]()
    monkeypatch.setattr(seals, "_clock", lambda: now[0])
    seal = seals._bulk.seal

    def count(asked: Any) -> Any:
        tries.append(len(asked.epochs))
        return seal(asked)

    monkeypatch.setattr(seals._bulk, "seal", count)
    for _ in range(3):
        late.run_once()
    assert tries == [SLOTS]
    late.fence.ownership.grant([2], 6)
    late.run_once()
    assert tries == [SLOTS, 1]
    now[0] += 1.0
    late.run_once()
    assert tries == [SLOTS, 1, SLOTS]


def test_a_lock_that_keeps_slots_from_being_sealed_is_an_outage(world: World, task: Task) -> None:
    crawling(world, granted(1))
    successor = world.scheduler(granted(2))
    lock = sqlite3.connect(world.folder / "task.db", isolation_level=None)
    lock.execute("BEGIN IMMEDIATE")
    successor.run_once()
    assert successor.fence.held == {}
    assert successor.engine.databases.away == ("taskdb",)
    lock.close()
    successor.engine.taskdb._database._breaker.answered()
    world.new(task("p", "a"))
    for _ in range(2):
        successor.run_once()
    assert world.statuses("p") == {"a": 1}


def test_a_slot_that_is_taken_anew_starts_as_after_a_death(world: World, task: Task) -> None:
    """The record that its former owner left was true when the slot was taken first."""
    owner = granted(1)
    before = crawling(world, owner)
    world.new(task("p", "a"))
    before.run_once()
    owner.ask_back(range(SLOTS))
    before.run_once()
    (sent,) = world.dispatched()
    owner = SoleOwner(SLOTS, ())
    scheduler = world.scheduler(owner)
    scheduler.run_once()
    owner.grant(range(SLOTS), 2)
    scheduler.run_once()
    assert scheduler.engine.projects["p"].task_queue.is_processing("a")
    world.finish(sent)
    scheduler.run_once()
    assert world.statuses("p") == {"a": 2}

    execute(world, "DELETE FROM {}")
    world.new(task("p", "b"))
    with pytest.raises(SealBroken):
        scheduler.run_once()
    scheduler.run_once()
    assert not scheduler.engine.projects["p"].task_queue.is_processing("a")


@pytest.mark.parametrize("statement", ["DELETE FROM {}", "UPDATE {} SET epoch = 3"])
def test_a_slot_whose_seal_broke_is_not_handed_over_as_complete(
    world: World, task: Task, statement: str
) -> None:
    owner = granted(2)
    scheduler = crawling(world, owner)
    world.new(task("p", "a"))
    scheduler.run_once()
    execute(world, statement)
    with pytest.raises(SealBroken):
        scheduler.deletion.delete("p")
    owner.ask_back(range(SLOTS))
    scheduler.run_once()
    assert owner.given_up == dict.fromkeys(range(SLOTS), 2)

    after = world.scheduler(granted(3))
    after.run_once()
    assert "p" in after.engine.inherited  # it was taken over as after a death
