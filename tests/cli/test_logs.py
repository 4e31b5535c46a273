"""A line of the log is one record's: what comes from outside cannot begin another. Or it is JSON.

By the ids in JSON a batch is followed to its tasks.
"""

import io
import json
import logging
import subprocess
from pathlib import Path
from typing import Any

import pytest
from pyspider.libs.log import LogFormatter

from pyspider_zk.cli.logs import JsonLines, keep_lines_apart
from pyspider_zk.components.log_records import LIMIT
from pyspider_zk.jobs.model import JobName
from tests.cli.conftest import Run, ended
from tests.support.processes import PROGRAM, ROOT

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


@pytest.mark.parametrize("config", [None, PLAIN], ids=["pyspider's", "own"])
def test_no_component_logs_a_forged_line(run: Run, tmp_path: Path, config: str | None) -> None:
    (tmp_path / "forging.py").write_text(FORGING)
    options: tuple[object, ...] = ()
    if config is not None:
        (tmp_path / "logging.conf").write_text(config)
        options = ("--logging-config", tmp_path / "logging.conf")
    result = ended(run(*options, "result-worker", "--result-cls", "forging.Forging"))
    forged = [line for line in result.output.splitlines() if FORGED in line]
    assert len(forged) == len(COMPONENTS)
    assert [line for line in forged if f"task \\n{FORGED}" not in line] == []


def test_a_process_may_run_several_commands(process_state: None) -> None:  # noqa: ARG001
    log = Log(logging.Formatter())
    keep_lines_apart()
    log.logger.error("%s", f"\n{FORGED}")
    assert log.lines == [f"\\n{FORGED}"]


# -- JSON ------------------------------------------------------------------------------------

TASK = "0123456789abcdef0123456789abcdef"
JOB = JobName(500, "batch-1", "p", 7)


def told_by(message: str, *args: Any, **extra: Any) -> dict[str, Any]:
    """Return the object of a record."""
    record = logging.LogRecord("scheduler", logging.INFO, __file__, 1, message, args, None)
    record.__dict__.update(extra)
    found = JsonLines("scheduler").format(record)
    assert "\n" not in found
    told: dict[str, Any] = json.loads(found)
    return told


def test_a_record_has_its_time_its_origin_and_its_message() -> None:
    told = told_by("took %d slots", 64)
    assert told.pop("time").endswith("+00:00")
    assert told == {
        "level": "info",
        "logger": "scheduler",
        "component": "scheduler",
        "message": "took 64 slots",
    }


def test_a_traceback_is_a_value_of_its_own() -> None:
    try:
        raise ValueError("wrong")
    except ValueError as error:
        info = (ValueError, error, error.__traceback__)
    told = told_by("round failed", exc_info=info)
    assert told["traceback"].endswith("ValueError: wrong")
    assert "\n" in told["traceback"]


@pytest.mark.parametrize("mark", BREAKS)
def test_what_comes_from_outside_begins_no_line(mark: str) -> None:
    assert told_by("task %s", f"{mark}forged")["message"] == f"task {mark}forged"


def test_a_message_that_cannot_be_formatted_is_told_all_the_same() -> None:
    assert "%d" in told_by("%d slots", "many")["message"]


def test_a_job_is_told_with_its_batch() -> None:
    told = told_by("job %s begins", JOB)
    assert (told["batch"], told["job"]) == ("batch-1", str(JOB))
    assert "project" not in told


def test_a_project_of_a_job_is_told_with_both() -> None:
    told = told_by("job %s: %s", JOB, "q", project="q")
    assert (told["batch"], told["project"]) == ("batch-1", "q")


def test_a_task_is_told_with_its_project() -> None:
    task = {"project": "p", "taskid": "any id", "url": "http://site.example/"}
    # logging itself takes a single mapping as the values
    told = told_by("new task %(project)s:%(taskid)s %(url)s", task)
    assert (told["project"], told["task"]) == ("p", "any id")


@pytest.mark.parametrize(
    "message",
    [
        f"select p:{TASK} http://site.example/",
        f"task done p:{TASK} http://site.example/",
        f"[200] p:{TASK} http://site.example/ 0.1s",
        f"process p:{TASK} data:,x -> [200] len:4",
        f"result p:{TASK} data:,x -> {{}}",
        f"fetch p:{TASK} failed: it is",
        f"task p:{TASK}, put off",
        f"fetch p:{TASK}: failed",
    ],
)
def test_a_task_in_a_sentence_is_found(message: str) -> None:
    told = told_by(message)
    assert (told["project"], told["task"]) == ("p", TASK)


@pytest.mark.parametrize(
    "message",
    [
        "project p: it will be tried again",
        "project p is in quarantine: project q",
        "load project p error",
        "job batch-1/3, project p: KeyError('q')",
    ],
)
def test_a_project_in_a_sentence_is_found(message: str) -> None:
    assert told_by(message)["project"] == "p"


def test_what_is_no_project_is_not_taken_for_one() -> None:
    assert "project" not in told_by("the project database does not answer")
    assert "project" not in told_by("dropped: project p")


@pytest.mark.parametrize("callback", ["on_start", "_on_get_info", "on_finished"])
def test_a_callback_is_a_task(callback: str) -> None:
    assert told_by(f"new task p:{callback} data:,{callback}")["task"] == callback


@pytest.mark.parametrize(
    "message", ["in 5m: new:0,success:0", "http://h/p:0123", f"a url http://h/p:{TASK}", "p:abc"]
)
def test_what_is_no_task_is_not_taken_for_one(message: str) -> None:
    told = told_by(message)
    assert "task" not in told


@pytest.mark.parametrize(
    "message",
    [
        f"process p:item-5 http://site.example/ -> [200] err:ValueError('x evil:{TASK} ')",
        f"[599] p:item-5 http://site.example/, HTTP 599: x evil:{TASK} 0.1s",
        "fetch p:item-5 failed: no host evil:on_start",
    ],
)
def test_a_try_is_of_any_task_and_what_a_page_says_names_no_other(message: str) -> None:
    told = told_by(message)
    assert (told["project"], told["task"]) == ("p", "item-5")


LOUD = """
class Loud:
    def __init__(self, resultdb, inqueue):
        pass

    def run(self):
        import logging
        logging.getLogger("result").error("first\\nsecond")
        logging.getLogger("pyspider_zk.jobs").warning("third")
"""


def test_a_command_writes_json_if_asked(tmp_path: Path) -> None:
    (tmp_path / "loud.py").write_text(LOUD)
    told = [json.loads(each) for each in _lines(tmp_path, PYSPIDER_ZK_LOG_FORMAT="json")]
    assert [each["message"] for each in told] == ["first\nsecond", "third"]
    assert {each["component"] for each in told} == {"result-worker"}


def test_pyspiders_lines_are_the_default(tmp_path: Path) -> None:
    (tmp_path / "loud.py").write_text(LOUD)
    assert all(not each.startswith("{") for each in _lines(tmp_path))


def _lines(folder: Path, **environ: str) -> list[str]:
    """Return the log of a result worker of one's own."""
    command = [*PROGRAM, "--add-sys-path", "result-worker", "--result-cls", "loud.Loud"]
    done = subprocess.run(
        command,
        cwd=folder,
        env={"PATH": "/usr/bin", "PYTHONPATH": f"{ROOT}:{folder}", **environ},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stderr.splitlines()
