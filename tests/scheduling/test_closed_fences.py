"""Nothing is deleted, saved or forgotten behind a shut fence; a crash leaves nothing clean."""

from collections.abc import Callable
from typing import Any

import pytest

from pyspider_zk.errors import ClusterError, FenceClosed
from pyspider_zk.projects.slots import slot_of
from pyspider_zk.queues.names import QueueKind
from pyspider_zk.scheduling.member import ClusterScheduler
from pyspider_zk.scheduling.scheduler import SlotScheduler
from tests.support.sole_owner import SoleOwner
from tests.support.stand_ins import running
from tests.support.world import SLOTS, World, read_and_write, save_all

Task = Callable[..., dict[str, Any]]


@pytest.fixture
def owner() -> SoleOwner:
    """Give an owner of everything."""
    return SoleOwner(SLOTS)


@pytest.fixture
def scheduler(world: World, task: Task, owner: SoleOwner) -> SlotScheduler:
    """Give a scheduler with a project that has tasks and a result."""
    world.project("p")
    world.script_is_known("p")
    world.new(task("p"))
    world.database("result").save("p", "t", "http://site.example/t", {})
    made = world.scheduler(owner)
    made.run_once()
    return made


def tables(world: World, kind: str) -> set[str]:
    """Return the projects that have a table in a database."""
    database = world.database(kind)
    database._list_project()
    return set(database.projects)


def test_no_table_is_dropped_behind_a_shut_fence(
    world: World, scheduler: SlotScheduler, owner: SoleOwner
) -> None:
    owner.lose_lease()

    with pytest.raises(FenceClosed):
        scheduler.deletion.delete("p")

    assert tables(world, "task") == tables(world, "result") == {"p"}


def test_results_stay_if_the_fence_shuts_after_the_tasks_are_dropped(
    world: World,
    scheduler: SlotScheduler,
    owner: SoleOwner,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drop_all = scheduler.engine.taskdb.drop_all

    def drop_and_lose(*args: Any) -> None:
        drop_all(*args)
        owner.lose_lease()

    monkeypatch.setattr(scheduler.engine.taskdb, "drop_all", drop_and_lose)

    with pytest.raises(FenceClosed):
        scheduler.deletion.delete("p")

    assert tables(world, "result") == {"p"}
    assert world.projectdb.get("p", ["name"])


def test_no_clean_record_is_saved_behind_a_shut_fence(
    world: World, scheduler: SlotScheduler, owner: SoleOwner
) -> None:
    owner.ask_back(range(SLOTS))
    owner.lose_lease()

    scheduler.run_once()

    record = world.queues.records.load(slot_of("p", SLOTS))
    assert scheduler.fence.held == {}
    assert record is None or not record["clean"]


def test_no_record_of_a_minute_is_saved_behind_a_shut_fence(
    world: World, scheduler: SlotScheduler, owner: SoleOwner
) -> None:
    world.broker.records.clear()
    owner.lose_lease()

    save_all(scheduler)

    assert world.broker.records == {}


def test_what_was_selected_when_the_fence_shut_is_sent_when_it_opens(
    world: World,
    scheduler: SlotScheduler,
    owner: SoleOwner,
    task: Task,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scheduler.run_once()
    world.dispatched()
    world.new(task("p", "second"))
    read_and_write(scheduler)
    take = type(scheduler.engine.projects["p"].task_queue).take

    def take_and_lose(queue: Any, most: int) -> Any:
        taken = take(queue, most)
        owner.lose_lease()
        return taken

    monkeypatch.setattr(type(scheduler.engine.projects["p"].task_queue), "take", take_and_lose)
    scheduler.selection.select()
    monkeypatch.undo()
    assert world.dispatched() == []
    owner.renew_lease()
    scheduler.run_once()

    assert [each["taskid"] for each in world.dispatched()] == ["second"]


# -- whole members --------------------------------------------------------------------------------


class FailingMember(ClusterScheduler):
    """A member that owns everything, and whose rounds the test may make fail."""

    failure: Exception | None = None
    rounds = 0

    def run_once(self) -> None:
        self.rounds += 1
        if self.failure is not None:
            raise self.failure
        super().run_once()


@pytest.fixture
def member(world: World, task: Task, owner: SoleOwner) -> FailingMember:
    """Give a member that has not begun."""
    world.project("p")
    world.script_is_known("p")
    world.new(task("p"))
    return world.member(FailingMember, owner)


def test_a_slot_behind_a_shut_fence_keeps_no_other_from_its_commit(
    world: World, task: Task, owner: SoleOwner, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("p", "q"):
        world.project(name)
        world.script_is_known(name)
        world.new(task(name))
    scheduler = world.scheduler(owner)
    scheduler.run_once()
    world.new(task("p"), task("q", "second"))
    is_open, closed = scheduler.fence.is_slot_open, slot_of("p", SLOTS)
    scheduler.intake.read(10)
    scheduler.applier.apply(with_parked=True)
    monkeypatch.setattr(
        scheduler.fence, "is_slot_open", lambda slot: slot != closed and is_open(slot)
    )

    scheduler.applier.write()
    scheduler.applier.acknowledge()

    assert scheduler.applier.unfinished() == {closed}
    assert world.statuses("q").keys() == {"t", "second"}
    assert world.queues.slot_queues.lengths()[QueueKind.NEWTASK] == 1


def test_a_crash_leaves_no_clean_record(
    world: World, member: FailingMember, eventually: Callable[..., None]
) -> None:
    with running(member.run, raises=ClusterError):
        eventually(lambda: not world.fetcher.empty())
        member.failure = ClusterError("the coordinator failed")

    record = world.queues.records.load(slot_of("p", SLOTS))
    assert record is None or not record["clean"]


def test_an_orderly_end_leaves_a_clean_record(
    world: World, member: FailingMember, eventually: Callable[..., None]
) -> None:
    with running(member.run):
        eventually(lambda: not world.fetcher.empty())
        member.quit()

    record = world.queues.records.load(slot_of("p", SLOTS))
    assert record is not None
    assert record["clean"]


def test_no_number_of_failed_rounds_ends_a_member(
    world: World,
    member: FailingMember,
    eventually: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pyspider_zk.scheduling.member.FAILED_PAUSE", 0.01)
    member.failure = RuntimeError("whatever")
    with running(member.run):
        eventually(lambda: member.rounds > 2 * member.EXCEPTION_LIMIT)
        member.failure = None
        eventually(lambda: not world.fetcher.empty())
        member.quit()


def test_what_a_shut_fence_kept_from_deletion_is_deleted_when_it_opens(
    world: World, owner: SoleOwner
) -> None:
    names = [f"p{number}" for number in range(3)]
    for name in names:
        world.project(name, status="STOP", group="delete")
        world.projectdb._execute("UPDATE projectdb SET updatetime = 0")
    made = world.scheduler(owner)
    drop_all = made.engine.taskdb.drop_all
    owner_is_late = iter([True])

    def dropped(*args: Any, **kwargs: Any) -> None:
        if next(owner_is_late, False):
            owner.lose_lease()
        drop_all(*args, **kwargs)

    made.engine.taskdb.drop_all = dropped  # type: ignore[method-assign]
    made.run_once()
    assert len(made.engine.projects) == len(names)
    owner.renew_lease()
    made.run_once()

    assert list(world.projectdb.get_all(fields=["name"])) == []
