"""What fails is tried again, later and later, and holds up nothing else."""

from itertools import pairwise

import pytest

from pyspider_zk.errors import FenceClosed
from pyspider_zk.scheduling.retry_queue import PAUSES, RetryQueue


class Acts:
    """Notes what was done; fails while it is told to."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.faults: dict[str, Exception] = {}

    def __call__(self, project: str) -> None:
        self.done.append(project)
        if project in self.faults:
            raise self.faults[project]


def test_a_project_comes_once_and_not_before_its_time() -> None:
    acts = Acts()
    retry_queue = RetryQueue(acts)
    retry_queue.put("p", due=10)

    assert not retry_queue.is_due(9)
    for now in (9, 10, 11):
        retry_queue.work(now)

    assert acts.done == ["p"]
    assert not retry_queue.is_due(99)


def test_what_fails_comes_again_later_and_later() -> None:
    acts = Acts()
    acts.faults["p"] = OSError("locked")
    retry_queue = RetryQueue(acts)
    retry_queue.put("p", due=0)

    now, moments = 0.0, []
    while len(moments) < len(PAUSES) + 2:
        before = len(acts.done)
        retry_queue.work(now)
        moments += [now] * (len(acts.done) - before)
        now += 1

    gaps = [after - before for before, after in pairwise(moments)]
    assert gaps == [*PAUSES, PAUSES[-1]]


def test_one_that_always_fails_holds_up_no_other() -> None:
    acts = Acts()
    acts.faults["a"] = OSError("corrupt")
    retry_queue = RetryQueue(acts)
    for name in "abc":
        retry_queue.put(name, due=0)

    retry_queue.work(0)
    retry_queue.work(0)

    assert acts.done == ["a", "b", "c"]
    assert retry_queue.names() == ["a"]


def test_a_closed_fence_is_no_failure() -> None:
    acts = Acts()
    acts.faults["p"] = FenceClosed("not now")
    retry_queue = RetryQueue(acts)
    retry_queue.put("p", due=0)

    with pytest.raises(FenceClosed):
        retry_queue.work(0)
    acts.faults.clear()
    retry_queue.work(0)

    assert acts.done == ["p", "p"]
    assert retry_queue.names() == []


def test_what_is_put_or_dropped_meanwhile_is_not_overwritten() -> None:
    def act(name: str) -> None:
        retry_queue.put(name, due=5)
        retry_queue.drop("b")

    retry_queue = RetryQueue(act)
    retry_queue.put("a", due=0)
    retry_queue.put("b", due=0)

    retry_queue.work(0)

    assert retry_queue.names() == ["a"]
    assert not retry_queue.is_due(4)
