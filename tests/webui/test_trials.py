"""A script on trial, run by pyspider's editor in a process that can be ended."""

import json
import logging
import os
import select
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspider.database import connect_database
from pyspider.webui.app import app

from pyspider_zk.webui.page_data import configured
from pyspider_zk.webui.trials import run_apart

ATTRIBUTES = 100_000  # of one element: libxml2 takes minutes
PAGE = f"<a {' '.join(f'a{n}=1' for n in range(ATTRIBUTES))}>"

SCRIPT = """
import os, time
import lxml.html  # response.doc refuses such a page
from pyspider.libs.base_handler import BaseHandler


class Handler(BaseHandler):
    def good(self, response):
        print('pid', os.getpid())
        self.crawl('http://site.example/next', callback=self.good)
        return {'code': response.status_code}

    def others(self):
        from projects import other
        return other.NAME

    def fail(self):
        raise ValueError('the script')

    def swallow(self):
        while True:
            try:
                time.sleep(1)
            except BaseException:
                pass

    def parse(self, response):
        return lxml.html.fromstring(response.text).findtext('.//title')

    def leave_a_process(self):
        if not os.fork():
            time.sleep(20)
            open(os.environ['ENDED'], 'w').close()
            os._exit(0)
        return 'left'

    def die(self):
        os.kill(os.getpid(), 9)

    def leave(self):
        os._exit(0)
"""
ENDLESS_SCRIPT = f"{SCRIPT}\nwhile True: time.sleep(1)\n"

Try = Callable[..., dict[str, Any]]


def fetch(task: dict[str, Any]) -> dict[str, Any]:
    if task["url"] == "http://away.example/":
        raise OSError("nobody fetches")
    url = {"url": task["url"], "orig_url": task["url"]}
    return {"status_code": 200, "content": PAGE, "headers": {}, "time": 0, **url}


@pytest.fixture
def try_out(tmp_path: Path) -> Iterator[Try]:
    """Give the function that tries a callback in the editor."""
    projectdb = connect_database(f"sqlite+projectdb:///{tmp_path}/project.db")
    projectdb.insert("other", {"name": "other", "script": "NAME = 'other'", "status": "RUNNING"})
    ours = {"fetch": fetch, "projectdb": projectdb, "process_time_limit": 1}

    def post(callback: str, script: str = SCRIPT, url: str = "data:,") -> dict[str, Any]:
        task = {"taskid": "t", "project": "p", "url": url, "process": {"callback": callback}}
        form = {"task": json.dumps(task), "script": script}
        answer = app.test_client().post("/debug/p/run", data=form)
        assert answer.status_code == 200
        return dict(answer.json)

    with configured(app.config, {**ours, "run_apart": run_apart}):
        yield post


def test_a_trial_answers_as_pyspiders_does_from_another_process(try_out: Try) -> None:
    answer = try_out("good")
    assert answer["result"] == {"code": 200}
    assert [each["url"] for each in answer["follows"]] == ["http://site.example/next"]
    assert answer["fetch_result"]["content"] == PAGE
    assert answer["logs"].startswith("pid ")
    assert answer["logs"].split()[1] != str(os.getpid())


def test_a_trial_imports_other_projects(try_out: Try) -> None:
    assert try_out("others")["result"] == "other"


def test_a_trial_that_imports_no_project_needs_no_connection(
    try_out: Try, monkeypatch: pytest.MonkeyPatch
) -> None:
    def copy() -> None:
        raise OSError("no database")

    monkeypatch.setattr(app.config["projectdb"], "copy", copy)
    assert try_out("good")["result"] == {"code": 200}
    assert "no database" in try_out("others")["logs"]


def test_faults_of_script_and_fetch_are_told_with_a_traceback(try_out: Try) -> None:
    assert "ValueError: the script" in try_out("fail")["logs"]
    assert "SyntaxError" in try_out("good", "class:")["logs"]
    assert "OSError: nobody fetches" in try_out("good", url="http://away.example/")["logs"]


def test_a_process_that_a_trial_leaves_does_not_hold_it(
    try_out: Try, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENDED", str(tmp_path / "ended"))
    with configured(app.config, {"process_time_limit": 0}):
        assert try_out("leave_a_process")["result"] == "left"
    assert not (tmp_path / "ended").exists()


class LateLook:
    """Look at a pipe that finds nothing at first, and ends when the process has."""

    def __init__(self, looking: "select.poll") -> None:
        self.register = looking.register
        self._looking, self._has_looked = looking, False

    def poll(self, patience: float) -> list[tuple[int, int]]:
        if self._has_looked:
            return self._looking.poll(patience)
        self._has_looked = True
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
        return []


def test_what_a_trial_writes_at_its_very_end_is_read(
    try_out: Try, monkeypatch: pytest.MonkeyPatch
) -> None:
    poll = select.poll
    monkeypatch.setattr(select, "poll", lambda: LateLook(poll()))
    answer = try_out("good", url="http://away.example/")  # short: a pipe holds all of it
    assert "OSError: nobody fetches" in answer["logs"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("callback", "script"),
    [("swallow", SCRIPT), ("parse", SCRIPT), ("good", ENDLESS_SCRIPT)],
    ids=["swallows", "libxml2", "at the top"],
)
def test_a_trial_that_is_stuck_is_ended_and_told(
    try_out: Try, caplog: pytest.LogCaptureFixture, callback: str, script: str
) -> None:
    caplog.set_level(logging.WARNING, "pyspider_zk.webui.trials")
    answer = try_out(callback, script)
    assert answer["logs"].startswith("the trial failed: it exceeded the time limit of 1 s")
    assert "a trial of project p failed" in caplog.text
    assert try_out("fail")["logs"]


@pytest.mark.parametrize(("callback", "how"), [("die", "SIGKILL"), ("leave", "with code 0")])
def test_a_trial_that_kills_its_process_is_told(try_out: Try, callback: str, how: str) -> None:
    answer = try_out(callback)
    assert answer["logs"].startswith("the trial failed: its process")
    assert how in answer["logs"]
