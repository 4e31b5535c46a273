"""What is a task, and what of it pyspider can compare."""

from typing import Any

import pytest

from pyspider_zk.errors import BadMessage
from pyspider_zk.queues.tasks import (
    check_pack,
    check_task,
    own_task,
    usable_info,
    usable_schedule,
    with_url,
)

TASK = {"taskid": "t", "project": "p", "url": "http://site.example/"}


def test_a_task_may_have_every_part_of_a_schedule_or_none():
    check_task(TASK)
    check_task({**TASK, "schedule": {}})
    check_task({**TASK, "schedule": {"priority": 2.5, "age": None, "itag": "v1", "exetime": 0}})


@pytest.mark.parametrize(
    ("schedule", "words"),
    [
        ({"priority": "high"}, "schedule: priority must be a number, not 'high'"),
        ({"exetime": "soon"}, "schedule: exetime must be a number, not 'soon'"),
        ({"age": [1]}, r"schedule: age must be a number, not \[1\]"),
        ({"retries": "3"}, "schedule: retries must be a number, not '3'"),
        (None, "schedule must be a mapping, not None"),
    ],
)
def test_a_schedule_that_nothing_can_be_compared_with_is_named(schedule, words):
    with pytest.raises(BadMessage, match=words):
        check_task({**TASK, "schedule": schedule})


def test_a_part_without_a_number_has_pyspiders_default():
    given = {"priority": None, "exetime": "soon", "age": 60, "itag": None, "force_update": True}

    assert usable_schedule(given) == {"age": 60, "itag": None, "force_update": True}
    assert usable_schedule(None) == {}


def test_what_is_done_to_ones_own_task_does_not_change_the_message():
    message = {**TASK, "schedule": {"retried": 1}}

    mine = own_task(message)
    mine["status"] = 1
    mine["schedule"]["retried"] += 1

    assert message == {**TASK, "schedule": {"retried": 1}}
    assert "schedule" not in own_task(TASK)


def test_what_a_script_tells_is_taken_as_far_as_it_is_of_use():
    told = {"min_tick": "5", "retry_delay": {0: 7}, "crawl_config": None, "more": 1}

    assert usable_info(told) == ({"retry_delay": {0: 7}, "more": 1}, ["min_tick '5'"])
    assert usable_info(None) == ({}, [])


@pytest.mark.parametrize("tick", [-1, float("inf"), float("nan"), [60]])
def test_a_tick_that_never_comes_is_of_no_use(tick):
    assert usable_info({"min_tick": tick}) == ({}, [f"min_tick {tick!r}"])


# -- what a database could not take ---------------------------------------------------------------

INJECTION = "track`) VALUES (1)--"


@pytest.mark.parametrize("key", [INJECTION, "column", "", 7, None, b"url", ("a",), "TASKID"])
def test_a_key_that_is_no_part_of_a_task_is_refused_by_its_name(key):
    with pytest.raises(BadMessage, match="a task has no"):
        check_task({**TASK, key: 1})


def test_every_part_that_pyspider_knows_is_taken():
    parts = {"status": 1, "schedule": {}, "fetch": {}, "process": {}, "track": {}}
    times = {"lastcrawltime": 1.5, "updatetime": None}
    dispatched = {"type": 1, "group": None, "project_md5sum": "x", "project_updatetime": 1.0}

    check_task({**TASK, **parts, **times, **dispatched})


def test_what_the_dispatch_added_is_left_out_of_ones_own_task():
    dispatched = {"type": 1, "group": None, "project_md5sum": "x", "project_updatetime": 1.0}

    assert own_task({**TASK, **dispatched}) == TASK


def deep(levels):
    value = []
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("part", "words"),
    [
        ({"taskid": "x" * 256}, "taskid has 256 characters, the limit is 255"),
        ({"taskid": b"x"}, "taskid must be text"),
        ({"taskid": 1.5}, "taskid must be text"),
        ({"taskid": True}, "taskid must be text"),
        ({"taskid": 2**63}, "taskid must be text"),
        ({"taskid": ["x"]}, "taskid must be text"),
        ({"taskid": "a\0"}, "taskid holds a NUL"),
        ({"taskid": "\ud800"}, "taskid holds half of a character"),
        ({"url": 7}, "url must be text"),
        ({"url": "x" * (2**20 + 1)}, "url has 1048577 characters"),
        ({"url": "\0"}, "url holds a NUL"),
        ({"url": "\udfff"}, "url holds half of a character"),
        ({"status": "1"}, "status must be a whole number"),
        ({"status": 1.5}, "status must be a whole number"),
        ({"status": 2**63}, "status must be a whole number"),
        ({"lastcrawltime": "now"}, "lastcrawltime must be a number"),
        ({"lastcrawltime": 2**64 - 1}, "lastcrawltime must be a number"),
        ({"updatetime": float("nan")}, "updatetime must be a number"),
        ({"fetch": None}, "fetch must be a mapping, not None"),
        ({"process": []}, r"process must be a mapping, not \[\]"),
        ({"track": "x"}, "track must be a mapping, not 'x'"),
        ({"fetch": {"save": b"x"}}, "fetch cannot be stored: .*bytes"),
        ({"fetch": {b"x": 1}}, "fetch cannot be stored: .*bytes"),
        ({"track": {"save": {1, 2}}}, "track cannot be stored: .*set"),
        ({"fetch": {"save": deep(201)}}, "fetch is nested deeper than 200 levels"),
        ({"fetch": {"save": deep(100_000)}}, "fetch is nested deeper than 200 levels"),
        ({"schedule": {"priority": float("nan")}}, "schedule: priority must be a number"),
        ({"schedule": {"retries": float("inf")}}, "schedule: retries must be a number"),
    ],
)
def test_what_no_database_takes_is_refused_by_its_part(part, words):
    with pytest.raises(BadMessage, match=words):
        check_task({**TASK, **part})


def test_a_part_that_holds_itself_is_nested_too_deep():
    endless: dict[str, Any] = {"text": "x"}
    endless["more"] = endless

    with pytest.raises(BadMessage, match="fetch is nested deeper than 200 levels"):
        check_task({**TASK, "fetch": endless})


def test_a_fault_is_told_in_few_words():
    with pytest.raises(BadMessage) as caught:
        check_task({**TASK, "x" * 10_000: 1})
    assert len(str(caught.value)) < 300


def test_a_script_may_have_numbers_for_task_ids():
    check_task({**TASK, "taskid": 7})


PACK = {**TASK, "track": {"fetch": {"ok": True, "time": 0.5}, "process": {"ok": True}}}


def test_a_status_pack_tells_how_a_try_ended():
    check_pack(PACK)
    check_pack({**PACK, "track": {"fetch": {}, "process": {"ok": False, "time": None}}})
    check_pack({**TASK, "taskid": "_on_get_info"})


@pytest.mark.parametrize(
    "track",
    [
        None,
        {},
        {"fetch": {}},
        {"process": {"ok": True}},
        {"fetch": {}, "process": {}},
        {"fetch": [], "process": {"ok": True}},
        {"fetch": {}, "process": "ok"},
        {"fetch": {"time": "long"}, "process": {"ok": True}},
        {"fetch": {}, "process": {"ok": True, "time": [1]}},
        {"fetch": {"time": float("nan")}, "process": {"ok": True}},
    ],
)
def test_what_tells_of_no_try_is_no_status_pack(track):
    with pytest.raises(BadMessage, match="track"):
        check_pack({**PACK, "track": track})


def test_what_a_script_tells_needs_no_url():
    pack = {"taskid": "_on_get_info", "project": "p", "track": {"save": {}}}

    assert with_url(pack) == {**pack, "url": "data:,_on_get_info"}
    assert with_url(PACK) is PACK
    assert with_url(7) == 7


@pytest.mark.parametrize("delays", [{0: "soon"}, {"": None}, {1: float("nan")}, {0: [1]}])
def test_delays_that_are_no_numbers_are_not_taken_from_a_script(delays):
    good, faults = usable_info({"retry_delay": delays, "min_tick": 3})

    assert good == {"min_tick": 3}
    assert faults[0].startswith("retry_delay")
