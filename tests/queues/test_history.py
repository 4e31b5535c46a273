"""What every implementation of TaskHistory must do, and what is read of it."""

from contextlib import suppress
from typing import Any

import pytest

from pyspider_zk.errors import Unavailable
from pyspider_zk.queues.history import DAY, ENDS, KEPT, TaskHistory, field_at, read_history
from pyspider_zk.queues.redis_history import RedisHistory
from tests.queues.conftest import Fate, FatefulKeys, RedisBackend
from tests.support.memory_queues import MemoryBroker

NOON = 20_000 * DAY + DAY // 2  # 2024-10-04
KEY, FIELD = field_at(NOON, "p", "failed")


def put(history: TaskHistory, at: float, project: str = "", **amounts: int) -> None:
    """Add amounts of a time, each by an adder of its own."""
    for measure, amount in amounts.items():
        key, field = field_at(at, project, measure)
        history.add(f"{at} {measure}", 1, {key: {field: amount}})


def test_what_several_add_is_summed_up(backend: Any) -> None:
    for adder in ("a", "b"):
        backend.process().history.add(adder, 1, {KEY: {FIELD: 2, "x": 1}, "history:y": {"x": 5}})
    backend.process().history.add("a", 2, {KEY: {FIELD: 3}})
    read = backend.process().history.read([KEY, "history:y", "history:none"], [FIELD, "x"])
    assert read == [[7, 2], [0, 10], [0, 0]]


def test_an_addition_that_is_repeated_adds_nothing(backend: Any) -> None:
    history = backend.process().history
    for _ in range(2):
        history.add("a", 1, {KEY: {FIELD: 2}})
    assert history.read([KEY], [FIELD]) == [[2]]


@pytest.mark.redis
@pytest.mark.parametrize("fate", list(Fate))
def test_whether_an_answer_is_lost_or_the_question_it_is_added_once(
    fateful: FatefulKeys, fate: Fate
) -> None:
    history, fateful.fate = RedisHistory(fateful), fate
    for _ in range(2):
        with suppress(Unavailable):
            history.add("a", 1, {KEY: {FIELD: 2}})
    assert history.read([KEY], [FIELD]) == [[2]]


@pytest.mark.redis
def test_all_expires_and_a_projects_day_is_one_small_block(redis_backend: RedisBackend) -> None:
    history, client = redis_backend.process().history, redis_backend.client
    fields = [field_at(NOON + hour * 3600, "p", each)[1] for hour in range(24) for each in ENDS]
    history.add("a", 1, {KEY: dict.fromkeys(fields, 10**9), "history:2024-10-04": {"x": 1}})
    ttls = {key: client.ttl(key) for key in client.scan_iter()}
    assert len(ttls) == 3
    assert all(KEPT - 60 < each <= KEPT for each in ttls.values()), ttls
    assert client.hlen(KEY) == 72
    assert client.object("encoding", KEY) == b"listpack"


@pytest.mark.redis
@pytest.mark.parametrize("junk", ["x", "-5", "1.5", "", "9" * 30, "9223372036854775807"])
def test_a_field_that_is_no_sum_counts_as_none(redis_backend: RedisBackend, junk: str) -> None:
    history = redis_backend.process().history
    redis_backend.client.hset(KEY, FIELD, junk)
    assert history.read([KEY], [FIELD, "x"]) == [[0, 0]]
    history.add("a", 1, {KEY: {FIELD: 10, "x": 1}})
    assert history.read([KEY], ["x"]) == [[1]]
    redis_backend.client.hset(KEY, FIELD, "x")
    history.add("a", 2, {KEY: {FIELD: 10}})
    assert history.read([KEY], [FIELD]) == [[10]]


@pytest.mark.redis
@pytest.mark.parametrize("key", [KEY, "history_adder:a"])
def test_a_key_of_another_type_is_set_aside(redis_backend: RedisBackend, key: str) -> None:
    queues = redis_backend.process()
    redis_backend.client.rpush(key, "x")
    if key == KEY:
        assert queues.history.read([KEY], [FIELD]) == [[0]]
        redis_backend.client.rpush(key, "x")
    queues.history.add("a", 1, {"history:y": {"x": 1}, KEY: {FIELD: 2}})
    assert queues.history.read([KEY, "history:y"], [FIELD, "x"]) == [[2, 0], [0, 1]]
    assert all(name.startswith("unreadable:") for name in queues.slot_queues.unreadable())
    assert redis_backend.client.exists(*queues.slot_queues.unreadable()) == 1 + (key == KEY)


def test_a_span_is_told_in_steps_and_what_is_older_is_left_out() -> None:
    history = MemoryBroker().queues(8).history
    put(history, NOON, success=1)
    put(history, NOON - 600, success=2, failed=1)
    put(history, NOON - DAY, success=100)
    put(history, NOON - 3 * DAY, retry=4)
    day = read_history(history, "", "day", NOON + 1)
    assert (day["at"], day["step"], len(day["success"])) == (NOON - DAY + 300, 300, 288)
    assert day["success"][-3:] == [2, 0, 1]
    assert [sum(day[each]) for each in ENDS] == [3, 1, 0]
    fortnight = read_history(history, "", "fortnight", NOON + 1)
    assert (fortnight["step"], len(fortnight["retry"])) == (7200, 168)
    assert fortnight["success"][-13:] == [100, *[0] * 10, 2, 1]
    assert [sum(fortnight[each]) for each in ENDS] == [103, 1, 4]


def test_a_project_has_hours_and_its_own_counts() -> None:
    history = MemoryBroker().queues(8).history
    put(history, NOON, "p", success=1)
    put(history, NOON + 3599, "p", success=1)
    put(history, NOON, "q", success=50)
    put(history, NOON, "", success=52, pending=300)
    found = read_history(history, "p", "day", NOON + 3600)
    assert (found["step"], found["success"][-3:]) == (3600, [0, 2, 0])
    assert found["pending"] == found["fetch_time"] == [None] * 24


def test_times_and_pending_tasks_are_averages_of_steps_that_are_over() -> None:
    history = MemoryBroker().queues(8).history
    put(history, NOON, fetch_time=3_000_000, fetches=2, pending=300 * 7)
    found = read_history(history, "", "day", NOON + 300 + 120)
    assert found["fetch_time"][-3:] == [None, 1.5, None]
    assert found["process_time"][-3:] == [None] * 3
    assert found["pending"][-3:] == [0, 7, None]
