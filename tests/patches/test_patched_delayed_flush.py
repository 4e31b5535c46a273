"""Lines that wait reach the stream in whole, and before the process ends, however it ends."""

import io
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspider.libs import delayed_flush
from pyspider.libs.delayed_flush import DelayedFlush, can_wait

from tests.support.processes import PROGRAM, ROOT
from tests.support.waiting import eventually


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let lines wait for good, unless somebody flushes."""
    monkeypatch.setattr(delayed_flush, "DELAY", threading.TIMEOUT_MAX)


class WaitingLines:
    """What waits, for a flush that moves it."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.waiting: list[int] = []
        self.flushed: list[int] = []
        self.delay = DelayedFlush(self.flush, self.waiting.clear, self.lock)

    def flush(self) -> None:
        with self.lock:
            self.flushed += self.waiting
            self.waiting.clear()

    def add(self, number: int) -> None:
        self.waiting.append(number)
        self.delay.call_soon()


def test_nothing_waits_for_the_next() -> None:
    kept = WaitingLines()
    with kept.delay:
        for number in range(3):
            kept.add(number)
            eventually(lambda number=number: kept.flushed == list(range(number + 1)))


@pytest.mark.usefixtures("patient")
def test_the_end_flushes_and_closes() -> None:
    kept = WaitingLines()
    assert not kept.delay.is_open
    with kept.delay:
        assert kept.delay.is_open
        kept.add(1)
    assert kept.flushed == [1]
    assert not kept.delay.is_open


@pytest.mark.usefixtures("patient")
def test_a_fork_flushes_first_and_nothing_waits_in_the_new_process() -> None:
    kept = WaitingLines()
    late: list[int] = [2]  # as by another thread, after the flush; hooks are called in turn
    os.register_at_fork(before=lambda: kept.waiting.extend(late))
    with kept.delay:
        kept.add(1)
        child = os.fork()
        if not child:
            is_as_it_should = kept.flushed == [1] and not kept.waiting and not kept.delay.is_open
            os._exit(0 if is_as_it_should else 1)
        late.clear()
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert kept.waiting == [2]
        assert kept.delay.is_open
        thread = threading.Thread(target=kept.flush)  # it can take the lock
        thread.start()
        thread.join()
    assert kept.flushed == [1, 2]


class Announced(threading.Event):
    """An event that counts how often it was set."""

    def __init__(self) -> None:
        super().__init__()
        self.times = threading.Semaphore(0)

    def set(self) -> None:
        super().set()
        self.times.release()


class Overtaken(threading.Event):
    """An event that is set, and another one too, just after somebody looked."""

    def __init__(self, other: Announced) -> None:
        super().__init__()
        self.looked = threading.Event()
        self.other = other

    def wait(self, timeout: float | None = None) -> bool:  # noqa: ARG002
        found = self.is_set()
        self.looked.set()
        if not found:
            self.other.times.acquire()  # by the line
            self.other.times.acquire()  # by the end
        return found


def test_an_end_after_the_last_look_is_noticed() -> None:
    kept = WaitingLines()
    kept.delay._some_wait = Announced()
    kept.delay.call_soon = kept.delay._some_wait.set
    kept.delay._ends = ends = Overtaken(kept.delay._some_wait)
    with kept.delay:
        kept.add(1)
        ends.looked.wait()
    assert kept.flushed == [1]


# -- who may wait ----------------------------------------------------------------------------


@pytest.fixture
def handler(tmp_path: Path) -> Iterator[Any]:
    """Give a handler of a plain stream."""
    with (tmp_path / "log").open("w", encoding="utf-8") as stream:
        yield logging.StreamHandler(stream)


def _closed(handler: Any) -> Any:
    handler.stream.close()
    return handler


class OtherStreamHandler(logging.StreamHandler[Any]):
    pass


@pytest.mark.parametrize(
    ("others", "waits"),
    [
        (lambda handler: handler, True),
        (_closed, False),
        (lambda handler: OtherStreamHandler(handler.stream), False),
        (lambda _: logging.NullHandler(), False),
        (lambda _: logging.StreamHandler(io.StringIO()), False),
    ],
)
def test_a_handler_of_a_plain_stream_can_wait(
    handler: Any, others: Callable[[Any], Any], waits: bool
) -> None:
    before = signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        assert can_wait(others(handler)) is waits
    finally:
        signal.signal(signal.SIGTERM, before)


def test_nothing_waits_where_sigterm_ends_the_process_on_the_spot(handler: Any) -> None:
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        assert not can_wait(handler)
    finally:
        signal.signal(signal.SIGTERM, before)


# -- however the process ends ----------------------------------------------------------------

COMPONENT = """
import logging, os, signal, sys, threading
from pyspider.libs import delayed_flush
from pyspider.scheduler.scheduler import logger, task_log
from pyspider_zk.components.signals import on_signals

delayed_flush.DELAY = threading.TIMEOUT_MAX
TASK = {"project": "p", "taskid": "t"}

def tell(url):
    task_log.info("select %(project)s:%(taskid)s %(url)s", {**TASK, "url": url})

def raise_it():
    raise RuntimeError("a traceback")

def fork():
    if not os.fork():
        tell("child")
        sys.exit()
    os.wait()

class Loud:
    def __init__(self, resultdb, inqueue):
        pass

    def run(self):
        logger.disabled = False  # a logging config mutes those that were there before it
        ended = threading.Event()
        with on_signals({signal.SIGTERM: ended.set}), task_log.flushed_late():
            for number in range(100):
                tell(number)
            WHAT
"""
ENDS = {
    "the end": "pass",
    "an exception": "raise_it()",
    "exit": "sys.exit(3)",
    "SIGTERM": "os.kill(os.getpid(), signal.SIGTERM); ended.wait()",
    "a thread's exception": "thread = threading.Thread(target=raise_it); thread.start();"
    " thread.join()",
    "an error": "logger.error('an error'); os.kill(os.getpid(), signal.SIGKILL)",
    "a warning of others": "logging.getLogger('fetcher').warning('a warning');"
    " os.kill(os.getpid(), signal.SIGKILL)",
    "a fork": "fork()",
}


def ended(folder: Path, what: str, *options: str) -> list[str]:
    """Return the log of a component that ends so, under the real command and its config."""
    (folder / "loud.py").write_text(COMPONENT.replace("WHAT", what))
    done = subprocess.run(
        [sys.executable, *options, *PROGRAM[1:], "result-worker", "--result-cls", "loud.Loud"],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": f"{ROOT}:{folder}"},
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    return done.stderr.splitlines()


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("-u",)], ids=["buffered", "unbuffered"])
@pytest.mark.parametrize("what", ENDS.values(), ids=ENDS.keys())
def test_nothing_is_lost_doubled_or_late(
    tmp_path: Path, what: str, options: tuple[str, ...]
) -> None:
    lines = ended(tmp_path, what, *options)
    told = [line.rpartition(" p:t ")[2] for line in lines if " p:t " in line]
    assert told == [*map(str, range(100)), *(["child"] if what == "fork()" else [])]
    others = [
        each for each, line in enumerate(lines) if " a warning" in line or " an error" in line
    ]
    assert all(" p:t 99" in "".join(lines[:each]) for each in others)
    assert bool(others) is ("error" in what or "warning" in what)
    assert ("RuntimeError: a traceback" in "\n".join(lines)) is ("raise_it" in what)


def test_a_kill_loses_what_was_not_flushed(tmp_path: Path) -> None:
    """Or the other tests would prove nothing, as no line waits under the real config."""
    lines = ended(tmp_path, "os.kill(os.getpid(), signal.SIGKILL)")
    assert 0 < len([line for line in lines if " p:t " in line]) < 100
