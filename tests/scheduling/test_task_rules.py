"""When a task runs again by itself, and after a failure; beside pyspider: test_stock_model.py."""

from typing import Any

import pytest

from pyspider_zk.scheduling.task_rules import recrawl_delay, retry_delay

DELAYS = {0: 30, 1: 3600, "": 86400}


@pytest.mark.parametrize(
    ("schedule", "delay"),
    [
        ({}, None),
        ({"age": 10}, None),
        ({"auto_recrawl": True}, None),
        ({"auto_recrawl": False, "age": 10}, None),
        ({"auto_recrawl": True, "age": 10}, 10),
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
        ({"age": -1}, 0, None),
        ({"age": 10, "auto_recrawl": True}, 0, 10),
        ({"age": 100, "auto_recrawl": True}, 0, 30),
        ({"age": 100, "auto_recrawl": True}, 3, 100),
    ],
)
def test_a_task_that_failed_is_tried_again(
    schedule: dict[str, Any], retried: int, delay: float | None
) -> None:
    assert retry_delay(schedule, 3, retried, DELAYS, last=5) == delay


@pytest.mark.parametrize(("last", "delay"), [(5, 5), (0, 0), (-1, None)])
def test_without_a_delay_for_all_others_the_last_one_counts(
    last: float, delay: float | None
) -> None:
    assert retry_delay({}, 3, 2, {0: 30}, last) == delay
