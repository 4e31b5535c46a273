"""A loop takes turns until it is stopped, wakes when told, and outlives a failed turn."""

import logging
import threading
from queue import SimpleQueue

import pytest

from pyspider_zk.loop import Loop

LONG = 3600.0  # a loop that sleeps so long takes its next turn only because it is woken
LIMIT = 60.0


def test_it_takes_a_turn_when_it_starts_and_whenever_it_is_woken() -> None:
    turns: SimpleQueue[int] = SimpleQueue()

    def turn() -> float:
        turns.put(1)
        return LONG

    loop = Loop("turns", turn)
    loop.start()
    for _ in range(3):
        assert turns.get(timeout=LIMIT)
        loop.wake()
    loop.stop()


def test_it_sleeps_until_woken_if_a_turn_asks_for_it() -> None:
    turns: SimpleQueue[int] = SimpleQueue()
    loop = Loop("turns", lambda: turns.put(1))
    loop.start()
    assert turns.get(timeout=LIMIT)
    loop.wake("an event of ZooKeeper")
    assert turns.get(timeout=LIMIT)
    loop.stop()


def test_what_a_turn_raises_is_logged_and_the_next_turn_comes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.ERROR)
    turns: SimpleQueue[int] = SimpleQueue()
    failures = iter([OSError("no disk")])

    def turn() -> float:
        turns.put(1)
        for failure in failures:
            raise failure
        return LONG

    loop = Loop("unlucky", turn, pause=0.0)
    loop.start()
    assert turns.get(timeout=LIMIT)
    assert turns.get(timeout=LIMIT)
    loop.stop()
    assert "unlucky" in caplog.text
    assert "no disk" in caplog.text


def test_it_ends_from_within_a_turn_and_no_other_follows() -> None:
    turns = []
    ended = threading.Event()

    def turn() -> float:
        turns.append(1)
        loop.end()
        ended.set()
        return 0.0

    loop = Loop("once", turn)
    loop.start()
    assert ended.wait(LIMIT)
    loop.stop()
    assert loop.ends
    assert turns == [1]


def test_its_rest_ends_with_it_though_nobody_wakes_it() -> None:
    resting = threading.Event()

    def turn() -> float:
        resting.set()
        loop.rest(LONG)
        return LONG

    loop = Loop("resting", turn)
    loop.start()
    assert resting.wait(LIMIT)
    loop.stop()


def test_one_that_never_started_can_be_stopped() -> None:
    Loop("idle", lambda: LONG).stop()
