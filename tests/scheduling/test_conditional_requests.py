"""Whether a page is asked for only if it has changed: for its age, not if it is asked for again."""

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from pyspider.fetcher.tornado_fetcher import Fetcher

from pyspider_zk.queues.names import QueueKind
from pyspider_zk.scheduling.scheduler import SlotScheduler
from tests.support.stand_ins import running
from tests.support.world import World, crawling

VALIDATORS = {"etag": '"1"', "last-modified": "Sun, 06 Nov 1994 08:49:37 GMT"}


class UnchangedPage(BaseHTTPRequestHandler):
    """A page that never changes, and says so to whoever asks."""

    def do_GET(self) -> None:
        conditional = {"If-None-Match", "If-Modified-Since"} & {*self.headers}
        self.send_response(304 if conditional else 200)
        for name, value in VALIDATORS.items():
            self.send_header(name, value)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Keep quiet."""


@pytest.fixture
def site() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), UnchangedPage)
    with server, running(server.serve_forever, 0.01):
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


class PageAskedFor:
    """A scheduler whose only page is really fetched.

    Attributes:
        answers: the status codes of its fetches.
        scheduler: the scheduler.
    """

    def __init__(self, world: World, url: str) -> None:
        self.answers: list[int] = []
        self._world, self._url = world, url
        self.scheduler: SlotScheduler = crawling(world)
        self._fetcher = Fetcher(None, None, async_mode=False)

    def ask(self, **schedule: Any) -> None:
        """Request the page."""
        task = {"taskid": "t", "project": "p", "url": self._url, "schedule": schedule}
        self._world.new({**task, "fetch": {}, "process": {"callback": "page"}})
        self.rounds()

    def fetch(self, *, ok: bool = True) -> None:
        """Fetch what was sent, and tell the scheduler."""
        for task in self._world.dispatched():
            page = self._fetcher.sync_fetch(task)
            self.answers.append(page["status_code"])
            fetched = {"ok": True, "time": 0.1, "headers": VALIDATORS}
            track = {"fetch": fetched, "process": {"ok": ok, "time": 0.1}, "save": {"kept": 1}}
            pack = {key: task[key] for key in ("taskid", "project", "url", "schedule")}
            self._world.send(QueueKind.STATUS, {**pack, "track": track})
        self.rounds()

    def rounds(self) -> None:
        for _ in range(3):
            self.scheduler.run_once()

    @property
    def row(self) -> dict[str, Any]:
        found: dict[str, Any] = self._world.database("task").get_task("p", "t")
        return found

    def close(self) -> None:
        self._fetcher.close()


@pytest.fixture
def crawl(world: World, site: str) -> Iterator[PageAskedFor]:
    made = PageAskedFor(world, site)
    made.ask(itag="a")
    made.fetch()
    assert made.answers == [200]
    yield made
    made.close()


@pytest.mark.parametrize("asked", [{"force_update": True}, {"itag": "b"}, {"itag": "b", "age": 0}])
def test_what_is_asked_for_again_comes_whole(crawl: PageAskedFor, asked: dict[str, Any]) -> None:
    crawl.ask(**asked)
    crawl.fetch()
    assert crawl.answers == [200, 200]


@pytest.mark.parametrize("asked", [{"age": 0}, {"age": 0, "itag": "a"}])
def test_what_is_only_old_is_asked_for_if_it_has_changed(
    crawl: PageAskedFor, asked: dict[str, Any]
) -> None:
    crawl.ask(**asked)
    crawl.fetch()
    assert crawl.answers == [200, 304]


def test_it_comes_whole_also_if_its_age_is_asked_for_before_it_is_fetched(
    crawl: PageAskedFor, world: World
) -> None:
    world.projectdb.update("p", {"rate": 0})
    crawl.scheduler.rows.look_soon()
    crawl.ask(force_update=True)
    crawl.ask(age=0)
    world.projectdb.update("p", {"rate": 1e9})
    crawl.scheduler.rows.look_soon()
    crawl.rounds()
    crawl.fetch()
    assert crawl.answers == [200, 200]


def test_it_comes_whole_also_after_a_failure(crawl: PageAskedFor) -> None:
    crawl.ask(force_update=True, age=0)
    crawl.fetch(ok=False)
    crawl.fetch()
    assert crawl.answers == [200, 200, 200]


def test_a_page_that_runs_again_by_itself_is_asked_for_if_it_has_changed(
    crawl: PageAskedFor,
) -> None:
    crawl.ask(force_update=True, auto_recrawl=True, age=0)
    for _ in range(3):
        crawl.fetch()
    assert crawl.answers == [200, 200, 304, 304]


def test_that_it_comes_whole_counts_once(crawl: PageAskedFor) -> None:
    crawl.ask(force_update=True)
    crawl.fetch()
    crawl.ask(age=0)
    crawl.fetch()
    assert crawl.answers == [200, 200, 304]


def test_what_a_script_saved_and_the_pages_show_of_the_last_crawl_stays(
    crawl: PageAskedFor,
) -> None:
    crawl.ask(force_update=True)
    assert crawl.row["track"]["save"] == {"kept": 1}
    assert crawl.row["track"]["fetch"]["headers"] == VALIDATORS
