"""A line of the log is one record's: what comes from outside cannot begin another."""

import io
import logging
import sys
from pathlib import Path

import pytest
from pyspider.libs.log import LogFormatter

from pyspider_zk.cli.log_lines import LIMIT, Escape, keep_lines_apart
from tests.cli.conftest import Run

FORGED = "2026-01-01 INFO forged"
BREAKS = [
    "\n",
    "\r\n",
    "\r",
    "\v",
    "\f",
    "\x1b[2K",
    "\x85",
    "\u2028",
    "\u2029",
    "\0",
    "\b",
    "\u202e",
]
COMPONENTS = [
    "scheduler",
    "fetcher",
    "processor",
    "result",
    "webui",
    "werkzeug",
    "pyspider_zk.jobs",
]
FORGING = f"""
import logging

class Forging:
    def __init__(self, resultdb, inqueue):
        pass

    def run(self):
        for name in {COMPONENTS}:
            logger = logging.getLogger(name)
            logger.disabled = False  # a logging config mutes those that were there before it
            logger.error("task %s", "\\n{FORGED}")
"""
PLAIN = """
[loggers]
keys=root
[handlers]
keys=screen
[formatters]
keys=plain
[logger_root]
level=INFO
handlers=screen
[handler_screen]
class=StreamHandler
formatter=plain
args=(sys.stdout,)
[formatter_plain]
format=%(message)s
"""


class Log:
    """A logger of its own that writes into a string."""

    def __init__(self, formatter: logging.Formatter) -> None:
        self.stream = io.StringIO()
        self.logger = logging.getLogger("tests.log_lines")
        self.handler = logging.StreamHandler(self.stream)
        self.handler.setFormatter(formatter)
        self.logger.addHandler(self.handler)
        keep_lines_apart()

    @property
    def lines(self) -> list[str]:
        return self.stream.getvalue().splitlines()


@pytest.fixture(params=[logging.Formatter, LogFormatter])
def log(request: pytest.FixtureRequest, process_state: None) -> Log:  # noqa: ARG001
    return Log(request.param())


@pytest.mark.parametrize("text", BREAKS)
def test_no_text_breaks_its_line(log: Log, text: str) -> None:
    log.logger.error("task %s failed", f"{text}{FORGED}")
    (line,) = log.lines
    assert line.isprintable() or "\x1b[31m" in line  # pyspider's own colour
    assert f"{FORGED} failed" in line


def test_what_was_escaped_can_be_read(log: Log) -> None:
    log.logger.error("task %s", "a\n\tb\udc80c\u2603")
    assert "task a\\n\tb\\udc80c\u2603" in log.lines[0]


def test_a_traceback_is_indented(log: Log) -> None:
    try:
        raise ValueError(f"a\n{FORGED}\r{FORGED}")
    except ValueError:
        log.logger.exception("failed")
    assert "ValueError: a" in log.stream.getvalue()
    assert [line for line in log.lines[1:] if not line.startswith("    ")] == []


def test_a_long_message_is_cut(log: Log) -> None:
    log.logger.error("task %s", "x" * 10**6)
    assert len(log.lines[0]) < LIMIT + 100
    assert "(1000005 characters)" in log.lines[0]


def test_a_message_that_cannot_be_formatted_is_shown(log: Log) -> None:
    log.logger.error("task %d", f"\n{FORGED}")
    (line,) = log.lines
    assert "task %d" in line
    assert "forged" in line


def test_a_message_that_is_said_to_stay_stays() -> None:
    told = {text for text in map(chr, range(sys.maxunicode + 1)) if Escape().leaves(text)}
    assert told.isdisjoint(BREAKS)
    assert [text for text in told if _escaped(text) != text] == []
    assert _escaped("x" * LIMIT) == "x" * LIMIT
    assert not Escape().leaves("x" * (LIMIT + 1))


def _escaped(message: str) -> str:
    record = logging.LogRecord("", logging.INFO, "", 0, message, (), None)
    assert Escape().filter(record)
    return record.getMessage()


@pytest.mark.parametrize("config", [None, PLAIN], ids=["pyspider's", "own"])
def test_no_component_logs_a_forged_line(run: Run, tmp_path: Path, config: str | None) -> None:
    (tmp_path / "forging.py").write_text(FORGING)
    options: tuple[object, ...] = ()
    if config is not None:
        (tmp_path / "logging.conf").write_text(config)
        options = ("--logging-config", tmp_path / "logging.conf")
    result = run(*options, "result-worker", "--result-cls", "forging.Forging")
    assert result.exit_code == 0, result.output
    forged = [line for line in result.output.splitlines() if FORGED in line]
    assert len(forged) == len(COMPONENTS)
    assert [line for line in forged if f"task \\n{FORGED}" not in line] == []


def test_a_process_may_run_several_commands(process_state: None) -> None:  # noqa: ARG001
    log = Log(logging.Formatter())
    keep_lines_apart()
    log.logger.error("%s", f"\n{FORGED}")
    assert log.lines == [f"\\n{FORGED}"]
