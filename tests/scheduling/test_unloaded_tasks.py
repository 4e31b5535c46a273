"""Tasks that wait in their rows alone: whatever happens to them, nothing is lost or sent twice."""

import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from pyspider_zk.errors import DatabaseAway
from pyspider_zk.projects.slots import slot_of
from pyspider_zk.queues.api import Message
from pyspider_zk.queues.names import QueueKind
from pyspider_zk.scheduling import window as windows
from pyspider_zk.scheduling.scheduler import SlotScheduler
from pyspider_zk.scheduling.window import MOST_DUE
from tests.patches.databases import Databases
from tests.support.database_servers import MariaServer
from tests.support.world import SLOTS, World, crawling, granted

Task = Callable[..., dict[str, Any]]

LIMITS = pytest.mark.parametrize("limit", [100, 2])  # with room for all it goes as in pyspider


def narrow(scheduler: SlotScheduler, limit: int = 2) -> SlotScheduler:
    """Give a scheduler windows of so few tasks."""
    size = scheduler.engine.attention.window_size
    size.due, size.put_off, size.share = limit, limit, lambda _: None  # type: ignore[method-assign]
    return scheduler


def held(scheduler: SlotScheduler) -> Any:
    """Keep the project from sending anything until ``let_go``; return its window."""
    window = scheduler.engine.projects["p"].task_queue
    window.bucket.bucket = window.bucket.rate = 0
    return window


def let_go(window: Any) -> None:
    window.bucket.rate = window.bucket.burst = window.bucket.bucket = 1e9
    window._on_change()


def lower(world: World, task: Task, scheduler: SlotScheduler) -> None:
    """Request a task, and again with a lower priority, which its row then has."""
    world.new(task("p", "lowered", priority=1))
    scheduler.run_once()
    world.new(task("p", "lowered", priority=0, force_update=True))
    scheduler.run_once()


def crowd_out(world: World, task: Task, scheduler: SlotScheduler) -> None:
    """Request more urgent tasks than a narrow window has room for."""
    world.new(*(task("p", f"urgent{number}", priority=5) for number in range(4)))
    scheduler.run_once()


def crawl_on(world: World, scheduler: SlotScheduler, rounds: int = 60) -> list[str]:
    """Finish all that is sent, for some rounds; return what was sent."""
    sent: list[str] = []
    for _ in range(rounds):
        scheduler.run_once()
        for each in world.dispatched():
            sent.append(each["taskid"])
            world.finish(each)
    return sent


@LIMITS
def test_a_task_whose_priority_was_lowered_while_it_waited_is_sent(
    world: World, task: Task, limit: int
) -> None:
    """The window keeps the higher priority, the row the lower one, which no scan looks for."""
    scheduler = narrow(crawling(world), limit)
    window = held(scheduler)
    lower(world, task, scheduler)
    crowd_out(world, task, scheduler)
    let_go(window)
    assert "lowered" in crawl_on(world, scheduler)


@LIMITS
def test_a_due_task_that_was_put_off_by_a_new_request_is_sent(
    world: World, task: Task, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    """The window keeps it as due, the row as put off: a scan for due tasks passes it over."""
    scheduler = narrow(crawling(world), limit)
    window = held(scheduler)
    world.new(task("p", "later"))
    scheduler.run_once()
    world.new(task("p", "later", exetime=time.time() + 100, force_update=True))
    scheduler.run_once()
    crowd_out(world, task, scheduler)
    let_go(window)
    sent = crawl_on(world, scheduler)
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + 101)
    assert "later" in sent + crawl_on(world, scheduler)


@LIMITS
def test_a_due_task_is_sent_though_the_clock_was_set_back(
    world: World, task: Task, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    """Left out as due, it is found as put off, for which the scan does not look."""
    scheduler = narrow(crawling(world), limit)
    window = held(scheduler)
    real, ahead = time.time, [100.0]
    monkeypatch.setattr(time, "time", lambda: real() + ahead[0])
    world.new(*(task("p", f"t{number}", exetime=real() + 99) for number in range(6)))
    scheduler.run_once()
    scheduler.run_once()
    ahead[0] = 50.0
    let_go(window)
    sent = crawl_on(world, scheduler)
    ahead[0] = 200.0
    sent += crawl_on(world, scheduler)
    assert sorted(set(sent) - {"on_finished"}) == [f"t{number}" for number in range(6)]


def test_a_stopped_project_whose_rows_cannot_be_counted_fails_no_round(
    world: World, task: Task
) -> None:
    """Formerly it went to quarantine alone."""
    world.taskdb._execute("CREATE TABLE taskdb_q (taskid PRIMARY KEY, project)")
    world.project("q", status="STOP")
    scheduler = crawling(world)
    world.new(task("p", "mine"))
    scheduler.run_once()
    assert [each["taskid"] for each in world.dispatched()] == ["mine"]


def test_a_project_is_finished_though_its_last_scan_found_nothing(world: World, task: Task) -> None:
    """The end of a scan that loads nothing tells nobody that there is nothing pending any more."""
    scheduler = crawling(world)
    scheduler.engine.FAIL_PAUSE_NUM = 3
    world.new(task("p", "only"))
    assert crawl_on(world, scheduler, 2) == ["only"]
    project = scheduler.engine.projects["p"]
    scheduler.run_once()
    project.task_queue.unloaded.add_unknown()  # as the second look after a takeover does
    scheduler.engine.attention.windows.add("p")
    page, away = scheduler.engine.taskdb.active_page, DatabaseAway

    def locked(*_: Any) -> Any:
        raise away("taskdb is away")

    scheduler.engine.taskdb.active_page = locked  # type: ignore[method-assign]
    scheduler.run_once()
    scheduler.engine.taskdb.active_page = page  # type: ignore[method-assign]
    for _ in range(20):
        scheduler.run_once()
    assert [each["taskid"] for each in world.dispatched()] == ["on_finished"]


def test_a_task_that_is_requested_again_and_again_is_counted_once(world: World, task: Task) -> None:
    scheduler = narrow(crawling(world))
    window = held(scheduler)
    world.new(*(task("p", f"t{number}") for number in range(10)))
    scheduler.run_once()
    outside = next(f"t{number}" for number in range(10) if f"t{number}" not in window)
    for _ in range(20):
        world.new(task("p", outside, force_update=True))
        scheduler.run_once()
    assert len(window) <= 12


def test_new_tasks_are_not_refused_because_one_was_requested_often(
    world: World, task: Task
) -> None:
    scheduler = narrow(crawling(world))
    scheduler.engine.INQUEUE_LIMIT = 30
    window = held(scheduler)
    world.new(*(task("p", f"t{number}") for number in range(10)))
    scheduler.run_once()
    outside = next(f"t{number}" for number in range(10) if f"t{number}" not in window)
    for _ in range(20):
        world.new(task("p", outside, force_update=True))
        scheduler.run_once()
    world.new(task("p", "new"))
    scheduler.run_once()
    assert "new" in world.statuses("p")


def test_a_status_message_that_is_a_list_fails_no_round(world: World, task: Task) -> None:
    scheduler = crawling(world)
    world.new(task("p", "mine"))
    scheduler.engine.inherited["p"] = time.time()
    odd = Message(QueueKind.STATUS, slot_of("p", SLOTS), [task("p", "odd")])
    world.queues.slot_queues.publish([odd])
    scheduler.run_once()
    assert [each["taskid"] for each in world.dispatched()] == ["mine"]


@pytest.mark.parametrize("other", ["007", "7", "-7"])
def test_a_task_whose_id_looks_like_the_number_of_another_is_sent(
    world: World, task: Task, other: str
) -> None:
    """In sqlite 7 and "7" are two tasks, and everywhere 7 and "007" are."""
    scheduler = narrow(crawling(world))
    window = held(scheduler)
    number = {**task("p", "x", priority=5), "taskid": int(other)}
    world.new(number, *(task("p", f"t{each}", priority=5) for each in range(2)))
    scheduler.run_once()
    world.new(*(task("p", f"low{each}") for each in range(4)), task("p", other))
    scheduler.run_once()
    assert other not in window
    let_go(window)
    sent = []
    for _ in range(60):
        scheduler.run_once()
        for each in world.dispatched():
            sent.append(each["taskid"])
            if each["taskid"] != int(other):  # that one takes long
                world.finish(each)
    assert other in sent


def test_a_project_that_was_stopped_soon_after_a_takeover_has_no_pending_tasks(
    world: World, task: Task
) -> None:
    scheduler = crawling(world)
    world.new(task("p", "mine"))
    assert crawl_on(world, scheduler, 2) == ["mine"]
    world.projectdb.update("p", {"status": "STOP"})
    scheduler.rows.look_soon()
    scheduler.run_once()
    assert not scheduler.engine.projects["p"].active
    assert len(scheduler.engine.projects["p"].task_queue) == 0
    for _ in range(3):
        scheduler.run_once()
    assert len(scheduler.engine.projects["p"].task_queue) == 0


def test_a_loop_rests_though_many_are_put_off_and_few_come_in(world: World, task: Task) -> None:
    """The trickle once more, with real rows: a pass over them takes some rounds."""
    scheduler = narrow(crawling(world), 100)  # as with three thousand projects
    window = held(scheduler)
    world.new(task("p", "first"))
    scheduler.run_once()
    later = time.time() + 1e5
    cursor = world.taskdb.dbcur
    cursor.execute("BEGIN")
    cursor.executemany(
        "INSERT INTO taskdb_p (taskid, project, url, status, schedule) VALUES (?, 'p', 'u', 1, ?)",
        ((f"later{number:06}", f'{{"exetime": {later + number}}}') for number in range(50_000)),
    )
    cursor.execute("COMMIT")
    window.unloaded.add_unknown()
    scheduler.engine.attention.windows.add("p")
    scheduler.run_once()
    while scheduler.is_busy and window.unloaded._unknown:
        scheduler.run_once()
    world.new(*(task("p", f"due{number}") for number in range(250)))
    scheduler.run_once()
    let_go(window)
    busy = 0
    for turn in range(400):
        if turn % 5 == 0:
            world.new(task("p", f"new{turn}"))
        scheduler.run_once()
        for each in world.dispatched():
            world.finish(each)
        if turn >= 300:
            busy += scheduler.is_busy and not window.priority_queue.qsize()
    assert busy < 50, f"of 100 rounds, {busy} were busy though no task in memory was due"


@pytest.mark.mariadb
def test_a_task_in_flight_is_not_loaded_under_an_id_that_mysql_takes_for_the_same(
    world: World, task: Task, mariadb: MariaServer
) -> None:
    """A row keeps the id it was first stored under, also if a request spells it otherwise."""
    with closing(Databases("mysql", world.folder, mariadb)) as databases:
        scheduler = narrow(world.scheduler(taskdb=databases.connect("task")))
        world.project("p")
        world.script_is_known("p")
        scheduler.run_once()
        world.new(task("p", "a "))
        assert crawl_on(world, scheduler, 3) == ["a "]
        window = held(scheduler)
        world.new(task("p", "a", age=0, priority=9), *(task("p", f"t{n}") for n in range(9)))
        scheduler.run_once()
        assert window.unloaded
        assert "a" in window
        let_go(window)
        sent = []
        for _ in range(60):
            scheduler.run_once()
            for each in world.dispatched():
                sent.append(each["taskid"].rstrip())
                if sent[-1] != "a":  # that one takes long
                    world.finish(each)
        assert sent.count("a") == 1


def test_projects_that_have_nothing_pending_take_no_room_from_those_that_have(world: World) -> None:
    """A member of thousands of stopped projects gives the one that runs a hundredth of the room."""
    for number in range(120):
        world.project(f"old{number}", status="STOP")
    scheduler = crawling(world)
    scheduler.run_once()
    assert scheduler.engine.attention.window_size.due == MOST_DUE


def test_a_task_is_sent_again_whose_answer_is_lost_after_a_move(
    world: World, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was sent by the priority of its first request; its row has that of the second."""
    owner = granted(1)
    before = crawling(world, owner)
    window = held(before)
    lower(world, task, before)
    let_go(window)
    before.run_once()
    assert [each["taskid"] for each in world.dispatched()] == ["lowered"]
    owner.ask_back(range(SLOTS))
    before.run_once()

    after = narrow(world.scheduler(granted(2)))
    after.run_once()
    window = held(after)
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + window.processing_timeout + 1)
    window.check_update()
    crowd_out(world, task, after)
    assert "lowered" not in window
    let_go(window)
    assert "lowered" in crawl_on(world, after)


@LIMITS
def test_a_late_pack_of_a_task_that_waits_again_keeps_the_doubt(
    world: World, task: Task, limit: int
) -> None:
    scheduler = narrow(crawling(world), limit)
    window = held(scheduler)
    lower(world, task, scheduler)
    assert "lowered" in window._rows
    world.finish(task("p", "lowered"))  # redelivered, or after the time-out
    scheduler.run_once()
    assert "lowered" in window.priority_queue
    crowd_out(world, task, scheduler)
    let_go(window)
    assert "lowered" in crawl_on(world, scheduler)


@LIMITS
def test_a_task_that_waited_for_room_and_times_out_keeps_the_doubt(
    world: World, task: Task, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    scheduler = narrow(crawling(world), limit)
    window = held(scheduler)
    lower(world, task, scheduler)
    out, real_put = scheduler.engine.out_queue, scheduler.engine.out_queue.put_packed
    monkeypatch.setattr(out, "put_packed", lambda _: 0)  # full meanwhile
    let_go(window)
    scheduler.run_once()
    assert scheduler.engine.dispatch.waiting
    monkeypatch.setattr(out, "put_packed", real_put)
    held(scheduler)
    scheduler.run_once()
    assert [each["taskid"] for each in world.dispatched()] == ["lowered"]
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + window.processing_timeout + 1)
    window.check_update()
    crowd_out(world, task, scheduler)
    let_go(window)
    assert "lowered" in crawl_on(world, scheduler)


@LIMITS
@pytest.mark.parametrize("back", [50.0, 0.9])
def test_a_due_task_in_memory_left_out_after_the_clock_was_set_back(
    world: World, task: Task, monkeypatch: pytest.MonkeyPatch, limit: int, back: float
) -> None:
    scheduler = narrow(crawling(world), limit)
    window = held(scheduler)
    real, ahead = time.time, [0.0]
    monkeypatch.setattr(time, "time", lambda: real() + ahead[0])
    start = real()
    world.new(task("p", "early", exetime=start + 99.9))
    scheduler.run_once()
    ahead[0] = 100.0 - (real() - start)
    scheduler.run_once()
    window.check_update()
    assert "early" in window.priority_queue
    ahead[0] -= back
    scheduler.run_once()
    crowd_out(world, task, scheduler)
    let_go(window)
    sent = crawl_on(world, scheduler)
    ahead[0] = 300.0
    assert "early" in sent + crawl_on(world, scheduler)


@pytest.mark.parametrize("put_off", [100, 2])
def test_an_urgent_task_that_came_due_outside_goes_before_others(
    world: World, task: Task, monkeypatch: pytest.MonkeyPatch, put_off: int
) -> None:
    """pyspider takes its time from a task that has come due, or sends it after all without one."""
    scheduler = narrow(crawling(world), 20)
    scheduler.engine.attention.window_size.put_off = put_off
    window = held(scheduler)
    real, ahead = time.time, [0.0]
    monkeypatch.setattr(time, "time", lambda: real() + ahead[0])
    later = real() + 100
    world.new(*(task("p", f"urgent{n}", priority=9, exetime=later + n / 10) for n in range(5)))
    scheduler.run_once()
    world.new(*(task("p", f"low{number}") for number in range(150)))
    for _ in range(3):
        scheduler.run_once()
    ahead[0] = 110.0
    window.bucket.rate = window.bucket.burst = 1e-9
    sent: list[str] = []
    while len(sent) < 100:
        window.bucket.bucket = 2.0
        scheduler.run_once()
        for each in world.dispatched():
            sent.append(each["taskid"])
            world.finish(each)
    assert {f"urgent{number}" for number in range(5)} <= set(sent[:20])


def fill(world: World, project: str, count: int, schedule: str = "{}") -> None:
    """Write rows of pending tasks; the schedule may contain %d."""
    cursor = world.taskdb.dbcur
    cursor.execute("BEGIN")
    cursor.executemany(
        f"INSERT INTO taskdb_{project} (taskid, project, url, status, schedule)"  # noqa: S608 - ours
        " VALUES (?, ?, 'u', 1, ?)",
        (
            (f"t{n:06}", project, schedule % n if "%" in schedule else schedule)
            for n in range(count)
        ),
    )
    cursor.execute("COMMIT")


def test_many_projects_that_are_taken_over_keep_to_the_room_that_all_have(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is loaded before it is known how many there are."""
    monkeypatch.setattr(windows, "MOST_TASKS", 1000)
    for number in range(20):
        world.project(f"p{number}")
        world.taskdb._create_project(f"p{number}")
        fill(world, f"p{number}", 600)
    scheduler = world.scheduler()
    for _ in range(30):
        scheduler.run_once()
        scheduler._load()  # as the heartbeat does, which counts the projects
    size = scheduler.engine.attention.window_size
    assert size.due == windows.SMALLEST
    projects = scheduler.engine.projects.values()
    assert max(each.task_queue.priority_queue.qsize() for each in projects) <= 2 * size.due


@pytest.mark.parametrize("forced", [False, True])
def test_a_loop_rests_though_tasks_that_are_put_off_are_requested_again(
    world: World, task: Task, forced: bool
) -> None:
    """None that is left out again costs a way through all rows."""
    scheduler = narrow(crawling(world), 100)
    window = held(scheduler)
    world.new(task("p", "first"))
    scheduler.run_once()
    later = time.time() + 1e5
    fill(world, "p", 60_000, f'{{"exetime": {later:.0f}.%06d}}')
    window.unloaded.add_unknown()
    scheduler.engine.attention.windows.add("p")
    scheduler.run_once()
    while scheduler.is_busy and window.unloaded._unknown:
        scheduler.run_once()
    let_go(window)
    busy = 0
    for turn in range(300):
        if turn % 5 == 0:  # a task in memory again, and new ones that are earlier
            last = max(window.time_queue.queue_dict.values(), key=lambda each: each.exetime)
            earlier = [task("p", f"n{turn}-{n}", exetime=later - turn - 1) for n in range(20)]
            again = task("p", last.taskid, exetime=last.exetime, force_update=True)
            world.new(*earlier, *([again] if forced else []))
        scheduler.run_once()
        for each in world.dispatched():
            world.finish(each)
        if turn >= 100:
            busy += scheduler.is_busy and not window.priority_queue.qsize()
    assert busy < 50, f"of 200 rounds, {busy} were busy though no task in memory was due"


@LIMITS
@pytest.mark.parametrize(
    "odd",
    [
        {"priority": None},
        {"exetime": None},
        {"exetime": -5},
        {"priority": 0.1},
        {"priority": 2**62 + 1},
        {"exetime": 2**60},
    ],
)
def test_odd_numbers(world: World, task: Task, limit: int, odd: Any) -> None:
    scheduler = narrow(crawling(world), limit)
    window = held(scheduler)
    world.new(*(task("p", f"t{number}") for number in range(3)))
    world.new(*(task("p", f"odd{number}", **odd) for number in range(6)))
    scheduler.run_once()
    let_go(window)
    sent = set(crawl_on(world, scheduler, 40)) - {"on_finished"}
    assert len(sent) == (3 if "exetime" in odd and odd["exetime"] == 2**60 else 9)
