"""What a process warns of comes into the cluster's log, and nothing stops the process from work."""

import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from pyspider_zk.components import log_sharing
from pyspider_zk.components.log_sharing import WAITING, LogSharing, shared_log
from pyspider_zk.errors import ConfigError, Unavailable
from pyspider_zk.local.services import RedisServer
from pyspider_zk.queues.api import Queues
from pyspider_zk.queues.connect import connect
from pyspider_zk.queues.log_lines import (
    MESSAGE,
    NAME,
    TRACEBACK,
    ClusterLog,
    Entry,
    LogFilter,
    LogLine,
    read_log,
)
from tests.support.ports import own_port
from tests.support.waiting import eventually

pytestmark = pytest.mark.redis

TASK = "0123456789abcdef0123456789abcdef"


class CountedLog:
    """A cluster's log that knows how often something was to be appended."""

    def __init__(self, log: ClusterLog) -> None:
        self._log = log
        self.tries = 0
        self.fails = False

    def append(self, lines: Sequence[LogLine]) -> None:
        self.tries += 1
        if self.fails:
            raise ValueError("a fault")
        self._log.append(lines)

    def latest(self, before: str, count: int) -> list[Entry]:
        return self._log.latest(before, count)


@pytest.fixture
def own() -> Iterator[logging.Logger]:
    """Give a logger that writes a log of its own, as pyspider's components have one."""
    logger = logging.getLogger("tests.log_sharing")
    logger.propagate, logger.handlers = False, [logging.NullHandler()]
    logger.setLevel(logging.DEBUG)
    yield logger
    logger.propagate, logger.handlers = True, []


@pytest.fixture
def queues(redis_url: str) -> Iterator[Queues]:
    with closing(connect(redis_url, 0, 1)) as made:
        yield made


def shares(logger: logging.Logger) -> bool:
    return any(isinstance(each, LogSharing) for each in logger.handlers)


def oldest_first(log: ClusterLog) -> list[LogLine]:
    return [line for _, line in read_log(log, LogFilter(), "", 10_000)[0]][::-1]


def test_warnings_and_errors_of_all_loggers_are_shared_with_who_and_what(
    redis_url: str, queues: Queues, own: logging.Logger
) -> None:
    with shared_log(redis_url, "processor"):
        own.info("nothing")
        logging.getLogger("tornado.access").warning("404 GET /nowhere")
        own.warning("[404] news:%s http://site.example/", TASK)
        own.warning("no proxy at http://ann@site:HIDDEN@box/\n1")
        try:
            raise KeyError("title")
        except KeyError:
            of_root = logging.getLogger("tests.of_root")
            of_root.exception("process news:%s at redis://:HIDDEN@box/0", TASK)
        own.log(45, "project %s is in quarantine", "shop")
    own.error("too late")
    eventually(lambda: len(oldest_first(queues.log)) == 3)
    first, second, third = oldest_first(queues.log)
    assert (first.level, second.level, third.level) == ("warning", "error", "error")
    assert (first.component, first.pid, first.logger) == ("processor", os.getpid(), own.name)
    assert first.message == r"no proxy at http://ann@site:***@box/\n1"
    assert (second.project, second.task) == ("news", TASK)
    assert second.message == f"process news:{TASK} at redis://:***@box/0"
    assert second.traceback.startswith("Traceback (most recent call last):\n")
    assert second.traceback.endswith("KeyError: 'title'")
    assert (third.project, third.task, third.traceback) == ("shop", "", "")


@pytest.mark.parametrize("task", [f"news:{TASK}", "shop:item-123", "中文:7", "2024_news:on_start"])
def test_a_failed_try_is_not_shared_whatever_its_ids_look_like(queues: Queues, task: str) -> None:
    sharing = LogSharing(queues.log, "fetcher")
    sharing.start()
    for line in (
        f"[404] {task} http://site.example/ 0.50s",
        f"[599] {task} http://site.example/, TimeoutError() 20.00s",
        f"fetch {task} failed: no such scheme",
        f"process {task} http://site.example/ -> [404] len:0 -> result:None fol:0 msg:0 err:X()",
        f"process {task} http://site.example/ failed: it took more than 10 s",
        "the last line",
    ):
        sharing.handle(logging.makeLogRecord({"name": "x", "msg": line, "levelno": 40}))
    sharing.stop()
    eventually(lambda: [each.message for each in oldest_first(queues.log)] == ["the last line"])


def test_whatever_is_logged_it_is_shared_and_what_is_long_is_cut(queues: Queues) -> None:
    sharing = LogSharing(queues.log, "fetcher")
    logger = logging.Logger("\x1b" + "long" * 99)  # unknown to pytest, which fails with a bad one
    logger.addHandler(sharing)
    sharing.start()
    logger.error("%d", "no number \udc80\x1b")
    logger.error("begins %s", "x" * 10**5)
    logger.error("failed", exc_info=ValueError("x" * 10**5 + " ends"), extra={"project": "p" * 999})
    sharing.stop()
    eventually(lambda: len(oldest_first(queues.log)) == 3)
    odd, long, error = oldest_first(queues.log)
    assert "no number" in odd.message
    assert (odd.message + odd.logger).isprintable()
    assert (len(long.message), long.message[:8]) == (MESSAGE, "begins x")
    assert (len(error.traceback), error.traceback[-5:]) == (TRACEBACK, " ends")
    assert error.project == "p" * NAME


def test_while_redis_is_away_the_newest_are_kept_and_nothing_is_logged_of_it_but_once(
    tmp_path: Path,
    redis_server: RedisServer,  # noqa: ARG001 - without a Redis it skips the test
    own: logging.Logger,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(log_sharing, "EVERY", 0.01)
    monkeypatch.setattr(log_sharing, "AWAY", 0.01)
    with RedisServer(tmp_path, own_port()) as server, closing(connect(server.url, 0, 1)) as queues:
        log = CountedLog(queues.log)
        sharing = LogSharing(log, "webui")
        for each in (own, logging.root):
            each.addHandler(sharing)
        sharing.start()
        try:
            own.error("before")
            eventually(lambda: len(oldest_first(log)) == 1)
            server.stop()
            for number in range(WAITING + 5):
                own.error("number %d", number)
            tries = log.tries
            eventually(lambda: log.tries > tries + 2)
            server.start()
            eventually(lambda: len(oldest_first(log)) >= WAITING + 2)
        finally:
            for each in (own, logging.root):
                each.removeHandler(sharing)
            sharing.stop()
        shared = [line.message for line in oldest_first(log)]
    told = "5 records were dropped: they came faster than they could be shared"
    assert shared == ["before", told, *(f"number {each}" for each in range(5, WAITING + 5))]
    lines = [each.getMessage() for each in caplog.records if each.name == log_sharing.__name__]
    assert len([each for each in lines if "is not shared: Redis at" in each]) == 1


def test_why_a_process_ends_is_shared(redis_url: str, queues: Queues) -> None:
    for error in (RuntimeError("no luck"), Unavailable("the database does not answer")):
        with pytest.raises(type(error)), shared_log(redis_url, "scheduler"):
            raise error
    eventually(lambda: len(oldest_first(queues.log)) == 2)
    unknown, known = oldest_first(queues.log)
    assert unknown.message == "this scheduler ends: RuntimeError: no luck"
    assert unknown.traceback.endswith("RuntimeError: no luck")
    told = "this scheduler ends: the database does not answer"
    assert (known.level, known.message, known.traceback) == ("error", told, "")


def test_what_cannot_be_sent_does_not_end_the_sharing(queues: Queues) -> None:
    log = CountedLog(queues.log)
    sharing = LogSharing(log, "fetcher")
    sharing.start()
    log.fails = True
    sharing.handle(logging.makeLogRecord({"name": "x", "levelno": logging.ERROR, "msg": "lost"}))
    eventually(lambda: log.tries == 1)
    log.fails = False
    sharing.handle(logging.makeLogRecord({"name": "x", "levelno": logging.ERROR, "msg": "sent"}))
    sharing.stop()
    eventually(lambda: [line.message for line in oldest_first(queues.log)] == ["sent"])


def test_a_process_ends_though_redis_is_away(own: logging.Logger) -> None:
    with shared_log("redis://127.0.0.1:1/0", "renderer"):
        assert shares(own)
        own.error("lost")
    assert not shares(own)


def test_without_a_message_queue_nothing_is_shared(own: logging.Logger) -> None:
    with shared_log(None, "renderer"):
        assert not shares(own)


def test_a_message_queue_that_a_cluster_cannot_use_is_refused() -> None:
    with pytest.raises(ConfigError, match="amqp://"), shared_log("amqp://box", "renderer"):
        pytest.fail("it is shared nowhere")
