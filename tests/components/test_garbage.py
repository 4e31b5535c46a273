"""Garbage is collected rarely while a component runs, and as before afterwards."""

import gc

import pytest

from pyspider_zk.components.garbage import RARELY, collected_rarely


def test_what_is_there_is_never_looked_at_again() -> None:
    with collected_rarely():
        assert gc.get_threshold() == RARELY
        assert gc.get_freeze_count() > 0


def test_afterwards_everything_is_as_before() -> None:
    before = gc.get_threshold()
    with pytest.raises(RuntimeError), collected_rarely():
        raise RuntimeError
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0
