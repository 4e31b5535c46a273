"""Late messages of deleted projects: nothing is saved, nothing is run, nothing is remembered."""

import linecache
import logging
import queue
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
from pyspider.database import connect_database
from pyspider.libs.utils import Get, ObjectDict

from pyspider_zk.config import Settings
from pyspider_zk.hooks import ClusterProcessor, ClusterResultWorker
from pyspider_zk.projects.cache import FRESH, ProjectCache
from pyspider_zk.workers.loaded_scripts import PRUNING, ExistingProjects
from tests.support.clock import Clock
from tests.support.memory_queues import MemoryBroker
from tests.workers.processors import a_processor

SCRIPT = """
from pyspider.libs.base_handler import BaseHandler

class Handler(BaseHandler):
    ran = []

    def page(self, response):
        self.ran.append(response.url)
        return {"url": response.url}
"""

Database = Callable[[str], Any]


@pytest.fixture
def database(tmp_path: Path) -> Database:
    return lambda kind: connect_database(f"sqlite+{kind}db:///{tmp_path}/{kind}.db")


@pytest.fixture
def projectdb(database: Database) -> Any:
    made = database("project")
    insert(made, "p")
    insert(made, "other")
    return made


def insert(projectdb: Any, name: str) -> None:
    row = {"script": SCRIPT, "status": "RUNNING", "group": "", "comments": ""}
    projectdb.insert(name, {**row, "rate": 1, "burst": 1})


class Counting:
    """A project database that counts questions, and can be away."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.asked = 0
        self.away = False

    def get_all(self, **kwargs: Any) -> Any:
        return self._inner.get_all(**kwargs)

    def get(self, *args: Any, **kwargs: Any) -> Any:
        self.asked += 1
        if self.away:
            raise OSError("away")
        return self._inner.get(*args, **kwargs)


# --- knowing ------------------------------------------------------------------------------------


def test_the_database_is_asked_once_while_the_answer_is_fresh(projectdb: Any) -> None:
    counting, clock = Counting(projectdb), Clock()
    existing = ProjectCache(counting, clock=clock)
    assert all("p" in existing for _ in range(5))
    assert all("nobody" not in existing for _ in range(5))
    assert counting.asked == 2


def test_a_deletion_and_a_birth_are_noticed_when_the_answer_is_old(projectdb: Any) -> None:
    clock = Clock()
    existing = ProjectCache(projectdb, clock=clock)
    assert "p" in existing
    projectdb.drop("p")
    clock.now += FRESH
    assert "p" not in existing
    insert(projectdb, "p")
    clock.now += FRESH
    assert "p" in existing


def test_while_the_database_is_away_every_project_exists_and_that_is_said_once(
    projectdb: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    counting, clock = Counting(projectdb), Clock()
    existing = ProjectCache(counting, clock=clock)
    counting.away = True
    assert "nobody" in existing
    assert "no other" in existing
    counting.away = False
    clock.now += FRESH
    assert "nobody" not in existing
    assert [record.levelno for record in caplog.records] == [logging.WARNING, logging.INFO]


def test_in_a_database_that_never_had_a_project_every_project_exists(database: Database) -> None:
    """It is another one than the schedulers have: pyspider makes an empty one by default."""
    projectdb, clock = database("project"), Clock()
    existing = ProjectCache(projectdb, clock=clock)
    assert "p" in existing
    insert(projectdb, "p")
    clock.now += FRESH
    assert "p" in existing
    projectdb.drop("p")
    clock.now += FRESH
    assert "p" not in existing


# --- results ------------------------------------------------------------------------------------


def a_worker(resultdb: Any, projectdb: Any) -> ClusterResultWorker:
    return ClusterResultWorker(resultdb, queue.Queue(), settings=Settings(), projectdb=projectdb)


def a_result(project: str) -> tuple[dict[str, Any], dict[str, Any]]:
    return {"taskid": "t", "project": project, "url": "http://site.example/t"}, {"a": 1}


def test_results_of_projects_that_exist_are_saved(database: Database, projectdb: Any) -> None:
    resultdb = database("result")
    a_worker(resultdb, projectdb).on_result(*a_result("p"))
    assert resultdb.get("p", "t")["result"] == {"a": 1}


def test_a_late_result_makes_no_table(database: Database, projectdb: Any) -> None:
    resultdb = database("result")
    worker = a_worker(resultdb, projectdb)
    projectdb.drop("p")
    worker.on_result(*a_result("p"))
    assert database("result").projects == set()


def test_results_of_a_project_made_anew_are_saved(database: Database, projectdb: Any) -> None:
    """The worker's database believes that the table which another process dropped is there."""
    worker = a_worker(database("result"), projectdb)
    worker.on_result(*a_result("p"))
    database("result").drop("p")

    worker.on_result(*a_result("p"))

    assert database("result").get("p", "t")["result"] == {"a": 1}


def test_without_a_project_database_all_results_are_saved(database: Database) -> None:
    resultdb = database("result")
    a_worker(resultdb, None).on_result(*a_result("nobody"))
    assert resultdb.count("nobody") == 1


def test_the_project_database_is_the_one_that_the_command_was_given(
    database: Database, projectdb: Any
) -> None:
    given = ObjectDict(projectdb=Get(lambda: projectdb))
    with click.Context(click.Command("result_worker"), obj=given):
        worker = ClusterResultWorker(database("result"), queue.Queue(), settings=Settings())
    worker.on_result(*a_result("nobody"))
    assert database("result").projects == set()


# --- scripts ------------------------------------------------------------------------------------


@pytest.fixture
def processor(projectdb: Any) -> ClusterProcessor:
    return a_processor(projectdb, MemoryBroker().queues(8))


TASK = {"taskid": "t", "project": "p", "url": "data:,x", "process": {"callback": "page"}}
PAGE = {"status_code": 200, "url": "data:,x", "orig_url": "data:,x", "content": ""}


def test_a_late_task_of_a_deleted_project_is_not_run(
    processor: ClusterProcessor, projectdb: Any
) -> None:
    processor.project_manager._existing._fresh = 0
    processor.on_task(dict(TASK), PAGE)
    script = processor.project_manager.projects["p"]["module"].Handler
    assert len(script.ran) == 1

    projectdb.drop("p")
    processor.on_task(dict(TASK), PAGE)

    assert len(script.ran) == 1
    assert processor.project_manager.projects == {}


def test_an_idle_processor_forgets_scripts_too(processor: ClusterProcessor, projectdb: Any) -> None:
    processor.on_task(dict(TASK), PAGE)
    projectdb.drop("p")
    processor.project_manager._pruned -= PRUNING

    with pytest.raises(queue.Empty):
        processor.inqueue.get(timeout=0)

    assert processor.project_manager.projects == {}


def test_scripts_of_deleted_projects_are_forgotten_without_any_task(projectdb: Any) -> None:
    clock = Clock()
    insert(projectdb, "q")
    manager = ExistingProjects(projectdb, {}, clock=clock)
    for name in ("p", "q"):
        assert manager.get(name)["exception"] is None
    sys.modules["projects.p"] = manager.projects["p"]["module"]
    assert "<p>" in linecache.cache

    projectdb.drop("p")
    manager.prune()
    assert set(manager.projects) == {"p", "q"}, "not yet: it is looked for now and then"
    clock.now += PRUNING
    manager.prune()

    assert set(manager.projects) == {"q"}
    assert "projects.p" not in sys.modules
    assert "<p>" not in linecache.cache


def test_a_database_that_is_away_makes_no_script_forgotten(projectdb: Any) -> None:
    class AwayDatabase:
        def get_all(self, **_: Any) -> Any:
            raise OSError("away")

    clock = Clock()
    manager = ExistingProjects(projectdb, {}, clock=clock)
    manager.get("p")
    manager.projectdb = AwayDatabase()
    clock.now += PRUNING
    manager.prune()
    assert set(manager.projects) == {"p"}
