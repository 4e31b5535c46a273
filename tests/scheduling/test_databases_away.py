"""A database that is away stops nobody's process and loses nothing; a bad message is no outage."""

import os
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from pyspider.database.sqlite.taskdb import TaskDB

from pyspider_zk.databases import breaker as breaker_module
from pyspider_zk.databases.breaker import PAUSES, Breaker
from pyspider_zk.databases.guarded import Guarded
from pyspider_zk.errors import DatabaseAway
from pyspider_zk.projects.slots import slot_of
from pyspider_zk.queues import caps
from pyspider_zk.queues.names import QueueKind
from pyspider_zk.scheduling import loading, window
from pyspider_zk.scheduling.scheduler import SlotScheduler
from pyspider_zk.workers.loaded_scripts import ExistingProjects
from pyspider_zk.zookeeper.waiting import boottime
from tests.support.clock import Clock
from tests.support.operations import a_claim, add, done
from tests.support.sole_owner import SoleOwner
from tests.support.stand_ins import locked, running
from tests.support.world import SLOTS, World, granted

Task = Callable[..., dict[str, Any]]
ACTIVE, SUCCESS = TaskDB.ACTIVE, TaskDB.SUCCESS


@contextmanager
def moved(file: Path) -> Iterator[None]:
    """Move a database file out of the way, and back to its place."""
    elsewhere = file.with_suffix(".moved")
    file.rename(elsewhere)
    yield
    elsewhere.rename(file)


@contextmanager
def replaced(file: Path) -> Iterator[None]:
    """Put junk in place of a database file, and restore it, as another file, from a copy."""
    elsewhere = file.with_suffix(".copy")
    shutil.copy(file, elsewhere)
    file.unlink()
    file.write_bytes(os.urandom(8192))
    yield
    elsewhere.rename(file)


OUTAGES = [locked, moved, replaced]


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a database that was away be asked again in the next round."""
    monkeypatch.setattr(breaker_module, "PAUSES", (1e-9,))


def rounds(scheduler: SlotScheduler, count: int) -> None:
    """Run rounds as the scheduler's loop does; only an outage may end one early."""
    for _ in range(count):
        with suppress(DatabaseAway):
            scheduler.run_once()


def crawling(world: World, task: Task) -> SlotScheduler:
    """Give a scheduler with a project that has one task at the fetcher."""
    world.project("p")
    world.script_is_known("p")
    world.new(task("p", "first"))
    scheduler = world.scheduler()
    rounds(scheduler, 2)
    return scheduler


def unread(world: World) -> int:
    """Return how many messages are not acknowledged."""
    return sum(world.queues.slot_queues.lengths().values())


@pytest.mark.parametrize("outage", OUTAGES)
def test_messages_wait_while_the_task_database_is_away(
    world: World, task: Task, outage: Callable[[Path], Any]
) -> None:
    scheduler = crawling(world, task)
    (first,) = world.dispatched()

    with outage(world.folder / "task.db"):
        world.finish(first)
        world.new(*(task("p", f"t{n}") for n in range(20)))
        rounds(scheduler, 8)
        assert unread(world) == 21
        assert scheduler.engine.databases.away == ("taskdb",)
    rounds(scheduler, 8)

    assert unread(world) == 0
    assert world.queues.slot_queues.dead_letters(10) == []
    assert len(world.dispatched()) == 20
    assert world.statuses("p")["first"] == SUCCESS
    assert scheduler.engine.databases.away == ()


@pytest.mark.parametrize("outage", OUTAGES)
def test_all_is_loaded_though_the_task_database_was_away_in_the_middle(
    world: World, task: Task, outage: Callable[[Path], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MOST_DUE", "MOST_PUT_OFF", "SMALLEST"):
        monkeypatch.setattr(window, name, 4)
    monkeypatch.setattr(loading, "PAGE", 3)
    names = [f"t{number}" for number in range(30)]
    for name in names:
        world.taskdb.insert("p", name, {**task("p", name), "status": ACTIVE})
    world.project("p")
    scheduler = world.scheduler()
    rounds(scheduler, 1)
    with outage(world.folder / "task.db"):
        scheduler.engine.databases._tasks.reconnect()
        world.script_is_known("p")
        rounds(scheduler, 5)
    sent: list[str] = []
    while len(sent) < len(names):
        rounds(scheduler, 2)
        tasks = world.dispatched()
        for each in tasks:
            world.finish(each)
        sent += [each["taskid"] for each in tasks]
    assert sorted(sent) == sorted(names)


@pytest.mark.parametrize("outage", OUTAGES)
def test_what_is_due_goes_back_while_the_task_database_is_away(
    world: World, task: Task, outage: Callable[[Path], Any]
) -> None:
    for name in "abcd":
        world.taskdb.insert("p", name, {**task("p", name), "status": ACTIVE})
    world.project("p")
    scheduler = world.scheduler()
    rounds(scheduler, 1)
    world.script_is_known("p")

    with outage(world.folder / "task.db"):
        # A file that is open can be read wherever it was moved.
        scheduler.engine.databases._tasks.reconnect()
        rounds(scheduler, 5)
        assert len(scheduler.engine.projects["p"].task_queue) == 4
        assert scheduler.engine.projects["p"].task_queue.processing.qsize() == 0
    rounds(scheduler, 3)

    assert sorted(each["taskid"] for each in world.dispatched()) == list("abcd")


def test_what_comes_due_in_an_outage_is_sent_afterwards(
    world: World, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(6_000_000.0)
    monkeypatch.setattr(time, "time", clock)
    for name in ("ends", "later"):
        world.project(name)
        world.script_is_known(name)
    world.new(task("ends"), task("later", exetime=clock.now + 5))
    scheduler = world.scheduler()
    rounds(scheduler, 1)
    clock.now += 1
    rounds(scheduler, 1)
    (sent,) = world.dispatched()
    world.finish(sent)
    rounds(scheduler, 1)

    with moved(world.folder / "task.db"):
        scheduler.engine.databases._tasks.reconnect()
        for _ in range(scheduler.engine.FAIL_PAUSE_NUM + 2):
            clock.now += 1
            rounds(scheduler, 1)
    clock.now += 1
    rounds(scheduler, 2)

    assert {each["project"] for each in world.dispatched()} == {"ends", "later"}


def test_jobs_and_records_do_not_wait_for_the_task_database(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(6_000_000.0)
    monkeypatch.setattr(time, "time", clock)
    for name in ("on", "off"):
        world.project(name)
        world.script_is_known(name, min_tick=60)
    world.taskdb.insert("on", "due", {"taskid": "due", "url": "data:,due", "status": ACTIVE})
    scheduler = world.scheduler()
    rounds(scheduler, 1)

    with moved(world.folder / "task.db"):
        scheduler.engine.databases._tasks.reconnect()
        clock.now += 61
        add(scheduler, a_claim("stop", ["off"]))
        rounds(scheduler, 3)
        assert not scheduler.engine.projects["off"].active
    ticked = {each["project"] for each in world.dispatched()}
    after = world.scheduler(granted(2))
    for name in ("on", "off"):
        world.script_is_known(name, min_tick=60)
    rounds(after, 2)

    assert "on" in ticked
    assert "_on_cronjob" not in {each["taskid"] for each in world.dispatched()}


@pytest.mark.parametrize(
    ("operation", "arguments"),
    [("status", {"status": "DEBUG"}), ("rate", {"rate": 7, "burst": 9}), ("group", {"group": "g"})],
)
def test_rows_are_changed_once_though_tasks_cannot_be_loaded(
    world: World, monkeypatch: pytest.MonkeyPatch, operation: str, arguments: dict[str, Any]
) -> None:
    clock = Clock(6_000_000.0)
    monkeypatch.setattr(time, "time", clock)
    names = ["p", "q"]
    for name in names:
        world.project(name, status="STOP")
        world.taskdb.insert(name, "due", {"taskid": "due", "url": "data:,due", "status": ACTIVE})
    scheduler = world.scheduler()
    rounds(scheduler, 1)

    with moved(world.folder / "task.db"):
        scheduler.engine.databases._tasks.reconnect()
        for name in names:
            world.projectdb.update(name, {"status": "RUNNING"})
        work = add(scheduler, a_claim(operation, names, arguments))
        rounds(scheduler, 1)
        rows = [world.projectdb.get(name) for name in names]
        clock.now += 60
        rounds(scheduler, 3)
        assert done(work)
        assert [world.projectdb.get(name) for name in names] == rows
        assert [row | arguments for row in rows] == rows
    for name in names:
        world.script_is_known(name)
    rounds(scheduler, 3)

    assert {each["project"] for each in world.dispatched() if each["taskid"] == "due"} == {*names}


@pytest.mark.parametrize("kind", QueueKind)
def test_projects_are_stopped_and_records_saved_though_messages_wait_for_the_task_database(
    world: World, task: Task, monkeypatch: pytest.MonkeyPatch, kind: QueueKind
) -> None:
    clock = Clock(6_000_000.0)
    monkeypatch.setattr(time, "time", clock)
    for name in ("p", "off"):
        world.project(name)
    world.script_is_known("p")
    world.new(task("p", "first"))
    scheduler = world.scheduler()
    rounds(scheduler, 1)
    clock.now += 1
    rounds(scheduler, 1)
    (first,) = world.dispatched()

    with moved(world.folder / "task.db"):
        scheduler.engine.databases._tasks.reconnect()
        world.new(task("p", "second")) if kind is QueueKind.NEWTASK else world.finish(first)
        rounds(scheduler, 1)
        clock.now += 61
        work = add(scheduler, a_claim("stop", ["off"]))
        rounds(scheduler, 3)
        assert done(work)
        assert not scheduler.engine.projects["off"].active
    record = world.queues.records.load(slot_of("p", SLOTS))
    after = world.scheduler(granted(2))
    rounds(after, 4)

    assert record is not None
    assert (record["clean"], record["projects"]["p"]["running"]) == (False, clock.now)
    assert unread(world) == 0
    assert world.statuses("p")["first"] == (ACTIVE if kind is QueueKind.NEWTASK else SUCCESS)


def test_in_an_outage_no_more_parked_messages_are_in_memory_than_a_round_may_read(
    world: World, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.project("q")
    scheduler = crawling(world, task)
    for name in "pq":
        scheduler.quarantine.put(name, "its row is no row")
        world.new(*(task(name, f"t{n}") for n in range(20)))
    rounds(scheduler, 1)
    monkeypatch.setattr(caps, "ROUND", 1000)
    for name in "pq":
        scheduler.quarantine.release(name)

    with moved(world.folder / "task.db"):
        scheduler.engine.databases._tasks.reconnect()
        rounds(scheduler, 5)
        parking = scheduler.intake._parking
        entries = [entry for own in parking._of_projects.values() for entry in own.values()]
        loaded = [entry.parked for entry in entries if entry.delivery.body and entry.parked]
        assert len(entries) == 40
        assert 0 < sum(world.queues.parking_lot.sizes(loaded)) <= caps.ROUND
    rounds(scheduler, 15)

    assert (len(world.statuses("p")), len(world.statuses("q"))) == (21, 20)


@pytest.mark.parametrize("kind", ["task", "result", "project"])
def test_a_deletion_that_waits_for_a_database_is_told_once(
    world: World, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    world.project("p", status="STOP", group="delete")
    scheduler = world.scheduler()
    rounds(scheduler, 1)
    scheduler.engine.DELETE_TIME = 0
    scheduler.engine.attention.deletion.now("p")

    with moved(world.folder / f"{kind}.db"):
        getattr(scheduler.engine.databases, "_tasks" if kind == "task" else f"{kind}db").reconnect()
        rounds(scheduler, 3)
        assert "p" in scheduler.engine.projects
    rounds(scheduler, 2)

    assert world.projectdb.get("p") is None
    assert caplog.text.count("deleted project: p!") == 1


def test_a_message_is_not_lost_whose_row_is_refused_when_a_job_commits_it(
    world: World, task: Task
) -> None:
    scheduler = crawling(world, task)
    (first,) = world.dispatched()
    world.finish(first)
    with moved(world.folder / "task.db"):
        scheduler.engine.databases._tasks.reconnect()
        rounds(scheduler, 1)
    world.refuse_row("p", "first")
    work = add(scheduler, a_claim("start", ["p"]))
    scheduler.local_jobs.work(lambda: None)
    world.accept_row()
    rounds(scheduler, 12)

    assert work.progress()[0].errors == {}
    assert world.statuses("p")["first"] == SUCCESS


def test_a_project_that_waits_for_the_task_database_is_asked_for_its_settings_once(
    world: World, task: Task
) -> None:
    scheduler = crawling(world, task)
    world.dispatched()

    with moved(world.folder / "task.db"):
        scheduler.engine.databases._tasks.reconnect()
        world.project("q")
        scheduler.rows.look_soon()
        rounds(scheduler, 5)
    rounds(scheduler, 2)

    assert world.asked_for_settings() == ["q"]


@pytest.mark.parametrize("outage", OUTAGES)
def test_crawling_goes_on_while_the_project_database_is_away(
    world: World, task: Task, outage: Callable[[Path], Any]
) -> None:
    scheduler = crawling(world, task)
    world.dispatched()

    with outage(world.folder / "project.db"):
        scheduler.rows.look_soon()
        world.new(task("p", "second"))
        rounds(scheduler, 4)
        assert [each["taskid"] for each in world.dispatched()] == ["second"]
        assert scheduler.engine.databases.away == ("projectdb",)
    world.database("project").update("p", {"status": "STOP"})
    rounds(scheduler, 2)

    assert not scheduler.engine.projects["p"].active


@pytest.mark.parametrize("is_known", [True, False])
def test_a_project_that_was_started_before_an_outage_loses_no_message_and_stops_no_other(
    world: World, task: Task, is_known: bool
) -> None:
    if is_known:
        world.project("off", status="STOP")
    scheduler = crawling(world, task)
    rounds(scheduler, 2)
    world.dispatched()
    if is_known:
        world.database("project").update("off", {"status": "RUNNING"})
    else:
        world.project("off")

    with moved(world.folder / "project.db"):
        world.new(task("off", "on_start"), task("p", "second"))
        world.script_is_known("off")
        rounds(scheduler, 3)
        assert [each["taskid"] for each in world.dispatched()] == ["second"]
    scheduler.rows.look_soon()
    rounds(scheduler, 4)

    assert [each["taskid"] for each in world.dispatched()] == ["on_start"]


@pytest.mark.parametrize("kind", ["task", "project"])
@pytest.mark.parametrize("outage", OUTAGES)
def test_a_takeover_during_an_outage_is_made_good_afterwards(
    world: World, task: Task, kind: str, outage: Callable[[Path], Any]
) -> None:
    crawling(world, task)
    world.dispatched()
    after = world.scheduler(SoleOwner(SLOTS, ()))
    rounds(after, 1)

    with outage(world.folder / f"{kind}.db"):
        after.fence.ownership.grant(range(SLOTS), 2)
        rounds(after, 3)
        assert len(after.fence.held) == (SLOTS if kind == "project" else 0)  # they are not sealed
    world.script_is_known("p")
    after.rows.look_soon()
    rounds(after, 4)

    assert [each["taskid"] for each in world.dispatched()] == ["first"]
    assert len(after.quarantine) == 0


def test_a_file_that_was_moved_away_is_not_made_anew(world: World, task: Task) -> None:
    scheduler = crawling(world, task)
    file = world.folder / "project.db"

    with moved(file):
        scheduler.rows.look_soon()
        rounds(scheduler, 3)
        assert not file.exists()

    assert set(scheduler.engine.projects) == {"p"}


def test_a_file_that_may_only_be_read_is_away(task: Task) -> None:
    with _without_rights() as folder:
        world = World(folder)
        scheduler = crawling(world, task)
        world.dispatched()
        world.new(task("p", "second"))
        files = (folder / "task.db", folder / "task.db-journal")
        for path in (*files, folder):
            path.chmod(path.stat().st_mode & 0o555)
        rounds(scheduler, 5)
        assert unread(world) == 1
        assert scheduler.engine.databases.away == ("taskdb",)
        for path in (folder, *files):
            path.chmod(path.stat().st_mode | 0o200)
        rounds(scheduler, 3)
        assert [each["taskid"] for each in world.dispatched()] == ["second"]


def test_a_row_that_the_database_refuses_is_no_outage(world: World, task: Task) -> None:
    scheduler = crawling(world, task)
    world.dispatched()
    world.refuse_row("p", "bad")
    world.new(task("p", "bad"), task("p", "good"))

    rounds(scheduler, 3)

    assert [each["taskid"] for each in world.dispatched()] == ["good"]
    assert scheduler.engine.databases.away == ()


def test_a_write_that_waits_for_a_lock_does_not_land_after_the_lease(
    world: World, task: Task
) -> None:
    owner = SoleOwner(SLOTS)
    world.project("p")
    world.new(task("p", "first"))
    scheduler = world.scheduler(owner)
    rounds(scheduler, 1)
    world.new(task("p", "late"))

    with locked(world.folder / "task.db", seconds=1.5):
        owner.view = owner.view.renewed(boottime() + 0.5)
        rounds(scheduler, 1)

    assert set(world.statuses("p")) == {"first"}
    assert unread(world) == 1


def test_a_task_database_without_a_table_is_probed_for_writing(world: World) -> None:
    breaker = Breaker("taskdb")
    guarded = Guarded(world.database("task"), breaker)

    with locked(world.folder / "task.db"):
        for _ in range(3):
            with pytest.raises(DatabaseAway):
                guarded.insert("p", "t", {"url": ""})
            assert breaker.is_open


def test_a_database_without_copy_serves_other_threads_too(world: World) -> None:
    world.project("p")
    inner = world.database("project")
    del inner.copy

    copied = Guarded(inner, Breaker("projectdb")).copy()

    assert copied.get("p", fields=["name"]) == {"name": "p"}


def test_the_pauses_grow_to_a_bound_and_the_loss_is_said_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(breaker_module, "PAUSES", PAUSES)
    caplog.set_level("INFO")
    clock = Clock(100.0)
    breaker = Breaker("taskdb", clock)
    pauses = []
    for _ in range(8):
        breaker.failed(OSError("no route"))
        pauses.append(round(breaker.left, 3))
        clock.now += breaker.left
    breaker.answered()
    breaker.answered()

    assert pauses == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 4.0, 4.0]
    assert caplog.text.count("taskdb is away") == 1
    assert caplog.text.count("taskdb answers again") == 1
    assert not breaker.is_open


def test_one_that_is_away_is_not_asked_before_the_pause_is_over(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(breaker_module, "PAUSES", (1.0,))
    clock = Clock(100.0)
    world.project("p")
    guarded = Guarded(world.projectdb, Breaker("projectdb", clock))
    with moved(world.folder / "project.db"):
        world.projectdb.reconnect()
        with pytest.raises(DatabaseAway):
            guarded.get("p")

    with pytest.raises(DatabaseAway):
        guarded.get("p")
    clock.now += 1.0

    assert guarded.get("p")["name"] == "p"


def test_rows_that_end_in_an_outage_say_so(world: World) -> None:
    for name in "pq":
        world.project(name)
    guarded = Guarded(world.projectdb, Breaker("projectdb"))

    def broken() -> Iterator[Any]:
        yield {"name": "p"}
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode = sqlite3.SQLITE_IOERR
        raise error

    world.projectdb.get_all = lambda fields: broken()  # noqa: ARG005

    rows = guarded.get_all(fields=["name"])
    assert next(rows) == {"name": "p"}
    with pytest.raises(DatabaseAway):
        next(rows)


def test_dead_letters_are_none_though_packs_fail_for_long(world: World, task: Task) -> None:
    scheduler = crawling(world, task)
    (first,) = world.dispatched()
    world.finish(first)
    scheduler.intake._pauses = (0, 0, 0, 0)

    with locked(world.folder / "task.db"):
        rounds(scheduler, 6)
    rounds(scheduler, 2)

    assert world.queues.slot_queues.dead_letters(1) == []
    assert world.statuses("p") == {"first": SUCCESS}
    assert QueueKind.STATUS in world.queues.slot_queues.lengths()


def test_a_second_owner_takes_over_what_the_first_could_not_store(world: World, task: Task) -> None:
    before = crawling(world, task)
    world.dispatched()
    with locked(world.folder / "task.db"):
        world.new(task("p", "second"))
        rounds(before, 2)
    after = world.scheduler(granted(2))
    world.script_is_known("p")

    rounds(after, 3)

    assert {each["taskid"] for each in world.dispatched()} == {"first", "second"}


@contextmanager
def _without_rights() -> Iterator[Path]:
    """Give a folder to somebody whom permissions stop, and be that one: root is not."""
    nobody = 65534
    folder = Path(tempfile.mkdtemp())
    is_root = os.geteuid() == 0
    if is_root:
        os.chown(folder, nobody, nobody)
        os.seteuid(nobody)
    try:
        yield folder
    finally:
        if is_root:
            os.seteuid(0)
        folder.chmod(0o700)
        shutil.rmtree(folder)


@pytest.mark.parametrize("outage", OUTAGES)
def test_a_processor_waits_for_a_script_that_it_does_not_know(
    world: World, outage: Callable[[Path], Any], eventually: Callable[..., None]
) -> None:
    script = "from pyspider.libs.base_handler import *\nclass Handler(BaseHandler): pass"
    world.project("p", script=script)
    projectdb = world.database("project")
    manager = ExistingProjects(projectdb, {})
    found: list[Any] = []

    with ExitStack() as asking:
        with outage(world.folder / "project.db"):
            asking.enter_context(running(lambda: found.append(manager.get("p"))))
            eventually(lambda: manager.projectdb._breaker.is_open)
            assert found == []
        eventually(lambda: found)

    assert found[0]["exception"] is None


def test_a_processor_that_ends_waits_no_longer(world: World) -> None:
    world.project("p")
    projectdb = world.database("project")
    manager = ExistingProjects(projectdb, {})
    manager.close()

    with moved(world.folder / "project.db"):
        projectdb.reconnect()
        with pytest.raises(DatabaseAway):
            manager.get("p")
