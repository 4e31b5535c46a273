"""Garbage is collected between rounds while a component runs, and as before afterwards."""

import gc
import weakref

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
