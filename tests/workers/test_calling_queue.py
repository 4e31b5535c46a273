"""A queue that calls a function before its reader waits."""

import queue

import pytest

from pyspider_zk.workers.calling_queue import AGAIN, CallingQueue


def test_a_reader_that_fails_for_ever_rests_each_time() -> None:
    rests: list[float] = []

    def fail() -> None:
        raise OSError("the working folder is gone")

    calling = CallingQueue(queue.Queue(), fail, rests.append)

    for _ in range(3):
        with pytest.raises(OSError, match="working folder"):
            calling.get(timeout=0)
    assert rests == [AGAIN] * 3


def test_a_reader_that_finds_nothing_does_not_rest() -> None:
    rests: list[float] = []

    with pytest.raises(queue.Empty):
        CallingQueue(queue.Queue(), lambda: None, rests.append).get(block=False)
    assert rests == []
