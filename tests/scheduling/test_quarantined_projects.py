"""A project at fault is left alone, with its reason; all others go on."""

import logging
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing, suppress
from typing import Any

import pytest

from pyspider_zk.errors import BadMessage, ClusterError
from pyspider_zk.projects.slots import slot_of
from pyspider_zk.queues.back_off import BackOff
from pyspider_zk.queues.resilient import ResilientQueue
from pyspider_zk.scheduling.answers import LocalAnswers
from pyspider_zk.scheduling.counters import log_counters
from pyspider_zk.scheduling.numbers import ProjectNumbers
from pyspider_zk.scheduling.quarantine import AtFault
from pyspider_zk.scheduling.scheduler import SlotScheduler
from tests.support.sole_owner import SoleOwner
from tests.support.world import SLOTS, World, granted, save_all

Task = Callable[..., dict[str, Any]]

ROWS = [
    ("rate", None),
    ("rate", "fast"),
    ("rate", float("inf")),
    ("burst", None),
    ("burst", b"\xff"),
    ("updatetime", None),
    ("updatetime", "yesterday"),
    ("group", 5),
    ("group", b"delete"),
    ("status", None),
    ("status", 1),
    ("script", None),
    ("script", 7),
]


def write(world: World, project: str, **columns: Any) -> None:
    """Write columns of a project's row as somebody with a database shell does."""
    with closing(sqlite3.connect(world.folder / "project.db")) as database, database:
        for column, value in columns.items():
            statement = f"UPDATE projectdb SET `{column}` = ? WHERE name = ?"  # noqa: S608
            assert database.execute(statement, (value, project)).rowcount == 1


def rounds(scheduler: SlotScheduler, count: int) -> None:
    """Run rounds, of which none may fail."""
    for _ in range(count):
        scheduler.run_once()


def pair(world: World, task: Task) -> None:
    """Make two projects, one of which the test breaks; the good one has a task to do."""
    for name in ("bad", "good"):
        world.project(name)
    world.script_is_known("good")
    world.new(task("good"))


@pytest.mark.parametrize(("column", "value"), ROWS)
def test_a_bad_row_stops_its_project_and_no_other(
    world: World, task: Task, column: str, value: object
) -> None:
    pair(world, task)
    write(world, "bad", **{column: value})
    scheduler = world.scheduler()

    rounds(scheduler, 3)

    assert [each["project"] for each in world.dispatched()] == ["good"]
    assert column in scheduler.quarantine.told()["bad"]["reason"]
    assert set(scheduler.engine.projects) == {"good"}


@pytest.mark.parametrize(("column", "value"), ROWS)
def test_a_row_that_becomes_bad_while_its_project_runs_stops_no_other(
    world: World, task: Task, column: str, value: object
) -> None:
    pair(world, task)
    world.script_is_known("bad")
    scheduler = world.scheduler()
    rounds(scheduler, 1)

    write(world, "bad", comments="x", updatetime=99.0)
    write(world, "bad", **{column: value})
    scheduler.rows.look_soon()
    rounds(scheduler, 3)

    assert [each["project"] for each in world.dispatched()] == ["good"]
    assert "bad" in scheduler.quarantine


def test_one_fault_counts_once(world: World) -> None:
    for name in ("bad", "worse"):
        world.project(name)
    write(world, "bad", rate=None)
    scheduler = world.scheduler()
    rounds(scheduler, 1)
    write(world, "worse", rate=None)
    with pytest.raises(AtFault):
        scheduler.project_set.refresh("worse")

    assert [each["failures"] for each in scheduler.quarantine.told().values()] == [1, 1]
    assert not scheduler.engine.projects


def test_a_project_that_is_off_needs_no_rate(world: World, task: Task) -> None:
    pair(world, task)
    write(world, "bad", rate=None, status="STOP")
    scheduler = world.scheduler()

    rounds(scheduler, 1)

    assert "bad" in scheduler.engine.projects
    assert len(scheduler.quarantine) == 0


def test_a_mended_row_lets_its_project_out_at_once(world: World, task: Task) -> None:
    pair(world, task)
    write(world, "bad", rate=None)
    scheduler = world.scheduler()
    rounds(scheduler, 2)
    world.script_is_known("bad")
    world.new(task("bad"))

    write(world, "bad", rate=1e9)
    scheduler.rows.look_soon()
    rounds(scheduler, 3)

    assert {each["project"] for each in world.dispatched()} == {"good", "bad"}
    assert len(scheduler.quarantine) == 0


def test_a_project_that_is_gone_leaves_quarantine(world: World, task: Task) -> None:
    pair(world, task)
    write(world, "bad", rate=None)
    scheduler = world.scheduler()
    rounds(scheduler, 1)

    world.projectdb.drop("bad")
    scheduler.rows.look_soon()
    rounds(scheduler, 1)

    assert len(scheduler.quarantine) == 0


def test_a_slot_that_goes_takes_its_quarantine_along(world: World, task: Task) -> None:
    pair(world, task)
    write(world, "bad", rate=None)
    scheduler = world.scheduler()
    rounds(scheduler, 1)

    scheduler.fence.ownership.ask_back(range(SLOTS))
    rounds(scheduler, 1)

    assert len(scheduler.quarantine) == 0


@pytest.mark.parametrize("name", [None, 5, b"x", "", "\udc80"])
def test_a_row_without_a_usable_name_keeps_no_project_from_loading(
    world: World, task: Task, name: object
) -> None:
    pair(world, task)
    if name == "\udc80":
        name = sqlite3.Binary(b"\x80")
    with closing(sqlite3.connect(world.folder / "project.db")) as database, database:
        database.execute(
            "INSERT INTO projectdb (name, status, script) VALUES (CAST(? AS TEXT), 'RUNNING', '')"
            if isinstance(name, memoryview)
            else "INSERT INTO projectdb (name, status, script) VALUES (?, 'RUNNING', '')",
            (name,),
        )
    scheduler = world.scheduler()

    rounds(scheduler, 3)

    assert [each["project"] for each in world.dispatched()] == ["good"]
    assert set(scheduler.engine.projects) == {"bad", "good"}
    assert len(scheduler.quarantine) == 1


def test_numbers_and_load_tell_of_the_quarantine(world: World, task: Task) -> None:
    pair(world, task)
    write(world, "bad", rate="fast")
    scheduler = world.scheduler()
    rounds(scheduler, 1)
    scheduler.heartbeat._measured = float("-inf")

    rounds(scheduler, 1)

    numbers = ProjectNumbers(scheduler).project_numbers()
    assert numbers["good"]["quarantined"] is None
    assert "rate" in numbers["bad"]["quarantined"]
    assert scheduler.load.quarantined == 1


# -- tasks ----------------------------------------------------------------------------------------


def test_a_task_whose_fetch_is_null_is_sent_with_what_the_script_configures(
    world: World, task: Task
) -> None:
    pair(world, task)
    world.script_is_known("bad", crawl_config={"headers": {"a": "b"}})
    world.new(*(task("bad", f"t{n}") for n in range(5)))
    world.scheduler().run_once()
    world.dispatched()
    with closing(sqlite3.connect(world.folder / "task.db")) as database, database:
        database.execute("UPDATE taskdb_bad SET fetch = 'null'")
    after = world.scheduler(granted(2))
    world.script_is_known("bad", crawl_config={"headers": {"a": "b"}})

    rounds(after, 3)

    sent = [each for each in world.dispatched() if each["project"] == "bad"]
    assert sorted(each["taskid"] for each in sent) == ["t0", "t1", "t2", "t3", "t4"]
    assert all(each["fetch"] for each in sent)


@pytest.mark.parametrize("column", ["fetch", "process", "track", "schedule"])
@pytest.mark.parametrize("text", ["{", "5", '"x"', "[1]", "null", '{"priority": {}}'])
def test_junk_in_a_task_s_row_keeps_no_other_task_from_being_sent(
    world: World, task: Task, column: str, text: str
) -> None:
    pair(world, task)
    world.script_is_known("bad", crawl_config={"headers": {"a": "b"}})
    world.new(*(task("bad", each) for each in "abcdef"))
    world.scheduler().run_once()
    with closing(sqlite3.connect(world.folder / "task.db")) as database, database:
        statement = f"UPDATE taskdb_bad SET `{column}` = ? WHERE taskid < 'f'"  # noqa: S608
        database.execute(statement, (text,))
    after = world.scheduler(granted(2))
    world.script_is_known("bad", crawl_config={"headers": {"a": "b"}})
    world.script_is_known("good")

    rounds(after, 4)

    assert {"t", "f"} <= {each["taskid"] for each in world.dispatched()}
    assert "bad" in after.engine.projects


def test_a_project_that_cannot_tick_is_put_aside(world: World, task: Task) -> None:
    pair(world, task)
    world.script_is_known("bad", min_tick=1)
    scheduler = world.scheduler()
    rounds(scheduler, 1)
    scheduler.engine.projects["bad"].min_tick = "often"
    scheduler.engine.attention.on_project("bad")

    rounds(scheduler, 3)

    assert [each["project"] for each in world.dispatched() if each["taskid"] == "t"] == ["good"]
    assert "often" in scheduler.quarantine.told()["bad"]["reason"]


def test_what_was_selected_with_a_project_at_fault_is_sent(world: World, task: Task) -> None:
    pair(world, task)
    world.project("other")
    for name in ("bad", "other"):
        world.script_is_known(name)
        world.new(task(name))
    scheduler = world.scheduler()
    rounds(scheduler, 1)
    scheduler.engine.projects["bad"].task_queue.bucket.rate = "fast"
    scheduler.engine.projects["bad"].task_queue.bucket.bucket = 0
    world.new(*(task(name, "next") for name in ("good", "bad", "other")))

    rounds(scheduler, 3)

    sent = {each["project"] for each in world.dispatched() if each["taskid"] == "next"}
    assert sent == {"good", "other"}
    assert scheduler.quarantine.told()["bad"]["failures"] == 1


# -- slot records ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "raw",
    [
        b"\xc1",
        b"",
        b"\x91" * 5000,
        b"\x05",
        b"\x80",
        b"\x83\xa5epoch\x01\xa5clean\xc3\xa8projects\x05",
        b"\x83\xa5epoch\xa1x\xa5clean\xc3\xa8projects\x80",
        b"\x83\xa5epoch\x01\xa5clean\xc3\xa8projects\x81\x05\x80",
        b"\x83\xa5epoch\x01\xa5clean\xc3\xa8projects\x81\xa4good\x05",
    ],
)
def test_a_record_that_is_none_is_as_after_a_death(world: World, task: Task, raw: bytes) -> None:
    pair(world, task)
    for slot in range(SLOTS):
        world.broker.records[slot] = raw
    scheduler = world.scheduler(granted(2))

    rounds(scheduler, 3)

    assert [each["project"] for each in world.dispatched()] == ["good"]


JUNK = [None, 5, "x", b"x", [], [1], {}, {"a": 1}, [[1, 2, 3]], [None, None, None], float("nan")]
KEYS = [
    "processing",
    "unsent",
    "postponed",
    "bucket",
    "paused",
    "finishing",
    "active_tasks",
    "info",
    "counters",
    "tick",
    "md5sum",
]


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("junk", JUNK, ids=repr)
def test_a_part_of_any_shape_does_no_harm(world: World, task: Task, key: str, junk: object) -> None:
    pair(world, task)
    world.script_is_known("bad", min_tick=1)
    before = world.scheduler()
    rounds(before, 2)
    world.dispatched()
    before.fence.ownership.ask_back(range(SLOTS))
    rounds(before, 1)
    _spoil(world, "bad", key, junk)
    after = world.scheduler(granted(2))
    for name in ("bad", "good"):
        world.script_is_known(name)
        world.new(task(name, "later"))

    rounds(after, 3)
    save_all(after)
    log_counters(after.engine.counters, lambda: None)

    sent = {each["project"] for each in world.dispatched() if each["taskid"] == "later"}
    assert sent == {"good", "bad"}


def test_a_state_that_fails_is_left_out(world: World, task: Task) -> None:
    pair(world, task)
    scheduler = world.scheduler()
    rounds(scheduler, 1)
    scheduler.project_set.forget("bad")

    scheduler.project_set.load_slot(slot_of("bad", SLOTS), {"bad": {"clean": True, "tick": 60}})
    world.script_is_known("bad")
    world.new(task("bad"))
    rounds(scheduler, 3)

    assert {each["project"] for each in world.dispatched()} == {"good", "bad"}
    assert scheduler.quarantine.told() == {}


def test_a_task_that_no_record_can_hold_costs_no_handoff(world: World, task: Task) -> None:
    pair(world, task)
    world.script_is_known("bad")
    world.new(task("bad"))
    scheduler = world.scheduler()
    rounds(scheduler, 2)
    scheduler.engine.projects["bad"].active_tasks.appendleft((1.0, {"track": {"save": 2**80}}))

    save_all(scheduler)
    scheduler.fence.ownership.ask_back(range(SLOTS))
    rounds(scheduler, 1)

    world.dispatched()
    rounds(world.scheduler(granted(2)), 2)
    assert world.dispatched() == []


def _spoil(world: World, project: str, key: str, junk: object) -> None:
    records = world.queues.records
    slot = slot_of(project, SLOTS)
    record = records.load(slot)
    assert record is not None
    record["projects"][project][key] = junk
    records.save_many({slot: record})


def test_the_owner_of_nothing_has_nobody_in_quarantine(world: World, task: Task) -> None:
    pair(world, task)
    write(world, "bad", rate=None)
    scheduler = world.scheduler(SoleOwner(SLOTS, ()))

    rounds(scheduler, 2)

    assert len(scheduler.quarantine) == 0


def test_the_minute_s_log_is_as_pyspider_writes_it(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    scheduler = world.scheduler()
    for name, event, count in (("a", "success", 3), ("b", "failed", 2), ("c", "pending", 1)):
        scheduler.engine.counters["5m"].event((name, event), count)

    log_counters(scheduler.engine.counters, lambda: None)

    assert "in 5m: new:1,success:3,retry:0,failed:2 a:0,3,0,0 c:1,0,0,0 b:0,0,0,2" in caplog.text


def test_the_minute_s_log_goes_once_through_the_counters(world: World) -> None:
    """pyspider went through all of them for every project and event."""
    looks = 0

    class Counters(dict[Any, Any]):
        def keys(self) -> Any:
            nonlocal looks
            looks += 1
            return super().keys()

        def items(self) -> Any:
            nonlocal looks
            looks += 1
            return super().items()

    scheduler = world.scheduler()
    scheduler.engine.counters["5m"].counters = Counters()
    for number in range(20):
        scheduler.engine.counters["5m"].event((f"p{number}", "success"))

    log_counters(scheduler.engine.counters, lambda: None)

    assert looks == 1


def test_a_member_tells_of_its_quarantine_by_xml_rpc(world: World, task: Task) -> None:
    pair(world, task)
    write(world, "bad", rate="fast")
    scheduler = world.scheduler()
    rounds(scheduler, 1)

    told = LocalAnswers(scheduler).quarantine()

    assert set(told) == {"bad"}
    assert set(told["bad"]) == {"reason", "since", "failures", "next_look"}


def test_newtask_needs_no_database_that_can_copy_itself(world: World, task: Task) -> None:
    world.project("p")
    projectdb = world.database("project")
    del projectdb.copy
    scheduler = world.scheduler(projectdb=projectdb)

    assert LocalAnswers(scheduler).newtask(task("p"))


def test_the_minute_s_record_leaves_out_what_nobody_reads_after_a_death(
    world: World, task: Task
) -> None:
    pair(world, task)
    scheduler = world.scheduler()
    rounds(scheduler, 2)

    save_all(scheduler)

    record = world.queues.records.load(slot_of("good", SLOTS))
    assert record is not None
    assert "active_tasks" not in record["projects"]["good"]


@pytest.mark.parametrize("text", ["5", "null", "[1]", '"x"'])
def test_a_task_is_asked_for_again_though_its_row_holds_junk(
    world: World, task: Task, text: str
) -> None:
    pair(world, task)
    scheduler = world.scheduler()
    rounds(scheduler, 2)
    world.finish(*world.dispatched())
    rounds(scheduler, 1)
    with closing(sqlite3.connect(world.folder / "task.db")) as database, database:
        database.execute("UPDATE taskdb_good SET schedule = ?, lastcrawltime = 'x'", (text,))

    world.new(task("good", age=0))
    rounds(scheduler, 3)

    assert [each["taskid"] for each in world.dispatched()] == ["t"]


class SmallQueue(ResilientQueue):
    """A queue that refuses large messages, as Redis does."""

    def packed(self, body: Any) -> Any:
        if len(repr(body)) > 10_000:
            raise BadMessage("it is too large")
        return super().packed(body)


def test_a_tick_that_is_too_large_stops_no_other_project(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [6_000_000.0]
    monkeypatch.setattr(time, "time", lambda: now[0])
    for name in ("p", "q", "r"):
        world.project(name)
    world.script_is_known("q", min_tick=60, crawl_config={"headers": {"x": "x" * 10_000}})
    for name in ("p", "r"):
        world.script_is_known(name, min_tick=60)
    scheduler = world.scheduler()
    back_off = BackOff(logging.getLogger(), "tasks wait")
    scheduler.engine.out_queue = SmallQueue(world.fetcher, back_off)
    scheduler.run_once()
    now[0] += 60
    with suppress(ClusterError):
        scheduler.run_once()
    assert sorted(each["project"] for each in world.dispatched()) == ["p", "r"]
    assert "q" in scheduler.quarantine
