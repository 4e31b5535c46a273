"""JSON logs: an object per line, by which a batch is followed to its tasks."""

import json
import logging
import subprocess
from pathlib import Path
from typing import Any

import pytest

from pyspider_zk.cli.json_lines import JsonLines
from pyspider_zk.jobs.model import JobName
from tests.cli.test_log_lines import BREAKS

TASK = "0123456789abcdef0123456789abcdef"
JOB = JobName(500, "batch-1", "p", 7)


def line(message: str, *args: Any, **extra: Any) -> dict[str, Any]:
    """Return the object of a record."""
    record = logging.LogRecord("scheduler", logging.INFO, __file__, 1, message, args, None)
    record.__dict__.update(extra)
    found = JsonLines("scheduler").format(record)
    assert "\n" not in found
    told: dict[str, Any] = json.loads(found)
    return told


def test_a_record_has_its_time_its_origin_and_its_message() -> None:
    told = line("took %d slots", 64)
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
    told = line("round failed", exc_info=info)
    assert told["traceback"].endswith("ValueError: wrong")
    assert "\n" in told["traceback"]


@pytest.mark.parametrize("mark", BREAKS)
def test_what_comes_from_outside_begins_no_line(mark: str) -> None:
    assert line("task %s", f"{mark}forged")["message"] == f"task {mark}forged"


def test_a_message_that_cannot_be_formatted_is_told_all_the_same() -> None:
    assert "%d" in line("%d slots", "many")["message"]


def test_a_job_is_told_with_its_batch() -> None:
    told = line("job %s begins", JOB)
    assert (told["batch"], told["job"]) == ("batch-1", str(JOB))
    assert "project" not in told


def test_a_project_of_a_job_is_told_with_both() -> None:
    told = line("job %s: %s", JOB, "q", project="q")
    assert (told["batch"], told["project"]) == ("batch-1", "q")


def test_a_task_is_told_with_its_project() -> None:
    task = {"project": "p", "taskid": "any id", "url": "http://site.example/"}
    # logging itself takes a single mapping as the values
    told = line("new task %(project)s:%(taskid)s %(url)s", task)
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
    told = line(message)
    assert (told["project"], told["task"]) == ("p", TASK)


@pytest.mark.parametrize("callback", ["on_start", "_on_get_info", "on_finished"])
def test_a_callback_is_a_task(callback: str) -> None:
    assert line(f"new task p:{callback} data:,{callback}")["task"] == callback


@pytest.mark.parametrize(
    "message", ["in 5m: new:0,success:0", "http://h/p:0123", f"a url http://h/p:{TASK}", "p:abc"]
)
def test_what_is_no_task_is_not_taken_for_one(message: str) -> None:
    told = line(message)
    assert "task" not in told


@pytest.mark.parametrize(
    "message",
    [
        f"process p:item-5 http://site.example/ -> [200] err:ValueError('x evil:{TASK} ')",
        f"[599] p:item-5 http://site.example/, HTTP 599: x evil:{TASK} 0.1s",
        "fetch p:5 failed: no host evil:on_start",
    ],
)
def test_what_a_page_says_names_no_task(message: str) -> None:
    assert "task" not in line(message)


SCRIPT = """
class Loud:
    def __init__(self, resultdb, inqueue):
        pass

    def run(self):
        import logging
        logging.getLogger("result").error("first\\nsecond")
        logging.getLogger("pyspider_zk.jobs").warning("third")
"""


def test_a_command_writes_json_if_asked(tmp_path: Path) -> None:
    (tmp_path / "loud.py").write_text(SCRIPT)
    told = [json.loads(each) for each in _lines(tmp_path, PYSPIDER_ZK_LOG_FORMAT="json")]
    assert [each["message"] for each in told] == ["first\nsecond", "third"]
    assert {each["component"] for each in told} == {"result-worker"}


def test_pyspiders_lines_are_the_default(tmp_path: Path) -> None:
    (tmp_path / "loud.py").write_text(SCRIPT)
    assert all(not each.startswith("{") for each in _lines(tmp_path))


def _lines(folder: Path, **environ: str) -> list[str]:
    """Return the log of a result worker of one's own."""
    from tests.support.processes import PROGRAM, ROOT

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
