"""What is a task, and what of it pyspider can compare."""

import pytest

from pyspider_zk.core.tasks import check_task, own_task, sort_out, usable_info, usable_schedule
from pyspider_zk.errors import BadMessage

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


def test_of_many_tasks_the_good_ones_are_told_and_the_first_fault():
    good, fault = sort_out([TASK, {"project": "p"}, 7])

    assert good == [TASK]
    assert fault == "a task needs taskid, url"


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
