"""Every project has its turn, and no more waits to be sent than must."""

import logging
import time
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspider_zk.scheduling.cron import CATCH_UP
from pyspider_zk.scheduling.scheduler import SlotScheduler
from pyspider_zk.scheduling.script_calls import TICKS_WAITING
from pyspider_zk.scheduling.selection import FairShare
from tests.support.world import World


def busy(world: World, tasks: dict[str, int], limit: int) -> SlotScheduler:
    """Return a scheduler of a small share per round, for projects with so many tasks each."""
    for name, count in tasks.items():
        world.project(name)
        world.script_is_known(name)
        for number in range(count):
            row = {"taskid": f"t{number}", "url": "http://x.example/", "status": 1}
            world.taskdb.insert(name, f"t{number}", {**row, "project": name, "schedule": {}})
    scheduler = world.scheduler()
    scheduler.engine.LOOP_LIMIT = limit
    return scheduler


def counted(world: World) -> Counter[str]:
    return Counter(sent["project"] for sent in world.dispatched())


def test_of_more_busy_projects_than_a_round_serves_none_is_left_out(world: World) -> None:
    names = [f"p{n:02}" for n in range(12)]
    scheduler = busy(world, dict.fromkeys(names, 60), limit=50)  # five of each of ten

    for _ in range(12):
        scheduler.run_once()

    sent = counted(world)
    assert set(sent) == set(names)
    assert max(sent.values()) - min(sent.values()) <= 5


def test_a_project_that_was_cut_short_goes_on_with_its_turn(world: World) -> None:
    names = [f"p{n:02}" for n in range(12)]
    tasks = {**dict.fromkeys(names, 120), names[0]: 1}
    scheduler = busy(world, tasks, limit=200)  # turns of two: eleven have nine, one more has half
    scheduler.run_once()
    first = counted(world)
    assert sorted(first.values()) == [1, *[18] * 10, 19]
    (cut_short,) = (name for name in names if first[name] == 19)

    scheduler.run_once()
    second = counted(world)

    assert second[cut_short] == 19
    assert sorted(second.values()) == [18] * 9 + [19, 19]


def test_a_project_that_is_alone_uses_the_whole_round(world: World) -> None:
    scheduler = busy(world, {"p": 60, "other": 1}, limit=50)
    scheduler.run_once()
    assert counted(world) == {"p": 49, "other": 1}


def test_a_full_out_queue_loses_nothing_and_starves_nobody(world: World) -> None:
    names = [f"p{n:02}" for n in range(12)]
    scheduler = busy(world, dict.fromkeys(names, 20), limit=50)
    world.fetcher.maxsize = 7
    sent: list[tuple[str, str]] = []
    for _ in range(100):
        scheduler.run_once()
        sent += [(each["project"], each["taskid"]) for each in world.dispatched()]
    tasks = [each for each in sent if each[1].startswith("t")]
    first = Counter(project for project, _ in tasks[:120])

    assert set(first) == set(names)
    assert len(tasks) == len(set(tasks)) == 12 * 20


def test_ticks_that_cannot_be_sent_do_not_pile_up_and_are_made_up(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [6_000_000.0]
    monkeypatch.setattr(time, "time", lambda: now[0])
    world.project("p")
    world.script_is_known("p", min_tick=1)
    scheduler = world.scheduler()
    scheduler.run_once()
    scheduler.run_once()
    world.dispatched()
    # given fetchers that are away for ten minutes
    world.fetcher.maxsize = 1
    world.fetcher.put({"taskid": "x", "project": "other"})
    for _ in range(6):
        now[0] += 100
        scheduler.run_once()
        assert len(scheduler.engine.dispatch.waiting) <= TICKS_WAITING
    # when they are back
    world.fetcher.maxsize = 0
    world.dispatched()
    for _ in range(70):
        scheduler.run_once()
    # then none is missing
    ticks = [each["fetch"]["save"]["tick"] for each in world.dispatched()]
    assert ticks == list(range(6_000_001, 6_000_601))


def test_ticks_that_are_lost_are_told_once(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = [6_000_000.0]
    monkeypatch.setattr(time, "time", lambda: now[0])
    world.project("p")
    world.script_is_known("p", min_tick=60)
    scheduler = world.scheduler()
    scheduler.run_once()
    scheduler.run_once()
    world.dispatched()
    world.fetcher.maxsize = 1
    world.fetcher.put({"taskid": "x", "project": "other"})
    for _ in range(100):
        now[0] += 100
        scheduler.run_once()
    world.fetcher.maxsize = 0
    world.dispatched()
    with caplog.at_level(logging.ERROR, "scheduler"):
        for _ in range(20):
            scheduler.run_once()

    ticks = [each["fetch"]["save"]["tick"] for each in world.dispatched()]
    waited, made_up = ticks[:TICKS_WAITING], ticks[TICKS_WAITING:]
    assert waited == list(range(6_000_060, 6_000_660, 60))
    assert made_up == list(range(int(now[0]) - CATCH_UP + 20, int(now[0]) + 1, 60))
    assert len([each for each in caplog.messages if "ticks are lost" in each]) == 1


def ticks_sent(world: World) -> list[int]:
    sent = world.dispatched()
    return [each["fetch"]["save"]["tick"] for each in sent if each["taskid"] == "_on_cronjob"]


def test_ticks_that_came_due_while_a_project_was_off_are_not_made_up(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [6_000_000.0]
    monkeypatch.setattr(time, "time", lambda: now[0])
    world.project("p")
    world.script_is_known("p", min_tick=60)
    scheduler = world.scheduler()
    scheduler.run_once()
    for status in ("STOP", "RUNNING"):
        now[0] += 130
        world.projectdb.update("p", status=status)
        scheduler.rows.look_soon()
        scheduler.run_once()
    now[0] += 60
    scheduler.run_once()

    assert ticks_sent(world) == [6_000_300]


def test_ticks_count_from_the_change_that_made_a_script_tick(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [6_000_000.0]
    monkeypatch.setattr(time, "time", lambda: now[0])
    world.project("p")
    world.script_is_known("p")
    scheduler = world.scheduler()
    scheduler.run_once()
    now[0] += 600
    world.projectdb.update("p", script="class Handler: other = True")
    scheduler.rows.look_soon()
    scheduler.run_once()
    now[0] += 130
    world.script_is_known("p", min_tick=60)
    scheduler.run_once()

    assert ticks_sent(world) == [6_000_660, 6_000_720]


def test_a_project_that_is_back_while_its_ticks_wait_ticks_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [6_000_000.0]
    monkeypatch.setattr(time, "time", lambda: now[0])
    world.project("p")
    world.script_is_known("p", min_tick=1)
    scheduler = world.scheduler()
    scheduler.run_once()
    world.dispatched()
    world.fetcher.maxsize = 1
    world.fetcher.put({"taskid": "x", "project": "other"})
    now[0] += 100
    scheduler.run_once()
    for status in ("STOP", "RUNNING"):
        now[0] += 10
        world.projectdb.update("p", status=status)
        scheduler.rows.look_soon()
        scheduler.run_once()
    assert "p" not in scheduler.quarantine

    world.fetcher.maxsize = 0
    world.dispatched()
    scheduler.run_once()
    world.dispatched()
    now[0] += 1
    scheduler.run_once()
    assert ticks_sent(world)[-1] == now[0]


class Backlog:
    """What projects have to send, and how much of it was taken."""

    def __init__(self, tasks: dict[str, int]) -> None:
        self.left = Counter(tasks)
        self.taken: Counter[str] = Counter()
        self.order: list[str] = []

    def take(self, project: str, most: int) -> int:
        count = min(most, self.left[project])
        self.left[project] -= count
        self.taken[project] += count
        self.order += [project] * count
        return count


def line_of(backlog: Backlog) -> FairShare:
    shares = FairShare()
    for project in backlog.left:
        shares.join(project)
    return shares


TASKS = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 60), min_size=1)
ROUNDS = st.lists(st.integers(0, 40), max_size=12)
QUANTA = st.integers(1, 12)


@given(TASKS, ROUNDS, QUANTA)
def test_a_round_is_used_up_while_anybody_has_tasks(
    tasks: dict[str, int], rounds: list[int], quantum: int
) -> None:
    backlog = Backlog(tasks)
    shares = line_of(backlog)
    for limit in rounds:
        before, due = len(backlog.order), backlog.left.total()
        shares.serve(limit, quantum, backlog.take)
        assert len(backlog.order) - before == min(limit, due)


@given(st.sets(st.sampled_from("abcdefgh"), min_size=1), ROUNDS, QUANTA)
def test_no_busy_project_is_ahead_by_more_than_a_turn(
    names: set[str], rounds: list[int], quantum: int
) -> None:
    backlog = Backlog(dict.fromkeys(sorted(names), 10_000))
    shares = line_of(backlog)
    for limit in rounds:
        shares.serve(limit, quantum, backlog.take)
        counts = [backlog.taken[name] for name in names]
        assert max(counts) - min(counts) <= quantum


@given(TASKS, st.integers(1, 40), QUANTA)
def test_how_a_backlog_is_cut_into_rounds_does_not_change_the_order(
    tasks: dict[str, int], limit: int, quantum: int
) -> None:
    whole, cut = Backlog(tasks), Backlog(tasks)
    line_of(whole).serve(10_000, quantum, whole.take)
    shares = line_of(cut)
    while len(shares):
        shares.serve(limit, quantum, cut.take)
    assert cut.order == whole.order


@given(TASKS, st.sets(st.sampled_from("abcdefgh")), QUANTA)
def test_a_round_for_some_serves_nobody_else(
    tasks: dict[str, int], only: set[str], quantum: int
) -> None:
    backlog = Backlog(tasks)
    shares = line_of(backlog)
    shares.serve(1000, quantum, backlog.take, only)
    assert not backlog.taken.keys() - only
    assert backlog.taken.total() == sum(tasks.get(name, 0) for name in only)
    shares.serve(10_000, quantum, backlog.take)
    assert backlog.left.total() == 0


def test_who_left_and_joins_again_has_a_whole_turn_behind_the_others() -> None:
    backlog = Backlog({"a": 9, "b": 9})
    shares = line_of(backlog)
    shares.serve(1, 3, backlog.take)
    shares.leave("a")
    shares.join("a")
    shares.serve(7, 3, backlog.take)
    assert "".join(backlog.order) == "a" + "bbb" + "aaa" + "b"
