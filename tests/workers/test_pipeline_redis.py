"""Processor, slot queues and scheduler over a real Redis: nothing waits for what waits for it."""

import queue
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pyspider_zk.queues.api import Queues
from pyspider_zk.queues.connect import connect
from pyspider_zk.scheduling.scheduler import SlotScheduler
from tests.support.stand_ins import running
from tests.support.world import SLOTS, World
from tests.workers.processors import a_processor

pytestmark = pytest.mark.redis

LIMIT = 10
PAGES = 60
SUCCESS = 2

SCRIPT = f"""
from pyspider.libs.base_handler import BaseHandler


class Handler(BaseHandler):
    def on_start(self):
        self.crawl('data:,index', callback=self.index)
        self.crawl(['data:,page%d' % n for n in range({PAGES})], callback=self.page)

    def index(self, response):
        pass

    def page(self, response):
        self.crawl('data:,index', callback=self.index, force_update=True, age=0)
"""


class Pipeline:
    """A project of a slow index page and many pages that each want it fetched again.

    Attributes:
        slow: dispatched fetches of the index that have not come back yet.
        fetched: how many pages came back.
    """

    def __init__(self, folder: Path, url: str) -> None:
        self._opened: list[Queues] = []
        self._url = url
        self.world = World(folder)
        self.world.broker = self  # type: ignore[assignment]
        self.world.queues = self.queues(SLOTS)
        self.world.project("p", script=SCRIPT)
        self.inqueue: queue.Queue[Any] = queue.Queue()
        self.slow: list[dict[str, Any]] = []
        self.fetched = 0
        self.over = threading.Event()

    def queues(self, slots: int, limit: int = LIMIT) -> Queues:
        self._opened.append(connect(self._url, limit, slots))
        return self._opened[-1]

    def close(self) -> None:
        self.over.set()
        for each in self._opened:
            each.close()

    def process(self) -> None:
        """Run scripts, as a processor does, until the pipeline is over."""
        projectdb = self.world.database("project")
        processor = a_processor(projectdb, self.queues(SLOTS), self.inqueue, slots=SLOTS)
        while not self.over.is_set():
            try:
                processor.on_task(*self.inqueue.get(timeout=0.05))
                processor.send()
            except queue.Empty:
                continue

    def round(self, scheduler: SlotScheduler, until: Callable[[], bool]) -> bool:
        """Let the scheduler work once, and fetch what it sent; return whether it is the end."""
        scheduler.run_once()
        while not self.world.fetcher.empty():
            sent = self.world.fetcher.get_nowait()
            if sent["url"] == "data:,index":
                self.slow.append(sent)
            else:
                self.fetched += sent["url"].startswith("data:,page")
                self.answer(sent)
        return until()

    def answer(self, sent: dict[str, Any]) -> None:
        """Give a page to the processor."""
        told = {"status_code": 200, "url": sent["url"], "orig_url": sent["url"], "content": ""}
        self.inqueue.put((sent, {**told, "save": sent.get("fetch", {}).get("save")}))

    def is_settled(self) -> bool:
        statuses = self.world.statuses("p")
        return len(statuses) > PAGES and set(statuses.values()) == {SUCCESS}


@pytest.fixture
def pipeline(tmp_path: Path, redis_url: str) -> Iterator[Pipeline]:
    made = Pipeline(tmp_path, redis_url)
    yield made
    made.close()


def test_pages_that_want_a_slow_page_again_do_not_block_its_pack(
    pipeline: Pipeline, eventually: Callable[..., None]
) -> None:
    start = {"taskid": "on_start", "project": "p", "url": "data:,on_start"}
    pipeline.world.new({**start, "process": {"callback": "on_start"}})
    scheduler = pipeline.world.scheduler()
    with running(pipeline.process):
        # given that all pages are processed while the index is fetched
        done = lambda: list(pipeline.world.statuses("p").values()).count(SUCCESS) > PAGES  # noqa: E731
        eventually(lambda: pipeline.round(scheduler, done))
        assert len(pipeline.slow) == 1
        (waiting,) = pipeline.world.queues.parking_lot.waiting().values()
        assert waiting.length == 1  # all want the same
        # when it comes back
        pipeline.answer(pipeline.slow.pop())
        eventually(lambda: pipeline.round(scheduler, lambda: bool(pipeline.slow)))
        # then it is fetched again, once
        assert len(pipeline.slow) == 1
        pipeline.answer(pipeline.slow.pop())
        eventually(lambda: pipeline.round(scheduler, pipeline.is_settled))
        pipeline.over.set()
    assert pipeline.world.queues.parking_lot.waiting() == {}
    assert pipeline.world.queues.slot_queues.dead() == 0
    assert sum(pipeline.world.queues.slot_queues.lengths().values()) == 0


def test_the_next_owner_goes_on_with_what_was_parked(
    pipeline: Pipeline, eventually: Callable[..., None]
) -> None:
    start = {"taskid": "on_start", "project": "p", "url": "data:,on_start"}
    pipeline.world.new({**start, "process": {"callback": "on_start"}})
    dead = pipeline.world.scheduler()
    with running(pipeline.process):
        done = lambda: list(pipeline.world.statuses("p").values()).count(SUCCESS) > PAGES  # noqa: E731
        eventually(lambda: pipeline.round(dead, done))
        after = pipeline.world.scheduler()
        pipeline.answer(pipeline.slow.pop())
        eventually(lambda: pipeline.round(after, lambda: bool(pipeline.slow)))
        pipeline.answer(pipeline.slow.pop())
        eventually(lambda: pipeline.round(after, pipeline.is_settled))
        pipeline.over.set()
    assert pipeline.world.queues.parking_lot.waiting() == {}
