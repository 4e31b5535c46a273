"""Since when tasks wait to be sent."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspider.scheduler.task_queue import TaskQueue

from pyspider_zk.scheduling import due_queue
from pyspider_zk.scheduling.due_queue import DueQueue

STEPS = st.tuples(st.sampled_from(["put", "get", "delete"]), st.sampled_from("abcd"))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Give the present time, to be changed in place."""
    now = [100.0]
    monkeypatch.setattr(due_queue.time, "time", lambda: now[0])
    return now


def dated() -> TaskQueue:
    tasks = TaskQueue(rate=1e9, burst=1e9)
    tasks.priority_queue = DueQueue()
    return tasks


def test_the_oldest_is_the_one_that_waits_longest_not_the_next_to_go(clock: list[float]) -> None:
    tasks = dated()
    assert tasks.priority_queue.oldest is None
    tasks.put("unimportant", priority=0)
    clock[0] = 101.0
    tasks.put("urgent", priority=9)
    assert tasks.priority_queue.oldest == 100.0
    assert tasks.get() == "urgent"
    assert tasks.priority_queue.oldest == 100.0
    assert tasks.get() == "unimportant"
    assert tasks.priority_queue.oldest is None


def test_asking_again_for_a_task_does_not_make_it_younger(clock: list[float]) -> None:
    tasks = dated()
    tasks.put("a", priority=0)
    clock[0] = 105.0
    tasks.put("a", priority=3)
    assert tasks.priority_queue.oldest == 100.0


@pytest.mark.usefixtures("clock")
def test_what_is_put_off_waits_only_once_it_is_due() -> None:
    tasks = dated()
    tasks.put("a", exetime=1.0)  # long ago: due now
    tasks.put("b", exetime=4e9)
    assert tasks.priority_queue.oldest == 100.0
    tasks.delete("a")
    assert tasks.priority_queue.oldest is None


@given(st.lists(STEPS))
def test_times_are_kept_of_exactly_those_that_wait(steps: list[tuple[str, str]]) -> None:
    tasks = dated()
    for step, taskid in steps:
        if step == "put":
            tasks.put(taskid)
        elif step == "delete":
            tasks.delete(taskid)
        else:
            tasks.done(tasks.get())
        assert set(tasks.priority_queue._since) == set(tasks.priority_queue.queue_dict)
