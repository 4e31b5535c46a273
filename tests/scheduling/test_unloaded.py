"""What is known of tasks that are not in memory goes only after they were loaded."""

import pytest

from pyspider_zk.scheduling import unloaded
from pyspider_zk.scheduling.unloaded import NONE, Scan, Unloaded


def due_scan(tasks: Unloaded) -> Scan:
    scan = tasks.next_scan(due=True, put_off=False)
    assert scan is not None
    return scan


def test_a_task_that_is_left_out_behind_a_scan_is_looked_for_by_the_next() -> None:
    tasks = Unloaded()
    tasks.add_due(1)
    first = due_scan(tasks)
    tasks.add_due(1)
    tasks.passed(first, None)
    second = due_scan(tasks)
    tasks.passed(second, None)
    assert second is not first
    assert not tasks


def test_unknown_tasks_behind_a_scan_of_all_are_looked_for_by_the_next() -> None:
    tasks = Unloaded()
    tasks.add_unknown()
    first = due_scan(tasks)
    tasks.add_unknown()
    tasks.passed(first, None)
    assert tasks
    tasks.passed(due_scan(tasks), None)
    assert not tasks


def test_a_scan_that_more_urgent_tasks_interrupted_goes_on_where_it_was() -> None:
    tasks = Unloaded()
    tasks.add_due(1)
    low = due_scan(tasks)
    tasks.add_due(2)
    high = due_scan(tasks)
    tasks.passed(high, None)
    assert (low.priority, high.priority) == (1, 2)
    assert due_scan(tasks) is low


def test_a_priority_that_is_told_apart_no_more_is_looked_for_with_the_lowest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(unloaded, "MOST_LEVELS", 3)
    tasks = Unloaded()
    tasks.add_due(1)
    first = due_scan(tasks)
    for priority in (2, 3, 4):
        tasks.add_due(priority)
    tasks.passed(due_scan(tasks), None)
    tasks.passed(due_scan(tasks), None)
    tasks.passed(first, None)
    second = due_scan(tasks)
    assert (second.priority, second is first) == (1, False)


def test_the_earliest_that_a_scan_left_out_again_is_known_after_it() -> None:
    tasks = Unloaded()
    for exetime in (50, 60, 70):
        tasks.add_put_off(exetime)
    scan = tasks.next_scan(due=True, put_off=True)
    assert scan is not None
    assert (scan.exetime, tasks.exetime) == (50, NONE)
    tasks.add_put_off(60)
    tasks.passed(scan, None)
    assert tasks.exetime == 60


def test_nothing_is_loaded_where_there_is_no_room() -> None:
    tasks = Unloaded()
    tasks.add_due(1)
    tasks.add_put_off(50)
    assert tasks.next_scan(due=False, put_off=False) is None
    assert tasks


def test_the_count_follows_what_is_left_out_and_loaded() -> None:
    tasks = Unloaded()
    for _ in range(3):
        tasks.add_due(1)
    tasks.take_one()
    assert tasks.count == 2
    tasks.add_unknown()
    scan = tasks.next_scan(due=False, put_off=False)
    assert scan is not None
    tasks.add_due(1)
    tasks.passed(scan, None)
    assert tasks.count == 1
