"""What a mark tells of the task at hand, and of the one that was lost."""

import os
import signal

import pytest

from pyspider_zk.components.task_mark import ROOM, TaskMark

TASK = {"taskid": "t", "project": "p", "url": "http://site.example/", "schedule": {"age": 1}}


@pytest.fixture
def mark() -> TaskMark:
    return TaskMark()


def test_a_task_is_at_hand_while_its_block_runs(mark: TaskMark) -> None:
    assert not mark.is_at_hand
    with mark.at_hand(TASK):
        with mark.at_hand({**TASK, "taskid": "a message to another project"}):
            pass
        assert mark.is_at_hand
    assert not mark.is_at_hand


def test_only_a_limit_makes_it_overdue(mark: TaskMark) -> None:
    with mark.at_hand(TASK):
        assert not mark.is_overdue
        mark.limit(1e-9)
        assert mark.is_overdue
        mark.limit(0)
        assert not mark.is_overdue
        mark.limit(1e-9)
    assert not mark.is_overdue
    with mark.at_hand(TASK):
        assert not mark.is_overdue


def test_what_another_process_had_at_hand_is_known_when_it_is_gone(mark: TaskMark) -> None:
    child = os.fork()
    if not child:
        with mark.at_hand({**TASK, "fetch": {"data": "x" * ROOM}}):
            os._exit(7)
    os.waitpid(child, 0)

    mark.lose(7, overdue=False)

    lost = mark.lost()
    assert lost is not None
    assert lost.task == TASK
    assert lost.reason == "its process ended in the middle of it, with code 7"
    assert mark.deaths() == {"overdue": 0, "died": 1}
    mark.reported()
    assert mark.lost() is None


def test_a_task_that_is_too_long_is_lost_without_a_name(mark: TaskMark) -> None:
    with mark.at_hand({**TASK, "url": "x" * ROOM}):
        mark.lose(-signal.SIGKILL, overdue=True)
        lost = mark.lost()
    assert lost is not None
    assert lost.task == {}
    assert "time limit" in lost.reason
    assert mark.deaths() == {"overdue": 1, "died": 0}
