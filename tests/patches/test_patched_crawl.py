"""Whole crawls of a loopback site, with every component of the patched pyspider."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tests.patches.conftest import serving
from tests.patches.spiders import Spider
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow  # each runs whole components of pyspider

TITLES = {"front", "one", "two"}
ON_START = {
    "project": "demo",
    "taskid": "on_start",
    "url": "data:,on_start",
    "process": {"callback": "on_start"},
}


@pytest.fixture
def redis_spider(tmp_path: Path, redis_url: str) -> Iterator[Spider]:
    spider = Spider(tmp_path, redis_url)
    yield spider
    spider.stop()
    for queue in spider.queues.values():
        queue.redis.close()


def crawl(spider: Spider, script: str) -> Any:
    spider.add_project("demo", script)
    scheduler = spider.scheduler()
    for component in (scheduler, spider.fetcher(), spider.processor(), spider.result_worker()):
        spider.start(component)
    rpc = spider.serve(scheduler)
    eventually(lambda: rpc.newtask(ON_START))
    eventually(lambda: spider.titles("demo") == TITLES)
    return rpc


def test_a_site_is_crawled_over_the_builtin_queues(spider: Spider, script: str) -> None:
    rpc = crawl(spider, script)
    taskdb = spider.taskdb
    eventually(lambda: taskdb.status_count("demo") == {taskdb.SUCCESS: 5})  # with on_finished
    counters = rpc.webui_update()["counter"]
    assert counters["all"]["demo"]["success"] == 5


@pytest.mark.redis
def test_a_site_is_crawled_over_redis(redis_spider: Spider, script: str) -> None:
    crawl(redis_spider, script)
    assert redis_spider.queues["out"].redis.get_encoder().decode_responses is False


@pytest.mark.redis
@pytest.mark.filterwarnings("ignore:.*hmset:DeprecationWarning")
def test_the_redis_taskdb_keeps_tasks(redis_url: str) -> None:
    from pyspider.database import connect_database

    taskdb = connect_database(redis_url.replace("redis:", "redis+taskdb:"))
    task = {"url": "http://x/", "status": taskdb.ACTIVE, "fetch": {"save": "é"}}
    taskdb.insert("demo", "one", task)
    taskdb.update("demo", "one", status=taskdb.SUCCESS)
    assert taskdb.get_task("demo", "one")["fetch"] == {"save": "é"}
    assert taskdb.status_count("demo") == {taskdb.SUCCESS: 1}
    assert [each["taskid"] for each in taskdb.load_tasks(taskdb.SUCCESS, "demo")] == ["one"]
    taskdb.redis.close()


def test_one_crawls_a_site_in_one_thread(spider: Spider, script: str) -> None:
    spider.add_project("demo", script)
    scheduler, fetcher = spider.scheduler("OneScheduler"), spider.fetcher()
    scheduler.init_one(
        ioloop=fetcher.ioloop,
        fetcher=fetcher,
        processor=spider.processor(),
        result_worker=spider.result_worker(),
    )
    scheduler.trigger_on_start("demo")
    thread = spider.start(scheduler)
    eventually(lambda: spider.titles("demo") == TITLES)
    scheduler.quit()
    thread.join()
    fetcher.close()


def test_a_message_reaches_its_project(spider: Spider, script: str) -> None:
    rpc = crawl(spider, script)
    task = {"project": "demo", "taskid": "m", "url": "data:,on_message"}
    task |= {"fetch": {"save": ["__command__", "hello"]}, "process": {"callback": "_on_message"}}
    assert rpc.send_task(task) is True
    message = {"message": "hello"}
    eventually(lambda: message in [row["result"] for row in spider.resultdb.select("demo")])


def test_threads_have_own_connections_to_a_database(spider: Spider) -> None:
    projectdb = spider.projectdb
    connections = [projectdb.dbcur.connection]
    thread = threading.Thread(target=lambda: connections.append(projectdb.dbcur.connection))
    thread.start()
    thread.join()
    assert connections[0] is not connections[1]
    assert projectdb.dbcur.connection is connections[0]


UPLOAD = """
from pyspider.libs.base_handler import *


class Handler(BaseHandler):
    retry_delay = {'': 0}

    def on_start(self):
        raw = bytes(range(256))
        self.crawl('__SITE__/', files={'f': ('f', raw)}, callback=self.page)

    def page(self, response):
        return {'title': response.text}
"""


class FlakyUpload(BaseHTTPRequestHandler):
    """A site that takes an upload at the second try."""

    bodies: ClassVar[list[bytes]] = []

    def do_POST(self) -> None:
        self.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
        body = b"taken"
        self.send_response(500 if len(self.bodies) == 1 else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Keep quiet."""


@pytest.mark.redis
def test_an_upload_is_the_same_at_each_try(redis_spider: Spider) -> None:
    FlakyUpload.bodies.clear()
    spider = redis_spider
    with serving(FlakyUpload) as site:
        spider.add_project("demo", UPLOAD.replace("__SITE__", site))
        scheduler = spider.scheduler()
        for component in (scheduler, spider.fetcher(), spider.processor(), spider.result_worker()):
            spider.start(component)
        rpc = spider.serve(scheduler)
        eventually(lambda: rpc.newtask(ON_START))
        eventually(lambda: spider.titles("demo") == {"taken"})
    first, second = FlakyUpload.bodies
    assert first == second
    assert bytes(range(256)) in first
