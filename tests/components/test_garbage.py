"""Garbage is collected between rounds while a component runs, and as before afterwards."""

import gc
import weakref
from contextlib import ExitStack

import pytest

from pyspider_zk.components.garbage import INTERVAL, RARELY, collected_between_rounds


class Cycle:
    """Garbage that only a collection finds."""

    def __init__(self) -> None:
        self.own = self


def test_what_is_there_is_never_looked_at_again() -> None:
    with collected_between_rounds():
        assert gc.get_threshold() == RARELY
        assert gc.get_freeze_count() > 0


def test_afterwards_everything_is_as_before() -> None:
    before = gc.get_threshold()
    with pytest.raises(RuntimeError), collected_between_rounds():
        raise RuntimeError
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0


@pytest.mark.parametrize("first", [0, 1])
def test_two_members_of_a_process_leave_it_as_before_whoever_ends_first(first: int) -> None:
    before = gc.get_threshold()
    members = [ExitStack() for _ in range(2)]
    for each in members:
        each.enter_context(collected_between_rounds())
    for each in (members[first], members[not first]):
        each.close()
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0


def test_garbage_is_collected_once_per_interval() -> None:
    now = [0.0]
    with collected_between_rounds(lambda: now[0]) as collect_if_due:
        for _ in range(2):
            dead = weakref.ref(Cycle())
            collect_if_due()
            assert dead() is not None
            now[0] += INTERVAL
            collect_if_due()
            assert dead() is None
