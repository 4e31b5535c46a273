"""What schedulers count is in the history once, whoever has the slot and whatever Redis does."""

import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from pyspider_zk.errors import Unavailable
from pyspider_zk.local.services import RedisServer
from pyspider_zk.queues.api import Queues
from pyspider_zk.queues.connect import connect
from pyspider_zk.queues.history import DAY, ENDS, read_history
from pyspider_zk.scheduling.counters import DONE, FAILED, NEW, TaskCounts, new_counters
from pyspider_zk.scheduling.history import HASHES_AT_ONCE, HistoryAdditions
from tests.support.memory_queues import MemoryBroker
from tests.support.ports import own_port
from tests.support.sole_owner import SoleOwner
from tests.support.world import SLOTS, World

Task = Callable[..., dict[str, Any]]

NOON = 20_000 * DAY + DAY // 2


def adding(queues: Queues) -> tuple[TaskCounts, HistoryAdditions]:
    """Return what a scheduler counts with, and what adds it to the history."""
    counts = TaskCounts(new_counters())
    return counts, HistoryAdditions(counts, queues.history)


def told(queues: Queues, project: str = "", now: float = NOON) -> dict[str, int]:
    """Return the sums of a day."""
    found = read_history(queues.history, project, "day", now)
    return {each: sum(found[each]) for each in ENDS}


def crawl(world: World, scheduler: Any, sent: dict[str, Any]) -> None:
    """Let a task be sent and end."""
    world.new(sent)
    scheduler.run_once()
    scheduler.run_once()
    (dispatched,) = world.dispatched()
    world.finish(dispatched)
    scheduler.run_once()


def test_what_ended_before_and_after_a_slots_move_is_there_once(world: World, task: Task) -> None:
    before, after = SoleOwner(SLOTS), SoleOwner(SLOTS, ())
    old, new = world.scheduler(before), world.scheduler(after)
    world.project("p")
    world.script_is_known("p")
    crawl(world, old, task("p", "one"))
    before.ask_back(range(SLOTS))
    old.run_once()
    after.grant(range(SLOTS), epoch=2)
    crawl(world, new, task("p", "two"))
    for scheduler in (old, new, old):
        scheduler.add_history()
    now = time.time()
    assert told(world.queues, "p", now) == told(world.queues, "", now)
    assert told(world.queues, "p", now) == {"success": 2, "failed": 0, "retry": 0}
    times = read_history(world.queues.history, "", "day", now)["fetch_time"]
    assert max(filter(None, times)) == 0.1


def test_pending_tasks_are_averaged_over_their_steps() -> None:
    queues = MemoryBroker().queues(SLOTS)
    members = [adding(queues)[1] for _ in range(2)]
    for seconds in range(0, 901, 60):
        for number, member in enumerate(members):
            member.add(NOON + seconds + 7 * number, 10)
    found = read_history(queues.history, "", "day", NOON + 1020)
    assert found["pending"][-4:] == [pytest.approx(20, abs=0.5), 20, 20, None]


def test_a_clock_that_jumps_adds_no_step_of_the_time_between() -> None:
    queues = MemoryBroker().queues(SLOTS)
    _, member = adding(queues)
    for at in (NOON, NOON + 7200, NOON):
        member.add(at, 10)
    assert sum(filter(None, read_history(queues.history, "", "day", NOON + 9000)["pending"])) == 10


@pytest.mark.parametrize("seconds", [1e308, -5.0, float("inf"), float("nan")])
def test_a_time_that_no_fetch_takes_does_not_spoil_the_others(seconds: float) -> None:
    queues = MemoryBroker().queues(SLOTS)
    counts, member = adding(queues)
    for each in (1.0, seconds):
        counts.time("p", "fetch_time", each)
    member.add(NOON, 0)
    times = read_history(queues.history, "", "day", NOON)["fetch_time"]
    assert 0.5 <= max(filter(None, times)) <= 1800.5


@pytest.mark.redis
def test_two_schedulers_add_for_one_project_within_a_minute(redis_url: str) -> None:
    with closing(connect(redis_url, 0, SLOTS)) as queues:
        one, two = adding(queues), adding(queues)
        for counts, member in (one, two, one):
            counts.count("p", DONE)
            counts.count("p", NEW)
            counts.count("q", FAILED)
            member.add(NOON, 0)
        one[1].add(NOON, 0)
        assert told(queues, "p") == {"success": 3, "failed": 0, "retry": 0}
        assert told(queues) == {"success": 3, "failed": 3, "retry": 0}


@pytest.mark.redis
def test_what_was_counted_is_added_when_redis_is_back(
    redis_server: RedisServer,  # noqa: ARG001 - without a Redis it skips the test, or fails it in CI
    tmp_path: Path,
) -> None:
    with (
        RedisServer(tmp_path, own_port()) as server,
        closing(connect(server.url, 0, SLOTS)) as queues,
    ):
        counts, member = adding(queues)
        names = [f"p{number}" for number in range(HASHES_AT_ONCE + 1)]
        for name in names:
            counts.count(name, DONE)
        server.stop()
        for _ in range(2):
            counts.count("p0", FAILED)
            with pytest.raises(Unavailable):
                member.add(NOON, 0)
        server.start()
        counts.count("p0", DONE)
        member.add(NOON, 0)
        assert told(queues) == {"success": len(names) + 1, "failed": 2, "retry": 0}
        assert told(queues, "p0") == {"success": 2, "failed": 2, "retry": 0}
        assert told(queues, names[-1])["success"] == 1
