"""What fails is tried again, later and later, and holds up nothing else."""

from itertools import pairwise

import pytest

from pyspider_zk.errors import GateClosed
from pyspider_zk.hooks.agenda import PAUSES, Agenda


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
    agenda = Agenda(acts)
    agenda.put("p", due=10)

    assert not agenda.is_due(9)
    for now in (9, 10, 11):
        agenda.work(now)

    assert acts.done == ["p"]
    assert not agenda.is_due(99)


def test_what_fails_comes_again_later_and_later() -> None:
    acts = Acts()
    acts.faults["p"] = OSError("locked")
    agenda = Agenda(acts)
    agenda.put("p", due=0)

    now, moments = 0.0, []
    while len(moments) < len(PAUSES) + 2:
        before = len(acts.done)
        agenda.work(now)
        moments += [now] * (len(acts.done) - before)
        now += 1

    gaps = [after - before for before, after in pairwise(moments)]
    assert gaps == [*PAUSES, PAUSES[-1]]


def test_one_that_always_fails_holds_up_no_other() -> None:
    acts = Acts()
    acts.faults["a"] = OSError("corrupt")
    agenda = Agenda(acts)
    for name in "abc":
        agenda.put(name, due=0)

    agenda.work(0)
    agenda.work(0)

    assert acts.done == ["a", "b", "c"]
    assert agenda.names() == ["a"]


def test_a_closed_gate_is_no_failure() -> None:
    acts = Acts()
    acts.faults["p"] = GateClosed("not now")
    agenda = Agenda(acts)
    agenda.put("p", due=0)

    with pytest.raises(GateClosed):
        agenda.work(0)
    acts.faults.clear()
    agenda.work(0)

    assert acts.done == ["p", "p"]
    assert agenda.names() == []


def test_what_is_put_or_dropped_meanwhile_is_not_overwritten() -> None:
    def act(name: str) -> None:
        agenda.put(name, due=5)
        agenda.drop("b")

    agenda = Agenda(act)
    agenda.put("a", due=0)
    agenda.put("b", due=0)

    agenda.work(0)

    assert agenda.names() == ["a"]
    assert not agenda.is_due(4)
