"""Lines past the logger are those that the logger would write, and only while it would."""

import io
import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyspider.libs import delayed_flush
from pyspider.libs.log import LogFormatter
from pyspider.libs.task_log import TaskLog

from pyspider_zk.cli.json_lines import JsonLines
from pyspider_zk.cli.log_lines import LIMIT, Escape

LINE = "select %(project)s:%(taskid)s %(url)s"
TASK = {"project": "p", "taskid": "t", "url": "http://site.example/"}


@contextmanager
def ended_by_python() -> Iterator[None]:
    """Handle SIGTERM while the block runs, as a scheduler does; or lines do not wait."""
    before = signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class TaskLines:
    """A logger of its own as pyspider's logging.conf makes it, into a file."""

    def __init__(self, path: Path, *filters: Any) -> None:
        self.path = path
        self.stream = path.open("w", encoding="utf-8", errors="backslashreplace", newline="")
        self.handler = logging.StreamHandler(self.stream)
        self.handler.setFormatter(LogFormatter())
        for each in filters:
            self.handler.addFilter(each)
        # pytest would add handlers to a logger of the usual manager's.
        self.logger = logging.Manager(logging.RootLogger(logging.INFO)).getLogger("test")
        self.logger.propagate = False
        self.logger.addHandler(self.handler)
        self.tasks = TaskLog(self.logger)

    def tell(self, task: Any = TASK) -> None:
        self.tasks.info(LINE, task)

    @property
    def written(self) -> bytes:
        return self.path.read_bytes()

    def waits(self) -> bool:
        """Tell once more; return whether that line waits, as none does that the logger writes."""
        before = self.written
        self.tell()
        return self.written == before


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TaskLines]:
    """Give a log whose lines wait for good, unless somebody flushes."""
    monkeypatch.setattr(delayed_flush, "DELAY", threading.TIMEOUT_MAX)
    log = TaskLines(tmp_path / "log", Escape())
    with ended_by_python(), log.tasks.flushed_late():
        log.tell()  # the first of a kind is the logger's
        assert log.waits()
        yield log
    log.stream.close()


# -- the same lines --------------------------------------------------------------------------

VALUES = st.one_of(
    st.text(st.characters(codec=None), max_size=40),
    st.text(st.characters(max_codepoint=127), max_size=40),
    st.sampled_from(
        ["", "x" * (LIMIT - 1), "x" * LIMIT, "%s", "%(url)s", "a\nb", "\x1b[2K", "\u2028"]
    ),
    st.integers(),
    st.none(),
    st.binary(max_size=5),
)
TASKS = st.fixed_dictionaries({"project": VALUES, "taskid": VALUES}, optional={"url": VALUES})
MOMENTS = st.floats(1.7e9, 1.7e9 + 3)
TOLD = st.lists(st.tuples(MOMENTS, TASKS), max_size=30)


@pytest.mark.parametrize("filters", [[Escape()], []], ids=["escaping", "as pyspider's"])
@given(told=TOLD)
@example(told=[(1.7e9 + each / 4, TASK) for each in range(12)])
def test_the_bytes_are_those_that_the_logger_writes(
    tmp_path_factory: pytest.TempPathFactory, filters: list[Any], told: Any
) -> None:
    folder = tmp_path_factory.mktemp("logs")
    late, usual = TaskLines(folder / "late", *filters), TaskLines(folder / "usual", *filters)
    for log in (late, usual):
        with ended_by_python(), log.tasks.flushed_late() if log is late else nullcontext():
            for moment, task in told:
                with patch.object(time, "time", lambda moment=moment: moment):
                    log.tell(task)
        log.stream.close()
    assert late.written == usual.written


def test_a_line_comes_from_the_place_that_logged_it(log: TaskLines) -> None:
    log.logger.warning("the end")
    first, second, _ = log.written.splitlines()
    assert first == second
    assert b" test_patched_direct_lines:" in first


def test_a_reader_of_colours_gets_them(log: TaskLines, monkeypatch: pytest.MonkeyPatch) -> None:
    log.logger.warning("flushed")
    before = len(log.written)
    log.handler.formatter._colors = {logging.INFO: "<green>"}  # type: ignore[union-attr]
    log.handler.formatter._normal = "<normal>"  # type: ignore[union-attr]
    monkeypatch.setattr(time, "time", lambda: 2e9)  # another second
    assert log.waits()
    log.logger.warning("flushed")
    assert log.written[before:].startswith(b"<green>[I ")


# -- whatever may change the line, is asked --------------------------------------------------


class OtherLogger(logging.Logger):
    pass


class OtherHandler(logging.StreamHandler[Any]):
    pass


class OtherFormatter(LogFormatter):
    pass


class OtherRecord(logging.LogRecord):
    pass


def _own(log: TaskLines) -> Callable[[object], None]:
    """Return what writes in a way of its own, and at once."""

    def write(_: object) -> None:
        log.stream.write("own")
        log.stream.flush()

    return write


CHANGES: dict[str, Callable[[TaskLines], object]] = {
    "another handler": lambda log: log.logger.addHandler(logging.NullHandler()),
    "the handlers of others": lambda log: setattr(log.logger, "propagate", True),
    "a filter of the logger": lambda log: log.logger.addFilter(lambda _: True),
    "a filter of the handler": lambda log: log.handler.addFilter(lambda _: True),
    "another formatter": lambda log: log.handler.setFormatter(logging.Formatter()),
    "a formatter of one's own": lambda log: log.handler.setFormatter(OtherFormatter()),
    "objects of JSON": lambda log: log.handler.setFormatter(JsonLines("scheduler")),
    "no formatter": lambda log: log.handler.setFormatter(None),
}
REPLACED: dict[str, Callable[[TaskLines], object]] = {
    "another format": lambda log: setattr(log.handler.formatter, "_fmt", "%(msecs)d %(message)s"),
    "milliseconds": lambda log: setattr(log.handler.formatter, "datefmt", None),
    "an emit of its own": lambda log: setattr(log.handler, "emit", _own(log)),
    "a handle of its own": lambda log: setattr(log.logger, "handle", _own(log)),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_the_next_line_follows_a_changed_config(
    log: TaskLines, change: Callable[[TaskLines], object]
) -> None:
    change(log)
    assert not log.waits()


def test_a_function_that_is_replaced_for_all_is_called_from_the_next_second_on(
    log: TaskLines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As tools do that watch programs."""
    told: list[logging.LogRecord] = []
    monkeypatch.setattr(logging.Logger, "callHandlers", lambda _, record: told.append(record))
    monkeypatch.setattr(time, "time", lambda: 2e9)
    log.tell()
    assert [each.getMessage() for each in told] == [LINE % TASK]


@pytest.mark.parametrize("change", REPLACED.values(), ids=REPLACED.keys())
def test_what_is_replaced_is_asked_from_the_next_second_on(
    log: TaskLines, change: Callable[[TaskLines], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    change(log)
    monkeypatch.setattr(time, "time", lambda: 2e9)
    assert not log.waits()


def test_levels_hold_for_the_next_line(log: TaskLines) -> None:
    size = log.stream.tell()
    log.handler.setLevel(logging.WARNING)
    log.tell()
    log.handler.setLevel(logging.INFO)
    log.logger.setLevel(logging.WARNING)
    log.tell()
    log.logger.setLevel(logging.INFO)
    log.logger.disabled = True
    log.tell()
    assert log.stream.tell() == size


def test_another_stream_gets_the_next_line(log: TaskLines) -> None:
    other = io.StringIO()
    log.handler.setStream(other)
    log.tell()
    assert other.getvalue().endswith(f"{LINE % TASK}\n")


def test_other_records_are_made_from_the_next_second_on(
    log: TaskLines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging, "_logRecordFactory", OtherRecord)
    monkeypatch.setattr(time, "time", lambda: 2e9)
    assert not log.waits()


@pytest.mark.parametrize(
    "handlers", [[], [OtherHandler], [logging.StreamHandler, logging.StreamHandler]]
)
def test_other_handlers_write_by_themselves(tmp_path: Path, handlers: list[Any]) -> None:
    log = TaskLines(tmp_path / "log")
    log.logger.handlers[:] = [kind(log.stream) for kind in handlers]
    with ended_by_python(), log.tasks.flushed_late():
        log.tell()
        log.tell()
        assert log.written.count(b"select") == 2 * len(handlers)
    log.stream.close()


def test_a_logger_of_ones_own_writes_by_itself(tmp_path: Path) -> None:
    log = TaskLines(tmp_path / "log")
    log.tasks = TaskLog(OtherLogger("own", logging.INFO))
    log.tasks._logger.handlers[:] = [log.handler]
    with ended_by_python(), log.tasks.flushed_late():
        log.tell()
        assert not log.waits()
    log.stream.close()


@pytest.mark.parametrize("url", ["a\nb", "\u2603", "x" * LIMIT, "\x7f"])
def test_a_message_that_must_be_changed_is(log: TaskLines, url: str) -> None:
    log.tell({**TASK, "url": url})
    (line,) = log.written.splitlines()[2:]
    told = Escape()
    record = logging.LogRecord("", 0, "", 0, LINE, ({**TASK, "url": url},), None)
    told.filter(record)
    assert line.endswith(record.getMessage().encode())


# -- order -----------------------------------------------------------------------------------


def test_all_lines_are_in_order(log: TaskLines) -> None:
    other = logging.Logger("other")
    other.addHandler(logging.StreamHandler(log.stream))
    for number in range(50):
        thread = threading.Thread(target=log.tell, args=({**TASK, "url": f"{number}"},))
        thread.start()
        thread.join()
        other.warning("warning %d", number)
        log.tell({**TASK, "url": f"again {number}"})
        print("printed", number, file=log.stream)
    other.error("the end")

    told = [line.split(b" p:t ")[-1].decode() for line in log.written.splitlines()[2:]]
    expected = ("{0}", "warning {0}", "again {0}", "printed {0}")
    assert told[:-1] == [each.format(number) for number in range(50) for each in expected]


def test_threads_do_not_tear_lines_apart(log: TaskLines) -> None:
    def tell(name: int) -> None:
        for number in range(500):
            log.tell({"project": name, "taskid": number, "url": ""})
            if number % 50 == 0:
                log.logger.warning("select %d:warned ", name)

    threads = [threading.Thread(target=tell, args=(name,)) for name in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    log.logger.warning("the end")

    told = [line.decode().split() for line in log.written.splitlines()[2:-1]]
    expected = [
        word
        for number in range(500)
        for word in ([str(number), "warned"] if number % 50 == 0 else [str(number)])
    ]
    for name in range(4):
        own = [line[-1].split(":")[1] for line in told if line[-1].startswith(f"{name}:")]
        assert own == expected
    assert len(told) == 4 * len(expected)
