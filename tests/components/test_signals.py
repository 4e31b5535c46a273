"""Signals end a component in order, whatever its main thread is doing."""

import os
import signal
import threading

from pyspider_zk.components.signals import interrupts, on_signals
from tests.support.stand_ins import running


def send(number: signal.Signals) -> None:
    os.kill(os.getpid(), number)


def test_a_signal_calls_its_reaction() -> None:
    called = threading.Event()
    with on_signals({signal.SIGUSR1: called.set}):
        send(signal.SIGUSR1)
        assert called.wait(60)


def test_a_reaction_may_need_a_lock_that_the_main_thread_holds() -> None:
    # given
    lock, called = threading.Lock(), threading.Event()

    def react() -> None:
        with lock:
            called.set()

    # when
    with on_signals({signal.SIGUSR1: react}):
        with lock:
            send(signal.SIGUSR1)
        # then
        assert called.wait(60)


def test_afterwards_everything_is_as_before() -> None:
    before = signal.getsignal(signal.SIGUSR1)
    with on_signals({signal.SIGUSR1: lambda: None}):
        assert signal.getsignal(signal.SIGUSR1) is not before
    assert signal.getsignal(signal.SIGUSR1) is before


def test_on_another_thread_the_block_just_runs() -> None:
    before = signal.getsignal(signal.SIGUSR1)
    seen = []

    def block() -> None:
        with on_signals({signal.SIGUSR1: lambda: None}):
            seen.append(signal.getsignal(signal.SIGUSR1))

    with running(block):
        pass
    assert seen == [before]


def test_ctrl_c_is_counted_and_then_given_back() -> None:
    before = signal.getsignal(signal.SIGINT)
    with interrupts() as asked:
        assert not asked.any
        send(signal.SIGINT)
        assert asked.any
        assert not asked.several
        send(signal.SIGTERM)
        assert asked.several
    assert signal.getsignal(signal.SIGINT) is before
