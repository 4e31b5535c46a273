"""A processor is replaced that a script or a page holds, or kills; the task counts as failed."""

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from subprocess import Popen
from typing import Any

import pytest
from pyspider.message_queue import connect_message_queue

from pyspider_zk.cluster.alerts import AlertKind, Observation, alerts
from pyspider_zk.cluster.event_log import EventLog
from pyspider_zk.cluster.events import Event, EventKind
from pyspider_zk.cluster.records import ComponentKind
from pyspider_zk.cluster.tree import Tree
from pyspider_zk.config import Settings
from pyspider_zk.errors import ClusterError
from pyspider_zk.queues.connect import connect
from tests.integration.conftest import Crawl
from tests.support.connected import connected
from tests.support.stand_ins import read_all

pytestmark = [pytest.mark.zk, pytest.mark.redis, pytest.mark.slow]

LIMIT = 1  # seconds
ATTRIBUTES = 100_000  # of one element: libxml2 takes minutes

SCRIPT = """
import os, time
import lxml.html  # response.doc refuses such a page
from pyspider.libs.base_handler import BaseHandler


class Handler(BaseHandler):
    def swallow(self):
        open('stuck', 'w').close()
        while True:
            try:
                time.sleep(1)
            except BaseException:
                pass

    def generate(self):
        while True:
            time.sleep(1)
        yield {}

    def parse(self, response):
        return {'title': lxml.html.fromstring(response.text).findtext('.//title')}

    def abort(self):
        os.abort()

    def leave(self):
        os._exit(0)

    def wait(self):
        open('stuck', 'w').close()
        time.sleep(600)

    def slow(self):
        time.sleep(10)

    def good(self, response):
        return {'text': response.text}
"""
ENDLESS_SCRIPT = f"{SCRIPT}\nwhile True: time.sleep(1)\n"

Page = tuple[dict[str, Any], dict[str, Any]]


def page(callback: str, content: str = "text", project: str = "held", **process: object) -> Page:
    url = f"http://site.example/{callback}"
    task = {
        "taskid": callback,
        "project": project,
        "url": url,
        "process": {"callback": callback, **process},
    }
    return task, {"status_code": 200, "url": url, "orig_url": url, "content": content}


class Processed:
    """A processor without a scheduler: pages go in, packs stay in the slot queues."""

    def __init__(
        self, crawl: Crawl, settings: Settings, queue_url: str, folder: Path, wait: Any
    ) -> None:
        self.crawl, self._settings, self._folder, self._wait = crawl, settings, folder, wait
        self._queues = connect(queue_url, 0, settings.slots)
        self._found: dict[str, dict[str, Any]] = {}
        self._pages = connect_message_queue("fetcher2processor", queue_url)
        for name, script in {"held": SCRIPT, "endless": ENDLESS_SCRIPT}.items():
            self.save(name, script)

    def save(self, name: str, script: str) -> None:
        """Add a project, or replace its script."""
        database = self.crawl.database("project")
        if database.get(name):
            database.update(name, {"script": script})
        else:
            row = {"script": script, "status": "RUNNING", "group": "", "comments": ""}
            database.insert(name, {**row, "rate": 1, "burst": 1})

    def start(self, limit: float = LIMIT) -> Popen[str]:
        return self.crawl.start("processor", "--process-time-limit", limit)

    def put(self, *pages: Page) -> None:
        for each in pages:
            self._pages.put(each)

    def packs(self, count: int) -> dict[str, dict[str, Any]]:
        """Wait for so many status packs, and return what each tells of its task's processing."""

        def are_there() -> bool:
            for each in read_all(self._queues.slot_queues, self._settings.slots):
                self._found[each.body["taskid"]] = each.body["track"]["process"]
            return len(self._found) >= count

        self._wait(are_there, f"{count} packs")
        return self._found

    def await_stuck(self) -> None:
        """Wait until a script says that it is."""
        self._wait(self._folder.joinpath("stuck").exists, "a script that is stuck")

    def pid(self, *but: int) -> int:
        """Wait until a processor is present; return its process id.

        Args:
            but: those that were; they are shown for as long as their sessions last.
        """

        def present() -> set[int]:
            with suppress(ClusterError):  # the first processor makes the cluster
                kinds = self.crawl.directory.read().components
                return {each.pid for each in kinds.get(ComponentKind.PROCESSOR, {}).values()}
            return set()

        return int(self._wait(lambda: present() - {*but}, "a processor").pop())

    def event(self) -> Event:
        """Wait for the event of a processor's death."""
        with connected(self._settings) as connection:
            log = EventLog(connection, Tree(self._settings.root))

            def deaths() -> list[Event]:
                return [event for _, event in log.read() if event.kind == EventKind.PROCESSOR]

            self._wait(deaths, "an event")
            return deaths()[0]

    def alert(self) -> str:
        """Wait for the alert about a lost processor; return what it says."""

        def found() -> list[str]:
            every = alerts(Observation(self.crawl.directory.read()))
            return [alert.text for alert in every if alert.kind is AlertKind.LOST]

        return str(self._wait(found, "an alert")[0])


@pytest.fixture
def processed(
    crawl: Crawl,
    cluster_settings: Settings,
    redis_url: str,
    tmp_path: Path,
    eventually: Callable[..., None],
) -> Processed:
    return Processed(crawl, cluster_settings, redis_url, tmp_path, eventually)


@pytest.mark.parametrize(
    "stuck",
    [
        page("swallow"),
        page("generate"),
        page("parse", f"<a {' '.join(f'a{n}=1' for n in range(ATTRIBUTES))}>"),
        page("at_once", project="endless"),
    ],
    ids=["swallows", "generator", "libxml2", "at the top"],
)
def test_what_holds_a_processor_is_ended_and_counts_as_failed(
    processed: Processed, stuck: Page
) -> None:
    watchdog = processed.start()
    before = processed.pid()
    task = stuck[0]
    processed.put(stuck, page("good"))

    packs = processed.packs(2)

    assert "time limit" in packs[task["taskid"]]["exception"]
    assert packs["good"]["ok"] is True
    assert processed.pid(before)
    assert watchdog.poll() is None
    event = processed.event()
    assert event.data["project"] == task["project"]
    assert task["url"] in event.text
    assert processed.alert() == event.text


def test_a_library_that_is_saved_and_never_ends_holds_no_processor(processed: Processed) -> None:
    processed.save("library", SCRIPT)
    processed.save("importer", "from projects.library import *\n" + SCRIPT)
    processed.start()
    before = processed.pid()
    processed.put(page("good", project="importer"))
    processed.packs(1)

    processed.save("library", ENDLESS_SCRIPT)
    processed.pid(before)
    processed.put(page("parse", "<title>after</title>"))

    packs = processed.packs(3)
    assert packs["parse"]["ok"] is True
    assert "time limit" in packs["_on_get_info"]["exception"]
    assert processed.event().data["project"] == "importer"


def test_a_task_has_the_limit_that_its_script_gives_it(processed: Processed) -> None:
    processed.start(limit=1)
    before = processed.pid()
    processed.put(page("slow", process_time_limit=60), page("wait", process_time_limit=1))

    packs = processed.packs(2)

    assert packs["slow"]["ok"] is True
    assert "process timeout" in packs["wait"]["logs"]
    assert processed.pid() == before


def test_a_scheduler_counts_the_try_and_keeps_the_reason(
    processed: Processed, eventually: Callable[..., None]
) -> None:
    crawl = processed.crawl
    crawl.scheduler(), crawl.start("fetcher"), processed.start()
    crawl.settled()
    task = {"taskid": "on_start", "project": "held", "url": "data:,on_start"}
    schedule = {"retries": 0}
    rpc = crawl.rpc()
    eventually(
        lambda: rpc.newtask({**task, "schedule": schedule, "process": {"callback": "swallow"}})
    )

    taskdb = crawl.database("task")

    def row() -> dict[str, Any]:
        return taskdb.get_task("held", "on_start") or {}

    eventually(lambda: row().get("status") == taskdb.FAILED)
    assert "exceeded the time limit of 1 s" in row()["track"]["process"]["logs"]


@pytest.mark.parametrize(("callback", "how"), [("abort", "SIGABRT"), ("leave", "code 0")])
def test_what_kills_a_processor_counts_as_failed(
    processed: Processed, callback: str, how: str
) -> None:
    processed.start()
    processed.put(page(callback), page("good"))

    packs = processed.packs(2)

    assert packs[callback]["ok"] is False
    assert how in packs[callback]["exception"]
    assert packs["good"]["ok"] is True


def test_who_is_killed_from_outside_is_replaced_busy_or_not(processed: Processed) -> None:
    watchdog = processed.start(limit=0)
    processed.put(page("wait"))
    processed.await_stuck()
    os.kill(busy := processed.pid(), signal.SIGKILL)

    packs = processed.packs(1)
    os.kill(processed.pid(busy), signal.SIGKILL)
    processed.put(page("good"))

    assert "SIGKILL" in packs["wait"]["exception"]
    assert processed.packs(2)["good"]["ok"] is True
    assert watchdog.poll() is None


def test_who_is_stuck_at_sigterm_ends_by_the_limit_and_its_task_counts(
    processed: Processed,
) -> None:
    watchdog = processed.start(limit=10)
    processed.put(page("swallow"), page("good"))
    processed.await_stuck()
    watchdog.terminate()

    assert watchdog.wait(60) == 0
    assert set(processed.packs(1)) == {"swallow"}


def test_the_processor_goes_with_a_watchdog_that_is_killed(
    processed: Processed, eventually: Callable[..., None]
) -> None:
    watchdog = processed.start()
    pid = processed.pid()
    assert pid != watchdog.pid
    watchdog.kill()

    eventually(lambda: not _runs(pid))


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
