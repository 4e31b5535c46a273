"""Lines that wait reach the stream in whole, and before the process ends, however it ends."""

import io
import logging
import os
import select
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

LINE = "x" * 99 + "\n"


class Writes(io.FileIO):
    """A file that remembers each write."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "w")
        self.seen: list[bytes] = []

    def write(self, data: Any) -> int | None:
        self.seen.append(bytes(data))
        return super().write(data)


@pytest.fixture
def raw(tmp_path: Path) -> Iterator[Writes]:
    with Writes(tmp_path / "log") as raw:
        yield raw


@pytest.fixture(params=["buffered", "unbuffered"])
def handler(request: pytest.FixtureRequest, raw: Writes) -> Any:
    """Give a handler of a stream like sys.stderr, also as `python -u` makes it."""
    if request.param == "unbuffered":
        return logging.StreamHandler(io.TextIOWrapper(raw, "utf-8", None, "\n", True, True))
    stream = io.TextIOWrapper(io.BufferedWriter(raw), "utf-8", line_buffering=True)
    return logging.StreamHandler(stream)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let lines wait for good, unless somebody flushes."""
    monkeypatch.setattr(delayed_flush, "DELAY", threading.TIMEOUT_MAX)


@pytest.mark.usefixtures("patient")
def test_many_lines_are_one_write_of_whole_lines(handler: Any, raw: Writes) -> None:
    with DelayedFlush(handler) as stream:
        for _ in range(1000):
            assert stream.write(LINE)
    assert b"".join(raw.seen).decode() == LINE * 1000
    assert len(raw.seen) == -(-1000 // (select.PIPE_BUF // 100))
    assert max(map(len, raw.seen)) <= select.PIPE_BUF
    assert all(each.endswith(b"\n") for each in raw.seen)


@pytest.mark.usefixtures("patient")
def test_a_long_line_is_written_as_it_is(handler: Any, raw: Writes) -> None:
    long = "y" * 3 * select.PIPE_BUF + "\n"
    with DelayedFlush(handler) as stream:
        for line in (LINE, long, LINE):
            stream.write(line)
    assert b"".join(raw.seen).decode() == LINE + long + LINE
    assert LINE.encode() in raw.seen


def test_a_line_does_not_wait_for_the_next(handler: Any, raw: Writes) -> None:
    with DelayedFlush(handler) as stream:
        for number in range(1, 4):
            stream.write(LINE)
            eventually(lambda number=number: len(raw.seen) == number)


@pytest.mark.usefixtures("patient")
def test_what_others_write_comes_after_it(handler: Any, raw: Writes) -> None:
    with DelayedFlush(handler) as stream:
        stream.write(LINE)
        handler.handle(logging.makeLogRecord({"msg": "a warning"}))
        assert b"".join(raw.seen).decode() == LINE + "a warning\n"


@pytest.mark.usefixtures("patient")
def test_afterwards_the_stream_is_as_it_was(handler: Any, raw: Writes) -> None:
    before = (handler.stream.line_buffering, handler.stream.write_through)
    with DelayedFlush(handler) as stream:
        assert not handler.stream.line_buffering
    assert (handler.stream.line_buffering, handler.stream.write_through) == before
    assert not stream.write(LINE)
    handler.stream.write("at once\n")
    assert raw.seen == [b"at once\n"]


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


def test_an_end_after_the_last_look_is_noticed(handler: Any, raw: Writes) -> None:
    stream = DelayedFlush(handler)
    stream._some_wait = Announced()
    stream._ends = ends = Overtaken(stream._some_wait)
    with stream:
        stream.write(LINE)
        ends.looked.wait()
    assert b"".join(raw.seen).decode() == LINE


@pytest.mark.usefixtures("patient")
def test_a_full_disk_is_told_by_the_next_line(capsys: pytest.CaptureFixture[str]) -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        handler = logging.StreamHandler(full)
        with DelayedFlush(handler) as stream:
            stream.write(LINE)
            handler.handle(logging.makeLogRecord({"msg": "a warning"}))
            assert "No space left on device" in capsys.readouterr().err
            os.dup2(os.open(os.devnull, os.O_WRONLY), full.fileno())  # or closing it fails


# -- who may wait ----------------------------------------------------------------------------


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
    " thread.join(); tell(100); os._exit(4)",
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
    others = [each for each, line in enumerate(lines) if "a traceback" in line or " an " in line]
    assert all(" p:t 99" in "".join(lines[:each]) for each in others)


def test_a_kill_loses_what_was_not_flushed(tmp_path: Path) -> None:
    """Or the other tests would prove nothing, as no line waits under the real config."""
    lines = ended(tmp_path, "os.kill(os.getpid(), signal.SIGKILL)")
    assert 0 < len([line for line in lines if " p:t " in line]) < 100
