"""Redis is stopped and started again, twice, while a crawl goes on."""

import threading
import time
from collections.abc import Callable, Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from subprocess import Popen

import pytest
import redis

from pyspider_zk.config import Settings
from pyspider_zk.local.services import RedisServer
from tests.integration.conftest import Crawl, Site

pytestmark = [pytest.mark.zk, pytest.mark.redis, pytest.mark.slow]

NAMES = [f"p{number}" for number in range(6)]
OUTAGE = 5.0  # seconds; more than a lease
COMPONENTS = ("fetcher", "processor", "result-worker")
RETRIED = 120.0  # seconds; a page that failed once in the burst is tried again after thirty
BACK = "the message queue answers again"


class Heard(Crawl):
    """A crawl whose processes are listened to while they run."""

    def __init__(self, *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]
        self.lines: dict[Popen[str], list[str]] = {}

    def start(self, *command: object, **kwargs: object) -> Popen[str]:
        child = super().start(*command, **kwargs)  # type: ignore[arg-type]
        self.lines.setdefault(child, [])
        return child

    def _log(self, child: Popen[str], command: tuple[object, ...]) -> None:
        assert child.stdout is not None
        with (self._folder / f"{command[0]}-{child.pid}.log").open("w", encoding="utf-8") as log:
            for line in child.stdout:
                log.write(line)
                self.lines.setdefault(child, []).append(line)

    def said(self, text: str) -> dict[str, int]:
        """Return how often each process has said something."""
        return {
            f"{child.args[-1]} {child.pid}": sum(text in line for line in list(lines))  # type: ignore[index]
            for child, lines in self.lines.items()
        }


@pytest.fixture
def own_redis(
    redis_server: RedisServer,  # noqa: ARG001 - without a Redis it skips the test, or fails it in CI
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[RedisServer]:
    """Give a Redis with an append-only file, that this test alone may stop."""
    with RedisServer(tmp_path_factory.mktemp("own-redis")) as server:
        yield server


@pytest.fixture
def crawl(
    tmp_path: Path,
    cluster_settings: Settings,
    own_redis: RedisServer,
    eventually: Callable[..., None],
) -> Iterator[Heard]:
    """Give a cluster without processes yet, over a Redis of its own."""
    with Heard(tmp_path, cluster_settings, own_redis.url, eventually) as made:
        yield made


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """Give a site that takes the burst of requests after an outage.

    With the short queue of its server the system drops connections, and dials again after 30 s.
    """
    monkeypatch.setattr(ThreadingHTTPServer, "request_queue_size", 256)
    with Site(60) as made:
        yield made


def restart(server: RedisServer) -> None:
    """Stop a Redis and start it again; its clients are left without an answer for a while.

    A command that it carries out in its very last moment is never answered. If that took a task
    off a queue the task would come back after ten minutes, pyspider's time-out, and not before. So
    the clients are stopped first.
    """
    with redis.Redis.from_url(server.url) as client:
        client.client_pause(int(OUTAGE * 1000))
    server.stop()
    time.sleep(OUTAGE)  # it is the fault, not the wait for something
    server.start()


def test_a_crawl_goes_on_while_redis_is_restarted_twice(
    crawl: Heard, site: Site, own_redis: RedisServer, eventually: Callable[..., None]
) -> None:
    # given
    processes = [crawl.scheduler(), crawl.scheduler(), *map(crawl.start, COMPONENTS)]
    crawl.settled()
    crawl.run_projects(site, NAMES)
    # when
    for number, share in enumerate((0.2, 0.5), 1):
        crawl.wait_for(share, site)
        restart(own_redis)
        eventually(lambda expected=number: set(crawl.said(BACK).values()) == {expected})
    # then everything is crawled by the very same processes
    crawl.wait_for(1, site)
    assert crawl.crawled() == dict.fromkeys(NAMES, site.pages)
    eventually(lambda: crawl.finished(site), within=RETRIED)
    assert [child.poll() for child in processes] == [None] * len(processes)
    # and each said of each outage that it began and that it ended, and no more
    assert set(crawl.said(own_redis.address).values()) == {2}
    assert set(crawl.said(BACK).values()) == {2}
    assert set(crawl.said("Traceback").values()) == {0}
    _end(processes)


def _end(processes: list[Popen[str]]) -> None:
    """End them as an operator does; none may fail at it."""
    for child in processes:
        child.terminate()
    codes: dict[int, int] = {}
    threads = [
        threading.Thread(target=lambda each=child: codes.update({each.pid: each.wait()}))
        for child in processes
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(codes.values()) == {0}
