"""A project that others import is followed: they are loaded anew when it was saved."""

import queue
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from pyspider.database import connect_database
from pyspider.processor.project_module import ProjectManager

from pyspider_zk.hooks import ClusterProcessor
from pyspider_zk.queues.names import QueueKind
from pyspider_zk.workers import loaded_scripts
from tests.patches.spiders import forget_projects
from tests.queues.away import AwayQueue
from tests.support.memory_queues import MemoryBroker
from tests.support.stand_ins import read_all
from tests.workers.processors import a_processor, add_project

SLOTS = 8
LIBRARY = """
from pyspider.libs.base_handler import *


class Shared(BaseHandler):
    @every(seconds={every})
    def tick(self):
        pass

    def page(self, response):
        return {{'version': {version}}}
"""
USER = "from projects.library import Shared\n\n\nclass Handler(Shared):\n    pass\n"
PACKAGE = "from projects import library\n\n\nclass Handler(library.Shared):\n    pass\n"
LAZY = """
from pyspider.libs.base_handler import *


class Handler(BaseHandler):
    def page(self, response):
        from projects.library import Shared
        return Shared.page(self, response)
"""
PLAIN = """
from pyspider.libs.base_handler import *


class Handler(BaseHandler):
    def page(self, response):
        return {'version': 1}
"""
COMPUTED = """
import importlib
from pyspider.libs.base_handler import *

name = 'library'
library = importlib.import_module('projects.' + name)


class Handler(library.Shared):
    pass
"""


class Importing:
    """Processors in one project database."""

    def __init__(self, folder: Path) -> None:
        self._projectdb = connect_database(f"sqlite+projectdb:///{folder}/project.db")
        self._broker = MemoryBroker()
        self.results = AwayQueue()
        self.processors = [
            a_processor(
                self._projectdb,
                self._broker.queues(SLOTS),
                AwayQueue(),
                self.results,
                imports=True,
            )
            for _ in range(2)
        ]

    def save(self, name: str, script: str) -> None:
        """Save a project."""
        if self._projectdb.get(name):
            self._projectdb.update(name, {"script": script})
        else:
            add_project(self._projectdb, name, script)

    def write(self, name: str, script: str, updatetime: object) -> None:
        """Write a project's row as somebody does who goes around pyspider."""
        self._projectdb._execute(
            "UPDATE projectdb SET script = ?, updatetime = ? WHERE name = ?",
            (script, updatetime, name),
        )

    def save_library(self, version: int, every: int = 60) -> None:
        """Save a version of the project that others import."""
        self.save("library", LIBRARY.format(version=version, every=every))

    def look(self) -> None:
        """Let the processors wait for a task."""
        for processor in self.processors:
            with suppress(queue.Empty):
                processor.inqueue.get(timeout=0)

    def told(self) -> list[Any]:
        """Return what processors have told of scripts."""
        left = read_all(self._broker.queues(SLOTS).slot_queues, SLOTS)
        packs: list[Any] = [each.body for each in left if each.kind is QueueKind.STATUS]
        return [each["track"]["save"] for each in packs if each["taskid"] == "_on_get_info"]

    def crawl(self, project: str = "user", callback: str = "page") -> list[Any]:
        """Return what each processor makes of a page, None if its script fails."""
        return [self._crawled(processor, project, callback) for processor in self.processors]

    def _crawled(self, processor: ClusterProcessor, project: str, callback: str) -> Any:
        task = {
            "taskid": "t",
            "project": project,
            "url": "data:,",
            "process": {"callback": callback},
        }
        page = {"status_code": 200, "url": "data:,", "orig_url": "data:,", "content": ""}
        processor.on_task(task, page)
        processor.send()
        with suppress(queue.Empty):
            return self.results.get_nowait()[1].get("version")
        return None


@pytest.fixture
def importing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Importing]:
    monkeypatch.setattr(loaded_scripts, "LOOK", 0.0)
    monkeypatch.setattr(loaded_scripts, "LOOKING", float("inf"))
    made = Importing(tmp_path)
    made.save_library(1)
    yield made
    forget_projects()


@pytest.mark.parametrize("script", [USER, PACKAGE, LAZY, COMPUTED])
def test_whoever_imports_a_project_has_its_latest_version(
    importing: Importing, script: str
) -> None:
    importing.save("user", script)
    assert importing.crawl() == [1, 1]
    importing.look()
    assert importing.crawl() == [1, 1]
    for version in (2, 3):
        importing.save_library(version)
        importing.look()
        assert importing.crawl() == [version, version]


def test_so_has_who_imports_it_through_others(importing: Importing) -> None:
    importing.save("between", "from projects.library import *\nimport projects.circle\n")
    importing.save("circle", "import projects.between\n")
    importing.save("user", "from projects.between import *\n" + USER.replace("library", "between"))
    assert importing.crawl() == [1, 1]
    importing.save_library(2)
    importing.look()
    assert importing.crawl() == [2, 2]


def test_one_that_was_missing_or_broken_is_found_once_it_is_there(importing: Importing) -> None:
    importing.save("user", USER.replace("library", "late"))
    assert importing.crawl() == [None, None]
    importing.save("late", "class Shared: this is no Python")
    importing.look()
    assert importing.crawl() == [None, None]
    importing.save("late", LIBRARY.format(version=2, every=60))
    importing.look()
    assert importing.crawl() == [2, 2]


def test_one_that_is_gone_is_missing(importing: Importing) -> None:
    importing.save("user", USER)
    importing.crawl()
    importing.processors[0].projectdb.drop("library")
    importing.look()
    assert importing.crawl() == [None, None]


def test_the_scheduler_is_told_what_the_script_says_now(importing: Importing) -> None:
    importing.save("user", USER)
    importing.crawl()
    importing.save_library(2, every=10)
    importing.look()
    said = {"min_tick": 10, "retry_delay": {}, "crawl_config": {}}
    assert importing.told() == [said, said]
    importing.look()
    assert importing.told() == [said, said]


def test_the_scheduler_is_told_nothing_of_a_script_that_is_broken(importing: Importing) -> None:
    importing.save("user", USER)
    importing.crawl()
    importing.save("library", "this is no Python")
    importing.look()
    assert importing.crawl() == [None, None]
    assert importing.told() == []


@pytest.mark.parametrize("end", ["SystemExit(2)", "KeyboardInterrupt"])
def test_a_library_that_ends_the_process_fails_only_who_imports_it(
    importing: Importing, end: str
) -> None:
    importing.save("user", USER)
    importing.save("other", PLAIN)
    importing.crawl()

    importing.save("library", f"raise {end}")
    importing.look()

    assert importing.crawl() == [None, None]
    assert importing.crawl("other") == [1, 1]
    assert importing.told() == []
    importing.save_library(2)
    importing.look()
    assert importing.crawl() == [2, 2]


@pytest.mark.parametrize(
    ("script", "saved_at"),
    [("raise SystemExit", 2e9), ("raise KeyboardInterrupt", 2e9), (PLAIN, "today")],
    ids=["SystemExit", "KeyboardInterrupt", "a time that is none"],
)
def test_a_script_that_was_saved_is_loaded_by_its_own_tasks_alone(
    importing: Importing, script: str, saved_at: object
) -> None:
    for name in ("saved", "other"):
        importing.save(name, PLAIN)
        assert importing.crawl(name) == [1, 1]

    importing.write("saved", script, saved_at)
    for processor in importing.processors:
        processor.project_manager.last_check_projects -= ProjectManager.CHECK_PROJECTS_INTERVAL + 1

    assert importing.crawl("other") == [1, 1]
    assert "saved" not in importing.processors[0].project_manager.projects
    importing.save("saved", PLAIN.replace("1", "2"))
    assert importing.crawl("saved") == [2, 2]


def test_what_imports_nothing_stays_loaded(importing: Importing) -> None:
    alone = LAZY.replace("        from projects.library import Shared\n", "").split(
        "        return"
    )[0]
    importing.save("alone", alone + "        return {'version': 1}\n")
    importing.save("user", USER)
    importing.crawl()
    importing.crawl("alone")
    loaded = [each.project_manager.projects["alone"] for each in importing.processors]
    importing.save_library(2)
    importing.look()
    assert [each.project_manager.projects["alone"] for each in importing.processors] == loaded
    assert [{*each.project_manager.projects} for each in importing.processors] == [
        {"alone", "user"}
    ] * 2


def test_nothing_is_loaded_anew_for_another_status(importing: Importing) -> None:
    importing.save("user", USER)
    importing.crawl()
    importing.processors[0].projectdb.update("library", {"status": "STOP"})
    importing.look()
    assert importing.told() == []
