"""What a cluster inherits of the stock scheduler, and the faults that it must not."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from pyspider.database.sqlite.taskdb import TaskDB

from pyspider_zk.projects.slots import slot_of
from pyspider_zk.queues.api import Message
from pyspider_zk.queues.names import QueueKind
from pyspider_zk.scheduling.answers import LocalAnswers
from pyspider_zk.scheduling.engine import TaskEngine
from pyspider_zk.scheduling.intake import PAUSES
from pyspider_zk.tasks.sqlite import SqliteTasks
from tests.support.sole_owner import SoleOwner
from tests.support.world import MOMENT, SLOTS, World, crawling, save_all

Task = Callable[..., dict[str, Any]]
ACTIVE, SUCCESS = TaskDB.ACTIVE, TaskDB.SUCCESS


def test_fifty_projects_started_in_one_round_dispatch_fifty_on_start(
    world: World, task: Task
) -> None:
    names = [f"p{number}" for number in range(50)]
    scheduler = world.scheduler()
    for name in names:
        world.project(name)
        world.script_is_known(name)
        world.new(task(name, "on_start"))

    scheduler.run_once()
    scheduler.run_once()

    assert sorted(sent["project"] for sent in world.dispatched()) == sorted(names)


def test_one_url_in_two_projects_gives_two_rows(world: World, task: Task) -> None:
    scheduler = world.scheduler()
    for name in ("one", "two"):
        world.project(name)
        world.new(task(name, "same"))

    scheduler.run_once()

    assert world.statuses("one") == world.statuses("two") == {"same": ACTIVE}


def test_a_task_announced_twice_in_one_round_is_one_task(world: World, task: Task) -> None:
    scheduler = world.scheduler()
    world.project("p")
    world.script_is_known("p")
    world.new(task("p"), task("p"))

    scheduler.run_once()
    scheduler.run_once()

    assert len(world.dispatched()) == 1


def test_looking_at_active_tasks_leaves_those_waiting_to_be_sent_whole(
    world: World, task: Task
) -> None:
    scheduler = world.scheduler()
    world.fetcher.maxsize = 1  # pyspider's question fills it, so the task has to wait
    world.project("p")
    world.script_is_known("p")
    world.new(task("p"))
    scheduler.run_once()
    world.dispatched()
    world.fetcher.put({"taskid": "_on_get_info", "project": "other"})
    scheduler.engine.on_select_task(scheduler.engine.taskdb.get_task("p", "t"))

    LocalAnswers(scheduler).get_active_tasks("p", 10)
    world.fetcher.get_nowait()
    scheduler.run_once()

    assert world.dispatched()[0]["fetch"] == {"timeout": 9}


def test_two_schedulers_lose_none_of_a_thousand_status_packs(world: World, task: Task) -> None:
    names = [f"p{number}" for number in range(20)]
    half = set(range(SLOTS // 2))
    schedulers = [
        world.scheduler(SoleOwner(SLOTS, half)),
        world.scheduler(SoleOwner(SLOTS, set(range(SLOTS)) - half)),
    ]
    for name in names:
        world.project(name)
        world.script_is_known(name)
        world.new(*(task(name, f"t{number}") for number in range(50)))
    while sent := _rounds(world, schedulers):
        for each in sent:
            world.finish(each)

    assert [set(world.statuses(name).values()) for name in names] == [{SUCCESS}] * 20
    assert sum(len(world.statuses(name)) for name in names) == 1000


def test_a_deleted_project_is_in_no_memory_and_late_messages_do_not_bring_it_back(
    world: World, task: Task
) -> None:
    world.project("p")
    world.script_is_known("p")
    world.new(task("p"))
    scheduler = world.scheduler()
    scheduler.engine.DELETE_TIME = 0
    scheduler.run_once()
    world.projectdb.update("p", {"status": "STOP", "group": "delete"})
    scheduler.rows.look_soon()

    scheduler.run_once()
    world.new(task("p", "late"))
    world.finish(task("p"))
    scheduler.run_once()

    assert "p" not in scheduler.engine.projects
    assert world.projectdb.get("p") is None
    assert "p" not in world.database("task").projects
    assert LocalAnswers(scheduler).counter("all", "sum") == {}


def test_only_the_owner_has_a_project_in_memory(world: World) -> None:
    world.project("p")
    slot = slot_of("p", SLOTS)
    owner = world.scheduler(SoleOwner(SLOTS, {slot}))
    other = world.scheduler(SoleOwner(SLOTS, set(range(SLOTS)) - {slot}))

    owner.run_once()
    other.run_once()

    assert set(owner.engine.projects) == {"p"}
    assert other.engine.projects == {}


def test_a_row_removed_by_hand_leaves_no_ghost(world: World) -> None:
    world.project("p")
    scheduler = world.scheduler()
    scheduler.run_once()
    world.projectdb.drop("p")
    scheduler.rows.look_soon()

    scheduler.run_once()

    assert scheduler.engine.projects == {}


def test_a_change_written_by_a_host_whose_clock_is_behind_is_seen(world: World) -> None:
    world.project("p", status="TODO")
    scheduler = world.scheduler()
    scheduler.run_once()
    world.projectdb._update(where="name = ?", where_values=("p",), status="RUNNING", updatetime=1.0)
    scheduler.rows.look_soon()

    scheduler.run_once()

    assert scheduler.engine.projects["p"].active


def test_a_request_put_off_survives_a_change_of_owner(world: World, task: Task) -> None:
    world.project("p")
    world.script_is_known("p")
    world.new(task("p"))
    first = SoleOwner(SLOTS)
    before = world.scheduler(first)
    before.run_once()
    before.run_once()
    (sent,) = world.dispatched()
    world.new(task("p", "t", force_update=True))
    before.run_once()
    _move(first, before)

    after = world.scheduler(_next_owner())
    world.finish(sent)
    after.run_once()
    after.run_once()

    assert [each["taskid"] for each in world.dispatched()] == ["t"]


def test_a_pack_of_a_task_that_a_dead_owner_dispatched_is_accepted(
    world: World, task: Task
) -> None:
    world.project("p")
    world.script_is_known("p")
    world.new(task("p"))
    dead = world.scheduler()
    dead.run_once()
    dead.run_once()
    (sent,) = world.dispatched()

    after = world.scheduler(_next_owner())
    world.finish(sent)
    after.run_once()

    assert world.statuses("p") == {"t": SUCCESS}
    assert len(after.engine) == 0


def test_hooks_of_a_subclass_are_called_as_pyspider_calls_them(world: World, task: Task) -> None:
    called = []

    class Reporting(TaskEngine):
        def on_new_request(self, task: dict[str, Any]) -> Any:
            called.append(("new", task["taskid"]))
            return super().on_new_request(task)

        def on_task_failed(self, task: dict[str, Any]) -> Any:
            called.append(("failed", task["taskid"]))
            return super().on_task_failed(task)

    world.project("p")
    world.script_is_known("p")
    world.new(task("p"))
    scheduler = world.scheduler(engine_class=Reporting)
    scheduler.run_once()
    scheduler.run_once()
    (sent,) = world.dispatched()
    world.finish(sent, ok=False)
    scheduler.run_once()

    assert called == [("new", "t"), ("failed", "t")]


def test_a_second_pack_of_the_same_task_changes_nothing(world: World, task: Task) -> None:
    world.project("p")
    world.script_is_known("p")
    world.new(task("p"))
    scheduler = world.scheduler()
    scheduler.run_once()
    scheduler.run_once()
    (sent,) = world.dispatched()

    world.finish(sent)
    world.finish(sent, ok=False)
    scheduler.run_once()

    assert world.statuses("p") == {"t": SUCCESS}


def test_rows_are_counted_once_per_project_and_not_at_every_update(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: Counter[str] = Counter()
    count_page = SqliteTasks.count_page

    def noted(tasks: SqliteTasks, project: str, *about: Any) -> Any:
        counted[project] += 1
        return count_page(tasks, project, *about)

    monkeypatch.setattr(SqliteTasks, "count_page", noted)
    world.project("p", status="STOP")
    world.taskdb.insert("p", "t", {"url": "http://site.example/t", "status": SUCCESS})
    scheduler = world.scheduler()
    for comment in "abc":
        world.projectdb.update("p", {"comments": comment})
        scheduler.rows.look_soon()
        scheduler.run_once()

    assert counted == {"p": 1}


def test_starting_many_projects_does_not_look_at_all_tables_for_each(
    world: World, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[int] = []
    look = TaskDB._list_project
    monkeypatch.setattr(TaskDB, "_list_project", lambda self: (looked.append(1), look(self))[1])

    names = [f"p{number}" for number in range(50)]
    scheduler = world.scheduler()
    scheduler.run_once()
    looked.clear()
    for name in names:
        world.project(name)
        world.new(task(name))
    scheduler.run_once()

    assert len(looked) <= 3
    assert [set(world.statuses(name)) for name in names] == [{"t"}] * 50


def test_a_table_that_a_former_owner_makes_too_late_is_found(world: World, task: Task) -> None:
    """An owner that was stopped between its fence and its write may still write."""
    world.project("p")
    scheduler = world.scheduler()
    scheduler.run_once()
    assert not scheduler.engine.taskdb.may_have("p")
    world.taskdb.insert("p", "late", {**task("p", "late"), "status": ACTIVE})
    world.new(task("p", "t"))

    for _ in range(int(PAUSES[0] / MOMENT) + 3):
        scheduler.run_once()

    assert world.statuses("p") == {"late": ACTIVE, "t": ACTIVE}


def test_two_schedulers_of_one_machine_do_not_share_counters_by_file(
    world: World, task: Task
) -> None:
    world.project("p")
    world.script_is_known("p")
    world.new(task("p"))
    slot = slot_of("p", SLOTS)
    owner = world.scheduler(SoleOwner(SLOTS, {slot}))
    owner.run_once()
    save_all(owner)

    other = world.scheduler(SoleOwner(SLOTS, set(range(SLOTS)) - {slot}))
    other.run_once()

    assert LocalAnswers(owner).counter("1h", "sum") == {"p": {"pending": 1}}
    assert LocalAnswers(other).counter("1h", "sum") == {}


def test_a_message_that_is_no_task_becomes_a_dead_letter_and_the_rest_is_applied(
    world: World, task: Task
) -> None:
    world.project("p")
    scheduler = world.scheduler()
    world.new(task("p", "good"), {"project": "p", "url": "http://x.example/"})

    scheduler.run_once()

    assert world.statuses("p") == {"good": ACTIVE}
    (letter,) = world.queues.slot_queues.dead_letters(10)
    assert letter.reason == "a task needs taskid"


def test_a_schedule_that_nothing_can_be_compared_with_stops_no_other_project(
    world: World, task: Task
) -> None:
    for name in "pq":
        world.project(name)
        world.script_is_known(name)
    scheduler = world.scheduler()
    world.new(task("p", "a"), task("p", "b", priority="high"), task("p", "c"), task("q", "x"))

    scheduler.run_once()
    scheduler.run_once()

    assert sorted(each["taskid"] for each in world.dispatched()) == ["a", "c", "x"]
    (letter,) = world.queues.slot_queues.dead_letters(10)
    assert letter.reason == "schedule: priority must be a number, not 'high'"


def test_a_row_with_such_a_schedule_is_loaded_with_the_default(world: World, task: Task) -> None:
    world.project("p")
    world.script_is_known("p")
    bad = task("p", "b", priority="high", exetime="soon")
    for each in (task("p", "a"), bad, task("p", "c")):
        world.taskdb.insert("p", each["taskid"], {**each, "status": ACTIVE})
    scheduler = world.scheduler()

    scheduler.run_once()
    scheduler.run_once()

    assert sorted(each["taskid"] for each in world.dispatched()) == ["a", "b", "c"]


def test_a_part_of_a_schedule_may_be_none(world: World, task: Task) -> None:
    world.project("p")
    world.script_is_known("p")
    scheduler = world.scheduler()

    for age in (None, None):
        world.new(task("p", "a", age=age, priority=None, exetime=None))
        scheduler.run_once()
        scheduler.run_once()

    assert [each["taskid"] for each in world.dispatched()] == ["a"]
    assert world.queues.slot_queues.dead() == 0


def test_a_script_that_tells_nonsense_stops_no_other_project(world: World, task: Task) -> None:
    for name in "pq":
        world.project(name)
    world.script_is_known("p", min_tick="often", retry_delay=30)
    world.script_is_known("q")
    world.new(task("p", "a"), task("q", "x"))
    scheduler = world.scheduler()

    scheduler.run_once()
    scheduler.run_once()

    assert sorted(each["taskid"] for each in world.dispatched()) == ["a", "x"]


@pytest.mark.parametrize("kind", list(QueueKind))
def test_a_message_in_the_queue_of_another_slot_is_a_dead_letter(
    world: World, task: Task, kind: QueueKind
) -> None:
    mine, other = "q", next(n for n in "abcdefgh" if slot_of(n, SLOTS) != slot_of("q", SLOTS))
    for name in (mine, other):
        world.project(name)
    world.script_is_known(mine)
    world.new(task(mine, "x"))
    slot = slot_of(mine, SLOTS)
    scheduler = world.scheduler(SoleOwner(SLOTS, [slot]))
    world.queues.slot_queues.publish([Message(kind, slot, task(other, "stray"))])

    scheduler.run_once()
    scheduler.run_once()

    assert [each["taskid"] for each in world.dispatched()] == ["x"]
    assert set(scheduler.engine.projects) == {mine}
    (letter,) = world.queues.slot_queues.dead_letters(10)
    assert f"this is the queue of slot {slot}" in letter.reason


def _rounds(world: World, schedulers: list[Any]) -> list[dict[str, Any]]:
    for scheduler in schedulers:
        scheduler.run_once()
        scheduler.run_once()
    return world.dispatched()


def _move(owner: SoleOwner, scheduler: Any) -> None:
    """Move everything away in order."""
    owner.ask_back(range(SLOTS))
    scheduler.run_once()


def _next_owner() -> SoleOwner:
    owner = SoleOwner(SLOTS, ())
    owner.grant(range(SLOTS), epoch=2)
    return owner


def test_a_failure_is_tried_again_whatever_somebody_wrote_into_the_row(
    world: World, task: Task
) -> None:
    """A pack without a schedule takes that of the row; parts that cannot be compared are left."""
    scheduler = crawling(world)
    world.new(task("p", retries=2))
    scheduler.run_once()
    (sent,) = world.dispatched()
    world.taskdb._list_project()
    world.taskdb.update("p", "t", schedule={"retries": "many", "retried": [], "age": {}})

    world.finish({key: sent[key] for key in ("taskid", "project", "url")}, ok=False)
    scheduler.run_once()

    assert world.waiting() == 0
    row = world.database("task").get_task("p", "t")
    assert row["schedule"].keys() == {"retried", "exetime"}
    assert row["schedule"]["retried"] == 1


def test_a_page_that_is_never_crawled_again_is_tried_again_after_a_failure(
    world: World, task: Task
) -> None:
    world.project("p")
    world.script_is_known("p", retry_delay={0: 0})
    scheduler = world.scheduler()
    world.new(task("p", age=-1, retries=1))
    for _ in range(3):
        scheduler.run_once()
    (sent,) = world.dispatched()
    assert sent["taskid"] == "t"

    world.finish(sent, ok=False)
    for _ in range(3):
        scheduler.run_once()

    assert [again["schedule"]["retried"] for again in world.dispatched()] == [1]


def test_tasks_that_were_there_before_their_project_are_sent(world: World, task: Task) -> None:
    """A restored backup, or rows of before the cluster: nobody else tells of their table."""
    world.project("q")
    scheduler = world.scheduler()
    scheduler.run_once()
    scheduler.run_once()
    world.taskdb.insert("p", "t", {**task("p"), "status": ACTIVE})
    world.project("p")
    world.script_is_known("p")
    scheduler.rows.look_soon()

    for _ in range(3):
        scheduler.run_once()

    assert [each["taskid"] for each in world.dispatched()] == ["t"]
