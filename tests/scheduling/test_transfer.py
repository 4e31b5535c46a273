"""What the next owner gets when a slot moves in order, and what it can save after a death."""

import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from pyspider.database.sqlite.taskdb import TaskDB

from pyspider_zk.errors import FenceClosed, Unavailable
from pyspider_zk.projects.slots import slot_of
from pyspider_zk.scheduling import transfer
from pyspider_zk.scheduling.answers import LocalAnswers
from pyspider_zk.scheduling.parking import LOOK
from pyspider_zk.scheduling.scheduler import SlotScheduler
from tests.support.sole_owner import SoleOwner
from tests.support.world import SLOTS, World, granted, read_and_write, save_all

Task = Callable[..., dict[str, Any]]
MANY = 500  # tasks of a message, more than a round's share
ACTIVE, SUCCESS = TaskDB.ACTIVE, TaskDB.SUCCESS


@pytest.fixture
def crawling(world: World, task: Task, monkeypatch: pytest.MonkeyPatch) -> SlotScheduler:
    """Give a scheduler with three tasks of one project; the next tick is a minute away."""
    real, over = time.time, time.time() % 60
    monkeypatch.setattr(time, "time", lambda: real() - over)
    world.project("p")
    world.script_is_known("p", min_tick=60, retry_delay={0: 7}, crawl_config={"itag": "v1"})
    world.new(*(task("p", taskid) for taskid in "abc"))
    scheduler = world.scheduler()
    scheduler.run_once()
    return scheduler


def test_a_planned_move_dispatches_nothing_twice(world: World, crawling: SlotScheduler) -> None:
    crawling.run_once()
    sent = world.dispatched()
    after = _moved(world, crawling)

    after.run_once()

    assert [each["taskid"] for each in sent] == ["a", "b", "c"]
    assert world.dispatched() == []


@pytest.mark.parametrize("moves", [1, 3])
def test_a_backlog_goes_on_where_it_was(
    world: World, crawling: SlotScheduler, task: Task, moves: int
) -> None:
    crawl_on(world, crawling, 3)
    crawling.engine.LOOP_LIMIT = 200
    many = [task("p", f"t{number}", force_update=True) for number in range(MANY)]
    world.new(*many)
    sent = crawl_on(world, crawling, 1)
    assert 0 < len(sent) < MANY

    owner = crawling
    for epoch in range(2, 2 + moves):
        owner = _moved(world, owner, epoch)
        sent += crawl_on(world, owner, 1)
    sent += crawl_on(world, owner, 5)

    assert Counter(sent) == Counter(each["taskid"] for each in many)


@pytest.mark.parametrize(
    ("taskid", "priority"), [(5, 0), (-5, 0), ("top", float("inf")), ("top", 2**64 - 1)]
)
def test_whatever_a_task_may_hold_a_planned_move_dispatches_nothing_twice(
    world: World, crawling: SlotScheduler, task: Task, taskid: Any, priority: float
) -> None:
    world.new(task("p", taskid, priority=priority))
    crawling.run_once()
    crawling.run_once()
    sent = world.dispatched()
    after = _moved(world, crawling)

    after.run_once()
    after.run_once()

    assert sorted(str(each["taskid"]) for each in sent) == sorted(["a", "b", "c", str(taskid)])
    assert world.dispatched() == []


def test_packs_that_come_after_a_planned_move_are_applied(
    world: World, crawling: SlotScheduler
) -> None:
    crawling.run_once()
    sent = world.dispatched()
    after = _moved(world, crawling)
    for each in sent:
        world.finish(each)

    after.run_once()

    assert set(world.statuses("p").values()) == {SUCCESS}


def test_packs_that_came_before_a_planned_move_and_were_not_applied_are_not_lost(
    world: World, crawling: SlotScheduler
) -> None:
    crawling.run_once()
    for each in world.dispatched():
        world.finish(each)
    after = _moved(world, crawling)

    after.run_once()

    assert set(world.statuses("p").values()) == {SUCCESS}


def test_the_next_owner_does_not_ask_for_what_the_script_says(
    world: World, crawling: SlotScheduler
) -> None:
    after = _moved(world, crawling)

    after.run_once()

    project = after.engine.projects["p"]
    assert not project.waiting_get_info
    assert (project.min_tick, project.retry_delay) == (60, {0: 7})
    assert project.crawl_config == {"itag": "v1"}


def test_a_script_saved_during_the_move_is_asked_again(
    world: World, crawling: SlotScheduler
) -> None:
    world.projectdb.update("p", {"script": "class Handler: changed = True"})
    after = _moved(world, crawling)

    after.run_once()

    assert after.engine.projects["p"].waiting_get_info


def test_what_was_selected_and_waits_for_the_fetcher_is_sent_by_the_next_owner(
    world: World, crawling: SlotScheduler
) -> None:
    world.fetcher.maxsize = world.fetcher.qsize() + 1
    crawling.run_once()
    first = world.dispatched()
    after = _moved(world, crawling)
    world.fetcher.maxsize = 0

    after.run_once()

    assert [each["taskid"] for each in (*first, *world.dispatched())] == ["a", "b", "c"]


def test_records_come_some_at_a_time_with_signs_of_life(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer, "SLOTS_PER_TAKE", 3)
    world.project("p")
    world.project("q")
    scheduler, owner = world.scheduler(), SoleOwner(SLOTS)
    handover = scheduler.handover
    seen: list[object] = []
    load_many, under_way = handover._records.load_many, handover._work.under_way
    monkeypatch.setattr(
        handover._records, "load_many", lambda slots: seen.append(len(slots)) or load_many(slots)
    )
    monkeypatch.setattr(handover._work, "under_way", lambda: seen.append("work") or under_way())
    monkeypatch.setattr(handover, "_beat", lambda: seen.append("beat"))
    scheduler.project_set.follow_rows()
    handover.follow(owner)

    assert slot_of("p", SLOTS) != slot_of("q", SLOTS)
    assert [each for each in seen if each != "work"] == ["beat", 3, "beat", 3, "beat", 2]
    assert seen.count("work") == 1


@pytest.mark.parametrize(
    ("interface", "call"),
    [("work", "under_way"), ("parking_lot", "load"), ("parking_lot", "fetch")],
)
def test_a_slot_that_could_not_be_taken_holds_up_no_other(
    world: World,
    crawling: SlotScheduler,
    task: Task,
    monkeypatch: pytest.MonkeyPatch,
    interface: str,
    call: str,
) -> None:
    """Redis may be away in between; a message of a slot that is not held would end each round."""
    crawling.run_once()
    world.new(task("p", "a", force_update=True))  # is parked until its task is not under way
    crawling.run_once()
    world.project("q")
    world.script_is_known("q")
    its = slot_of("p", SLOTS)
    owner = SoleOwner(SLOTS, {*range(SLOTS)} - {its})
    after = world.scheduler(owner)
    after.run_once()
    world.dispatched()
    world.new(task("p", "b"), task("q"))
    # when
    owner.grant([its], epoch=2)
    with monkeypatch.context() as away:
        away.setattr(getattr(after.queues, interface), call, _unavailable)
        with pytest.raises(Unavailable):
            after.run_once()
    world.now += LOOK
    after.take_arrivals()
    # then
    assert its not in after.fence.held
    assert [each["project"] for each in world.dispatched()] == ["q"]
    after.run_once()
    assert after.fence.held[its] == 2


def test_a_handoff_that_cannot_be_saved_at_once_loses_nothing(
    world: World, crawling: SlotScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.fetcher.maxsize = world.fetcher.qsize() + 1
    crawling.run_once()
    first = world.dispatched()
    with monkeypatch.context() as away:
        away.setattr(crawling.queues.records, "save_many", _unavailable)
        with pytest.raises(Unavailable):
            _release_all(crawling)
    crawling.run_once()
    after = world.scheduler(granted(epoch=2))
    world.fetcher.maxsize = 0

    after.run_once()

    assert [each["taskid"] for each in (*first, *world.dispatched())] == ["a", "b", "c"]


def test_counters_active_tasks_and_rate_bucket_go_on(
    world: World, crawling: SlotScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    HandoffClock(monkeypatch, start=time.time())  # it stands still, so no token is added
    crawling.run_once()
    before = LocalAnswers(crawling)
    counters, log = before.webui_update()["counter"], before.get_active_tasks("p")
    tokens = crawling.engine.projects["p"].task_queue.bucket.bucket
    after = _moved(world, crawling)

    after.run_once()

    answers = LocalAnswers(after)
    assert answers.webui_update()["counter"]["1h"] == counters["1h"]
    assert answers.webui_update()["counter"]["all"] == counters["all"]
    assert answers.get_active_tasks("p") == log
    assert after.engine.projects["p"].task_queue.bucket.bucket == tokens


def test_why_a_project_cannot_start_passes_to_the_next_owner(
    world: World, crawling: SlotScheduler
) -> None:
    world.script_told("p", process={"ok": False, "exception": "no module"}, save={})
    crawling.run_once()
    after = _moved(world, crawling)
    after.run_once()
    assert after.engine.projects["p"].cannot_start == "no module"


def test_a_project_paused_after_failures_stays_paused(
    world: World, crawling: SlotScheduler
) -> None:
    _pause(world, crawling)

    after = _moved(world, crawling)
    after.run_once()

    assert LocalAnswers(after).get_projects_pause_status() == {"p": True}


def test_failures_from_before_a_pause_do_not_count_again_after_a_move(
    world: World, crawling: SlotScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = HandoffClock(monkeypatch, start=time.time())
    _pause(world, crawling)
    clock.now += crawling.engine.PAUSE_TIME + 1
    crawling.run_once()
    assert LocalAnswers(crawling).get_projects_pause_status() == {"p": False}

    after = _moved(world, crawling)
    after.engine.FAIL_PAUSE_NUM = 3
    after.run_once()

    assert LocalAnswers(after).get_projects_pause_status() == {"p": False}


def test_an_owner_whose_clock_is_behind_goes_on_at_the_same_rate(
    world: World, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = HandoffClock(monkeypatch, start=6_000_000)
    world.project("p", rate=1, burst=1)
    world.script_is_known("p")
    world.new(*(task("p", each) for each in "abc"))
    before = world.scheduler()
    before.run_once()
    clock.now += 1.5
    before.run_once()
    assert len(world.dispatched()) == 1
    _release_all(before)

    clock.now -= 600
    after = world.scheduler(granted(epoch=2))
    after.run_once()
    clock.now += 1.5
    after.run_once()

    assert len(world.dispatched()) == 1


def test_a_task_in_flight_is_given_up_in_time_by_an_owner_whose_clock_is_behind(
    world: World, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = HandoffClock(monkeypatch, start=6_000_000)
    world.project("p")
    world.script_is_known("p")
    world.new(task("p"))
    before = world.scheduler()
    before.run_once()
    clock.now += 1
    before.run_once()
    assert len(world.dispatched()) == 1
    _release_all(before)

    clock.now -= 3600
    after = world.scheduler(granted(epoch=2))
    after.run_once()
    clock.now += after.engine.projects["p"].task_queue.processing_timeout + 1
    after.run_once()

    assert len(world.dispatched()) == 1


def test_a_finished_project_is_told_so_by_its_next_owner(
    world: World, crawling: SlotScheduler
) -> None:
    crawling.run_once()
    for each in world.dispatched():
        world.finish(each)
    while "on_finished" not in crawling.engine.projects["p"].task_queue:
        crawling.run_once()

    after = _moved(world, crawling)
    after.run_once()

    assert [each["taskid"] for each in world.dispatched()] == ["on_finished"]


def test_a_slot_that_comes_back_brings_nothing_twice(world: World, crawling: SlotScheduler) -> None:
    crawling.run_once()
    for each in world.dispatched():
        world.finish(each)
    while "on_finished" not in crawling.engine.projects["p"].task_queue:
        crawling.run_once()
    _release_all(crawling)

    crawling.fence.ownership.grant(range(SLOTS), 2)
    crawling.run_once()

    assert [each["taskid"] for each in world.dispatched()] == ["on_finished"]


def test_ticks_between_two_owners_are_sent_once_each(
    world: World, crawling: SlotScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = HandoffClock(monkeypatch, start=6_000_000)
    crawling.cron.start("p", int(clock.now))
    clock.now += 61
    crawling.run_once()
    after = _moved(world, crawling)
    clock.now += 120
    after.run_once()

    ticks = [each["fetch"]["save"]["tick"] for each in world.dispatched() if _is_tick(each)]

    assert ticks == [6_000_060, 6_000_120, 6_000_180]


def test_ticks_missed_since_the_death_of_an_owner_are_made_up(
    world: World, crawling: SlotScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = HandoffClock(monkeypatch, start=6_000_000)
    world.project("young")
    crawling.rows.look_soon()
    crawling.run_once()  # the record that is written every minute was written before
    world.script_is_known("young", min_tick=60)
    crawling.run_once()
    clock.now += 150
    after = world.scheduler(granted(epoch=2))
    world.script_is_known("young", min_tick=60)
    after.run_once()
    after.run_once()

    sent = [each for each in world.dispatched() if _is_tick(each) and each["project"] == "young"]

    assert [each["fetch"]["save"]["tick"] for each in sent] == [6_000_060, 6_000_120]


def test_ticks_that_waited_for_the_fetcher_at_the_death_of_an_owner_are_sent(
    world: World, crawling: SlotScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = HandoffClock(monkeypatch, start=6_000_000)
    crawling.cron.start("p", int(clock.now))
    world.fetcher.maxsize = world.fetcher.qsize()  # it is full
    clock.now += 121
    crawling.run_once()
    save_all(crawling)
    world.fetcher.maxsize = 0
    world.dispatched()

    after = world.scheduler(granted(epoch=2))
    world.script_is_known("p", min_tick=60)
    after.run_once()
    after.run_once()

    ticks = [each["fetch"]["save"]["tick"] for each in world.dispatched() if _is_tick(each)]
    assert ticks == [6_000_060, 6_000_120]


@pytest.mark.parametrize("fetch", [{}, {"save": {}}, {"save": {"tick": "60"}}])
def test_a_tick_by_hand_without_a_second_keeps_no_project_from_its_next_owner(
    world: World, crawling: SlotScheduler, fetch: dict[str, Any]
) -> None:
    crawling.run_once()
    world.fetcher.maxsize = world.fetcher.qsize()  # it is full
    tick = {"taskid": "_on_cronjob", "project": "p", "url": "data:,_on_cronjob", "fetch": fetch}
    LocalAnswers(crawling).send_task(tick)
    save_all(crawling)
    after = world.scheduler(granted(epoch=2))

    after.run_once()

    assert after.quarantine.told() == {}
    assert set(after.engine.projects) == {"p"}


def test_a_record_that_could_not_be_saved_is_saved_when_the_fence_opens(
    world: World, crawling: SlotScheduler
) -> None:
    crawling._last_dump_cnt = time.time()  # the minute's own records are far away
    world.script_is_known("p", min_tick=7)
    read_and_write(crawling)
    crawling.fence.ownership.lose_lease()
    crawling.run_once()
    crawling.fence.ownership.renew_lease()
    crawling.run_once()

    (record,) = world.queues.records.load_many(range(SLOTS)).values()
    assert record["projects"]["p"]["info"]["min_tick"] == 7


def test_after_a_death_all_that_is_due_is_loaded_again(
    world: World, crawling: SlotScheduler
) -> None:
    crawling.run_once()
    world.dispatched()
    after = world.scheduler(granted(epoch=2))
    world.script_is_known("p")

    after.run_once()
    after.run_once()

    assert sorted(each["taskid"] for each in world.dispatched()) == ["a", "b", "c"]


def test_a_project_born_at_another_member_is_loaded_by_one_that_runs_already(
    world: World, task: Task
) -> None:
    owner = SoleOwner(SLOTS, ())
    waiting = world.scheduler(owner)
    waiting.run_once()
    world.project("p")
    world.script_is_known("p")
    world.new(task("p"))
    world.scheduler().run_once()
    world.dispatched()
    waiting.rows.look_soon()

    owner.grant(range(SLOTS), epoch=2)
    waiting.run_once()

    assert "t" in waiting.engine.projects["p"].task_queue


def test_a_record_of_an_older_epoch_is_not_taken_for_a_handoff(
    world: World, crawling: SlotScheduler
) -> None:
    crawling.run_once()
    world.dispatched()
    _release_all(crawling)
    after = world.scheduler(granted(epoch=3))

    after.run_once()
    after.run_once()

    assert sorted(each["taskid"] for each in world.dispatched()) == ["a", "b", "c"]


def test_what_a_slot_left_behind_does_not_follow_a_project_made_anew(world: World) -> None:
    world.project("p")
    before = world.scheduler()
    before.run_once()
    save_all(before)
    world.projectdb.drop("p")
    before.rows.look_soon()
    before.run_once()

    _release_all(before)

    assert world.queues.records.load_many(range(SLOTS)) == {}


def test_nothing_happens_while_the_fence_is_shut(
    world: World, crawling: SlotScheduler, task: Task
) -> None:
    world.dispatched()
    crawling.fence.ownership.lose_lease()
    world.new(task("p", "late"))

    crawling.run_once()

    assert world.dispatched() == []
    assert "late" not in world.statuses("p")
    assert set(crawling.engine.projects) == {"p"}


def test_when_the_fence_opens_again_nothing_is_missing(
    world: World, crawling: SlotScheduler, task: Task
) -> None:
    crawling.fence.ownership.lose_lease()
    world.new(task("p", "late"))
    crawling.run_once()
    crawling.fence.ownership.renew_lease()

    crawling.run_once()
    crawling.run_once()

    assert sorted(each["taskid"] for each in world.dispatched()) == ["a", "b", "c", "late"]


def test_a_lease_that_ends_in_a_round_leaves_nothing_of_it_until_it_is_renewed(
    world: World, crawling: SlotScheduler, task: Task
) -> None:
    owner = crawling.fence.ownership
    world.new(task("p", "first"), task("p", "second"))
    original = crawling.engine.insert_task

    def insert_then_lose(new: dict[str, Any]) -> None:
        original(new)
        owner.lose_lease()

    crawling.engine.insert_task = insert_then_lose
    with pytest.raises(FenceClosed):
        crawling.run_once()
    stopped_at = set(world.statuses("p"))
    crawling.engine.insert_task = original
    owner.renew_lease()
    crawling.run_once()

    assert stopped_at == {"a", "b", "c"}
    assert set(world.statuses("p")) == {"a", "b", "c", "first", "second"}


def test_a_slot_that_was_lost_leaves_memory_without_a_handoff(
    world: World, crawling: SlotScheduler
) -> None:
    crawling.fence.ownership.stop()

    crawling.run_once()

    assert crawling.engine.projects == {}
    records = world.queues.records.load_many(range(SLOTS))
    assert [record["clean"] for record in records.values()] == [False]


def test_a_slot_asked_back_before_it_was_taken_is_just_released(world: World) -> None:
    owner = SoleOwner(SLOTS)
    scheduler = world.scheduler(owner)
    owner.ask_back([3])

    scheduler.run_once()

    assert owner.given_up == {3: 1}


def test_the_same_slot_under_a_new_epoch_is_loaded_anew(
    world: World, crawling: SlotScheduler
) -> None:
    crawling.run_once()
    world.dispatched()
    crawling.fence.ownership.grant(range(SLOTS), epoch=5)

    crawling.run_once()

    assert crawling.fence.held == dict.fromkeys(range(SLOTS), 5)
    assert len(crawling.engine.projects["p"].task_queue) == 3


def test_a_project_that_the_next_owner_has_not_heard_of_goes_on_where_it_was(
    world: World, task: Task
) -> None:
    after = _looked_before_there_was_a_project(world)
    world.project("p")
    world.script_is_known("p")
    world.new(task("p"))
    before = world.scheduler()
    before.run_once()
    before.run_once()
    assert len(world.dispatched()) == 1
    _release_all(before)

    after.fence.ownership.grant(range(SLOTS), 2)
    after.run_once()
    after.run_once()

    assert not after.engine.projects["p"].waiting_get_info
    assert world.dispatched() == []


def test_a_project_that_only_a_dead_owner_had_heard_of_is_found(world: World) -> None:
    after = _looked_before_there_was_a_project(world)
    world.project("p")

    after.fence.ownership.grant(range(SLOTS), 2)
    after.run_once()
    after.run_once()

    assert set(after.engine.projects) == {"p"}


def test_a_clock_that_was_set_back_does_not_keep_projects_from_being_found(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = world.scheduler()
    scheduler.run_once()
    world.project("p")
    HandoffClock(monkeypatch, time.time() - 3600)
    later = time.monotonic() + scheduler.engine.UPDATE_PROJECT_INTERVAL
    monkeypatch.setattr("pyspider_zk.scheduling.project_rows.time.monotonic", lambda: later)

    scheduler.run_once()

    assert set(scheduler.engine.projects) == {"p"}


def crawl_on(world: World, scheduler: SlotScheduler, rounds: int) -> list[str]:
    """Finish all that is sent, for some rounds; return what was sent."""
    sent: list[str] = []
    for _ in range(rounds):
        scheduler.run_once()
        for each in world.dispatched():
            sent.append(each["taskid"])
            world.finish(each)
    return sent


def _looked_before_there_was_a_project(world: World) -> SlotScheduler:
    """Return a scheduler that owns nothing yet and has looked at the database."""
    made = world.scheduler(SoleOwner(SLOTS, ()))
    made.run_once()
    return made


def _pause(world: World, scheduler: SlotScheduler) -> None:
    """Let all that is dispatched fail, so often that the project is paused."""
    scheduler.engine.FAIL_PAUSE_NUM = 3
    scheduler.run_once()
    for each in world.dispatched():
        world.finish(each, ok=False)
    scheduler.run_once()
    assert LocalAnswers(scheduler).get_projects_pause_status() == {"p": True}


class HandoffClock:
    """A wall clock that the test moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, start: float) -> None:
        self.now = start
        monkeypatch.setattr("pyspider_zk.scheduling.scheduler.time.time", lambda: self.now)


def _unavailable(*_: object) -> None:
    raise Unavailable("away")


def _is_tick(task: dict[str, Any]) -> bool:
    return bool(task["taskid"] == "_on_cronjob")


@pytest.mark.parametrize("rounds", [1, 3])
def test_a_slot_that_passes_through_an_owner_that_never_took_it_is_handed_on(
    world: World, crawling: SlotScheduler, rounds: int
) -> None:
    crawling.run_once()
    sent = world.dispatched()
    _release_all(crawling)
    between = world.scheduler(granted(epoch=2))
    between.fence.ownership.ask_back(range(SLOTS))
    for _ in range(rounds):
        between.run_once()
    assert between.fence.ownership.given_up == dict.fromkeys(range(SLOTS), 2)
    after = world.scheduler(granted(epoch=3))

    after.run_once()

    assert [each["taskid"] for each in sent] == ["a", "b", "c"]
    assert world.dispatched() == []
    assert not after.engine.projects["p"].waiting_get_info


def test_a_slot_that_passes_through_is_not_released_before_it_is_handed_on(
    world: World, crawling: SlotScheduler
) -> None:
    _release_all(crawling)
    between = world.scheduler(granted(epoch=2))
    between.fence.ownership.ask_back(range(SLOTS))
    between.fence.ownership.lose_lease()

    between.run_once()

    assert between.fence.ownership.given_up == {}
    between.fence.ownership.renew_lease()
    between.run_once()
    assert between.fence.ownership.given_up == dict.fromkeys(range(SLOTS), 2)


def test_what_an_owner_that_died_left_stays_what_it_was(
    world: World, crawling: SlotScheduler
) -> None:
    save_all(crawling)
    between = world.scheduler(granted(epoch=2))
    between.fence.ownership.ask_back(range(SLOTS))

    between.run_once()

    records = world.queues.records.load_many(range(SLOTS)).values()
    assert [(record["epoch"], record["clean"]) for record in records] == [(1, False)]


def _release_all(scheduler: SlotScheduler) -> None:
    scheduler.fence.ownership.ask_back(range(SLOTS))
    scheduler.run_once()


def _moved(world: World, scheduler: SlotScheduler, epoch: int = 2) -> SlotScheduler:
    """Move all slots in order; return the next owner's scheduler before its first round."""
    _release_all(scheduler)
    return world.scheduler(granted(epoch=epoch))
