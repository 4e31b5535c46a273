"""Lines past the logger are those that the logger would write, and only while it would."""

import io
import logging
import os
import select
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyspider.libs import delayed_flush
from pyspider.libs.log import LogFormatter
from pyspider.libs.task_log import TaskLog

from pyspider_zk.cli.logs import LIMIT, Escape, JsonLines
from tests.support.waiting import eventually

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


def set_clock(patch: pytest.MonkeyPatch, moment: float) -> None:
    """Let it be this time, for records too, which Python 3.13 makes from whole nanoseconds."""
    patch.setattr(time, "time", lambda: moment)
    patch.setattr(time, "time_ns", lambda: round(moment * 1e9))


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

    def flush(self) -> None:
        """Let the logger write a line, and so whatever waits before it."""
        self.logger.warning("something else")

    def waits(self) -> bool:
        """Tell once more; return whether that line waits, as none does that the logger writes."""
        before = self.written
        self.tell()
        return self.written == before


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TaskLines]:
    """Give a log whose lines wait for good, unless somebody flushes; now none waits."""
    monkeypatch.setattr(delayed_flush, "DELAY", threading.TIMEOUT_MAX)
    log = TaskLines(tmp_path / "log", Escape())
    with ended_by_python(), log.tasks.flushed_late():
        log.tell()  # the first of a kind is the logger's
        assert log.waits()
        log.flush()
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
TOLD = st.lists(st.tuples(MOMENTS, st.lists(TASKS, max_size=30)), max_size=5)
MANY = [{**TASK, "url": f"{number}"} for number in range(100)]
SOME_OTHERS = [*MANY, {**TASK, "url": "\u2603"}, *MANY[:9], {"url": "none"}, *MANY[:50]]


@pytest.mark.parametrize("filters", [[Escape()], []], ids=["escaping", "as pyspider's"])
@given(told=TOLD)
@example(told=[(1.7e9 + each / 4, [TASK]) for each in range(12)])
@example(told=[(1.7e9, SOME_OTHERS)])
def test_the_bytes_are_those_that_the_logger_writes(
    tmp_path_factory: pytest.TempPathFactory, filters: list[Any], told: Any
) -> None:
    """If lines that wait for each other have one time, as when a clock ticks between."""
    folder = tmp_path_factory.mktemp("logs")
    late, usual = TaskLines(folder / "late", *filters), TaskLines(folder / "usual", *filters)
    for log in (late, usual):
        with ended_by_python(), log.tasks.flushed_late() if log is late else nullcontext():
            for moment, tasks in told:
                with pytest.MonkeyPatch.context() as patch:
                    set_clock(patch, moment)
                    for task in tasks:
                        log.tell(task)
                    log.flush()
        log.stream.close()
    assert late.written == usual.written


def test_the_time_is_when_the_first_began_to_wait(
    log: TaskLines, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = len(log.written)
    for moment in (2e9, 2e9 + 1):
        set_clock(monkeypatch, moment)
        log.tell()
        set_clock(monkeypatch, moment + 0.9)
        log.tell()
        log.flush()
    one, again, _, other, _, _ = (line.split()[2] for line in log.written[before:].splitlines())
    assert one == again
    assert one != other


def test_a_date_may_have_any_sign(log: TaskLines, monkeypatch: pytest.MonkeyPatch) -> None:
    log.handler.formatter.datefmt = "%H%%"  # type: ignore[union-attr]
    set_clock(monkeypatch, 2e9)
    before = len(log.written)
    assert log.waits()
    log.flush()
    assert b"% test_patched_direct_lines:" in log.written[before:].splitlines()[0]


def test_a_line_says_what_a_task_was(log: TaskLines) -> None:
    task = dict(TASK)
    log.tell(task)
    task["url"] = "another"
    log.flush()
    assert b"another" not in log.written
    assert log.written.count(b"http://site.example/") == 3


def test_a_line_comes_from_the_place_that_logged_it(log: TaskLines) -> None:
    first, second, _ = log.written.splitlines()
    assert first == second
    assert b" test_patched_direct_lines:" in first


def test_a_reader_of_colours_gets_them(log: TaskLines) -> None:
    before = len(log.written)
    log.handler.formatter._colors = {logging.INFO: "<green>"}  # type: ignore[union-attr]
    log.handler.formatter._normal = "<normal>"  # type: ignore[union-attr]
    log.tell()
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
    "a filter before all": lambda log: log.handler.filters.insert(0, Escape()),
    "no filter": lambda log: log.handler.filters.clear(),
    "another end": lambda log: setattr(log.handler, "terminator", "\r\n"),
    "another format": lambda log: setattr(log.handler.formatter, "_fmt", "%(msecs)d %(message)s"),
    "milliseconds": lambda log: setattr(log.handler.formatter, "datefmt", None),
    "another formatter": lambda log: log.handler.setFormatter(logging.Formatter()),
    "a formatter of one's own": lambda log: log.handler.setFormatter(OtherFormatter()),
    "objects of JSON": lambda log: log.handler.setFormatter(JsonLines("scheduler")),
    "no formatter": lambda log: log.handler.setFormatter(None),
}
REPLACED: dict[str, Callable[[TaskLines], object]] = {
    "an emit of its own": lambda log: setattr(log.handler, "emit", _own(log)),
    "a handle of its own": lambda log: setattr(log.logger, "handle", _own(log)),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_the_next_line_follows_a_changed_config(
    log: TaskLines, change: Callable[[TaskLines], object]
) -> None:
    change(log)
    assert not log.waits()


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_so_do_those_that_wait(
    log: TaskLines,
    change: Callable[[TaskLines], object],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_clock(monkeypatch, 2e9)
    usual = TaskLines(tmp_path / "usual", Escape())
    usual.tell()  # the first record of its kind has another time
    before = len(log.written), len(usual.written)
    change(usual)
    for task in MANY[:9]:
        usual.tell(task)
        log.tell(task)
    assert len(log.written) == before[0]
    change(log)
    log.tasks._direct.flush()  # type: ignore[union-attr]
    assert log.written[before[0] :] == usual.written[before[1] :]
    usual.stream.close()


def test_a_function_that_is_replaced_for_all_is_called_from_the_next_second_on(
    log: TaskLines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As tools do that watch programs."""
    told: list[logging.LogRecord] = []
    monkeypatch.setattr(logging.Logger, "callHandlers", lambda _, record: told.append(record))
    set_clock(monkeypatch, 2e9)
    log.tell()
    assert [each.getMessage() for each in told] == [LINE % TASK]


@pytest.mark.parametrize("change", REPLACED.values(), ids=REPLACED.keys())
def test_what_is_replaced_is_asked_from_the_next_second_on(
    log: TaskLines, change: Callable[[TaskLines], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    change(log)
    set_clock(monkeypatch, 2e9)
    assert not log.waits()


def test_levels_hold_for_the_next_line(log: TaskLines) -> None:
    log.tell({**TASK, "url": "yes"})
    log.handler.setLevel(logging.WARNING)
    log.tell({**TASK, "url": "no"})
    log.handler.setLevel(logging.INFO)
    log.logger.setLevel(logging.WARNING)
    log.tell({**TASK, "url": "no"})
    log.logger.setLevel(logging.INFO)
    log.logger.disabled = True
    log.tell({**TASK, "url": "no"})
    log.logger.disabled = False
    log.flush()
    assert log.written.count(b"yes") == 1
    assert b"t no" not in log.written


def test_another_stream_gets_the_next_line(log: TaskLines) -> None:
    other = io.StringIO()
    log.handler.setStream(other)
    log.tell()
    assert other.getvalue().endswith(f"{LINE % TASK}\n")


def test_other_records_are_made_from_the_next_second_on(
    log: TaskLines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging, "_logRecordFactory", OtherRecord)
    set_clock(monkeypatch, 2e9)
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
    log.flush()
    line, _ = log.written.splitlines()[3:]
    told = Escape()
    record = logging.LogRecord("", 0, "", 0, LINE, ({**TASK, "url": url},), None)
    told.filter(record)
    assert line.endswith(record.getMessage().encode())


def test_a_filter_that_comes_later_is_asked_and_stays(log: TaskLines) -> None:
    later = Escape()
    log.handler.filters.clear()
    log.handler.addFilter(lambda _: True)
    log.handler.addFilter(later)
    assert not log.waits()


def test_afterwards_the_filters_are_as_they_would_be(tmp_path: Path) -> None:
    log = TaskLines(tmp_path / "log", Escape())
    seen: list[Any] = []
    with ended_by_python(), log.tasks.flushed_late():
        log.handler.addFilter(seen.append)
        assert len(log.handler.filters) == 3
    assert log.handler.filters == [Escape(), seen.append]
    log.stream.close()


# -- faults ----------------------------------------------------------------------------------


def test_a_filter_that_raises_costs_no_other_line(
    log: TaskLines, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail_at_5(record: logging.LogRecord) -> bool:
        return bool(1 / (not record.getMessage().endswith(" 5")))

    for task in MANY[:9]:
        log.tell(task)
    log.handler.addFilter(fail_at_5)
    log.flush()
    assert _urls(log) == ["0", "1", "2", "3", "4", "6", "7", "8"]
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_a_value_that_raises_costs_no_other_line(log: TaskLines) -> None:
    class Fails:
        def __str__(self) -> str:
            raise ZeroDivisionError

    for task in (MANY[0], {**TASK, "url": Fails()}, MANY[1]):
        log.tell(task)
    log.flush()
    told = [line for line in log.written.splitlines()[3:] if b" p:t " in line or b"Zero" in line]
    assert [b"ZeroDivisionError" in line for line in told] == [False, True, False]


def test_what_a_stream_cannot_encode_costs_no_other_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = TaskLines(tmp_path / "log")
    log.stream.reconfigure(encoding="ascii", errors="strict")
    with ended_by_python(), log.tasks.flushed_late():
        for task in (*MANY[:5], {**TASK, "url": "\u2603"}, *MANY[5:9]):
            log.tell(task)
    log.stream.close()
    assert [int(line.split()[-1]) for line in log.written.splitlines()] == [*range(9)]
    assert "UnicodeEncodeError" in capsys.readouterr().err


def test_a_full_disk_is_told(log: TaskLines, capsys: pytest.CaptureFixture[str]) -> None:
    log.tell()
    disk = os.dup(log.stream.fileno())
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        os.dup2(full.fileno(), log.stream.fileno())
    log.tasks._direct.flush()  # type: ignore[union-attr]
    assert "No space left on device" in capsys.readouterr().err
    os.dup2(disk, log.stream.fileno())
    os.close(disk)
    log.flush()
    assert log.written.count(b" p:t ") == 3  # it was in the stream's own buffer


def test_in_a_forked_process_no_line_waits(log: TaskLines) -> None:
    log.tell(MANY[0])
    child = os.fork()
    if not child:
        log.tell(MANY[1])
        os._exit(0)
    os.waitpid(child, 0)
    assert _urls(log) == ["0", "1"]
    assert log.waits()


def test_no_line_waits_for_the_next(tmp_path: Path) -> None:
    log = TaskLines(tmp_path / "log", Escape())
    with ended_by_python(), log.tasks.flushed_late():
        for number in range(4):
            log.tell()
            eventually(lambda number=number: log.written.count(b" p:t ") == number + 1)
    log.stream.close()


# -- order and pieces ------------------------------------------------------------------------


def _urls(log: TaskLines) -> list[str]:
    """Return the URLs of the lines that the test told."""
    told = [line.decode() for line in log.written.splitlines()[3:]]
    return [line.rpartition(" p:t ")[2] for line in told if " p:t " in line]


class Writes(io.FileIO):
    """A file that remembers each write."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "w")
        self.seen: list[bytes] = []

    def write(self, data: Any) -> int | None:
        self.seen.append(bytes(data))
        return super().write(data)


@pytest.mark.parametrize("is_buffered", [True, False], ids=["buffered", "python -u"])
@pytest.mark.parametrize("length", [1, 200, 5000])
def test_many_lines_are_few_writes_of_whole_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_buffered: bool, length: int
) -> None:
    monkeypatch.setattr(delayed_flush, "DELAY", threading.TIMEOUT_MAX)
    raw = Writes(tmp_path / "raw")
    log = TaskLines(tmp_path / "log", Escape())
    log.stream.close()
    log.stream = log.handler.stream = (
        io.TextIOWrapper(io.BufferedWriter(raw), "utf-8", line_buffering=True)
        if is_buffered
        else io.TextIOWrapper(raw, "utf-8", None, "\n", True, True)  # type: ignore[type-var]
    )
    url = "x" * length
    with ended_by_python(), log.tasks.flushed_late():
        log.tell()
        raw.seen.clear()
        for _ in range(1000):
            log.tell({**TASK, "url": url})
    assert b"".join(raw.seen).count(f" p:t {url}\n".encode()) == 1000
    assert all(each.endswith(b"\n") for each in raw.seen)
    if length < select.PIPE_BUF:
        assert max(map(len, raw.seen)) <= select.PIPE_BUF
        assert len(raw.seen) <= 1000 / 8
    log.stream.close()


def _interrupting(what: Callable[[], object]) -> Any:
    """Return a URL that does something once a line of it is under way, as another thread may."""

    class Url:
        def __str__(self) -> str:
            what()
            return "interrupted"

    return Url()


def test_a_line_that_comes_during_a_flush_is_not_left_to_wait(log: TaskLines) -> None:
    log.tell()
    log.tell({**TASK, "url": _interrupting(log.flush)})
    assert _urls(log)[-1] == "interrupted"


def test_a_line_that_comes_while_the_logger_writes_those_before_comes_after_them(
    log: TaskLines,
) -> None:
    direct = log.tasks._direct
    assert direct is not None
    late: list[Any] = []

    def add_late(_: logging.LogRecord) -> bool:
        """As another thread may, that then waits for the end of the flush."""
        while late:
            direct._waiting.append(late.pop())
        return True

    for task in MANY[:5]:
        log.tell(task)
    kind, text = direct._waiting[0]
    late.append((kind, text[: kind.start] + "select p:t late"))
    log.handler.addFilter(add_late)
    direct.flush()
    direct.flush()
    assert _urls(log) == ["0", "1", "2", "3", "4", "late"]


def test_a_line_that_comes_after_the_end_is_not_lost(tmp_path: Path) -> None:
    log = TaskLines(tmp_path / "log", Escape())
    with ended_by_python():
        block = log.tasks.flushed_late()
        block.__enter__()
        log.tell()
        log.tell({**TASK, "url": _interrupting(lambda: block.__exit__(None, None, None))})
    assert log.written.endswith(b"interrupted\n")
    log.stream.close()


def test_all_lines_of_a_handler_are_in_order(log: TaskLines) -> None:
    other = logging.Logger("other")
    other.addHandler(log.handler)
    for number in range(50):
        thread = threading.Thread(target=log.tell, args=({**TASK, "url": f"{number}"},))
        thread.start()
        thread.join()
        other.warning("select p:t warning %d", number)
        log.tell({**TASK, "url": f"again {number}"})
        log.tell({**TASK, "url": f"\u2603 {number}"})
    log.flush()

    expected = ("{0}", "warning {0}", "again {0}", "\u2603 {0}")
    assert _urls(log) == [each.format(number) for number in range(50) for each in expected]


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

    told = [line.decode().split() for line in log.written.splitlines()[3:-1]]
    expected = [
        word
        for number in range(500)
        for word in ([str(number), "warned"] if number % 50 == 0 else [str(number)])
    ]
    for name in range(4):
        own = [line[-1].split(":")[1] for line in told if line[-1].startswith(f"{name}:")]
        assert own == expected
    assert len(told) == 4 * len(expected)
