"""When a task runs again by itself, and after a failure; beside pyspider: test_stock_model.py."""

from typing import Any

import pytest

from pyspider_zk.scheduling.task_rules import recrawl_delay, retry_delay

DELAYS = {0: 30, 1: 3600, "": 86400}
USUAL = {0: 7, 1: 70, 2: 700, "": 7000}


@pytest.mark.parametrize(
    ("schedule", "delay"),
    [
        ({}, None),
        ({"age": 10}, None),
        ({"auto_recrawl": True}, None),
        ({"auto_recrawl": False, "age": 10}, None),
        ({"auto_recrawl": True, "age": 10}, 10),
        ({"auto_recrawl": True, "age": 0}, 0),
        ({"auto_recrawl": True, "age": -1}, None),
    ],
)
def test_a_task_runs_again_by_itself_at_its_age(
    schedule: dict[str, Any], delay: float | None
) -> None:
    assert recrawl_delay(schedule) == delay


@pytest.mark.parametrize(
    ("schedule", "retried", "delay"),
    [
        ({}, 0, 30),
        ({}, 1, 3600),
        ({}, 2, 86400),
        ({}, 3, None),
        ({"age": 10}, 0, 10),
        ({"age": 10}, 3, None),
        ({"age": 100}, 0, 30),
        ({"age": -1}, 0, 30),
        ({"age": -1}, 3, None),
        ({"age": -0.5, "auto_recrawl": True}, 0, 30),
        ({"age": -1, "auto_recrawl": True}, 3, None),
        ({"age": 10, "auto_recrawl": True}, 0, 10),
        ({"age": 100, "auto_recrawl": True}, 0, 30),
        ({"age": 100, "auto_recrawl": True}, 3, 100),
    ],
)
def test_a_task_that_failed_is_tried_again(
    schedule: dict[str, Any], retried: int, delay: float | None
) -> None:
    assert retry_delay(schedule, 3, retried, DELAYS, USUAL) == delay


@pytest.mark.parametrize(
    ("delays", "retried", "delay"),
    [
        ({}, 0, 7),
        ({}, 9, 7000),
        ({1: 5}, 0, 7),
        ({1: 5}, 1, 5),
        ({1: 5}, 2, 700),
        ({1: 5}, 3, 7000),
        ({0: 0}, 0, 0),
        ({0: -1}, 0, None),
        ({"": 5}, 2, 5),
        ({"": -1}, 2, None),
        ({0: 1, "": 5}, 1, 5),
    ],
)
def test_tries_that_a_script_does_not_name_have_the_usual_delay(
    delays: dict[Any, float], retried: int, delay: float | None
) -> None:
    assert retry_delay({}, 10, retried, delays, USUAL) == delay
