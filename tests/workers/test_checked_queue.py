"""A worker whose queue fails for ever does not use up its processor."""

import logging
import queue

import pytest

from pyspider_zk.workers.checked_queue import AGAIN, CheckedQueue

logger = logging.getLogger(__name__)


def test_a_reader_that_fails_for_ever_rests_each_time() -> None:
    rests: list[float] = []

    def fail() -> None:
        raise OSError("the working folder is gone")

    calling = CheckedQueue(queue.Queue(), bool, logger, fail, rests.append)

    for _ in range(3):
        with pytest.raises(OSError, match="working folder"):
            calling.get(timeout=0)
    assert rests == [AGAIN] * 3


def test_a_reader_that_finds_nothing_does_not_rest() -> None:
    rests: list[float] = []

    with pytest.raises(queue.Empty):
        CheckedQueue(queue.Queue(), bool, logger, wait=rests.append).get(block=False)
    assert rests == []
