"""No message ends a component, whatever it is; it is said whose it was, and the next is done."""

import logging
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from pyspider.database import connect_database

from pyspider_zk.config import Settings
from pyspider_zk.hooks import ClusterFetcher, ClusterProcessor, ClusterResultWorker
from pyspider_zk.queues.names import QueueKind
from tests.queues.away import AwayQueue
from tests.support.memory_queues import MemoryBroker
from tests.support.stand_ins import locked, read_all, running
from tests.workers.processors import a_processor, add_project
from tests.workers.test_fetcher import FetchedSite

SLOTS = 8
SCRIPT = """
import sys
from pyspider.libs.base_handler import BaseHandler


class Handler(BaseHandler):
    def page(self, response):
        return {'ok': True}

    def leave(self, response):
        sys.exit()

    def interrupt(self, response):
        raise KeyboardInterrupt
"""


def deep(levels: int) -> Any:
    value: Any = []
    for _ in range(levels):
        value = [value]
    return value


def task(taskid: str = "t", callback: str = "page", **parts: Any) -> dict[str, Any]:
    return {
        "taskid": taskid,
        "project": "p",
        "url": "data:,x",
        "process": {"callback": callback},
        **parts,
    }


RESPONSE = {"status_code": 200, "url": "data:,x", "orig_url": "data:,x", "content": "x"}
NO_PAIR = [
    None,
    7,
    "x",
    b"\xff",
    [],
    [1],
    [1, 2, 3],
    {},
    {"a": 1, "b": 2},
    [None, None],
    ["a", "b"],
]
NO_TASK = [
    {},
    {"project": "p"},
    {"taskid": "t", "project": "../p", "url": "x"},
    {"taskid": "t", "project": ["p"], "url": "x"},
    {"taskid": {"a": 1}, "project": "p", "url": "x"},
    {"taskid": "t", "project": "p", "url": 7},
    {"taskid": "t", "project": "p", "url": b"\xff"},
]
# What the scheduler is told of as failed: the task can be named.
NO_RESPONSE = [
    None,
    7,
    {"status_code": "x"},
    {"status_code": None},
    {"headers": 7},
    {"headers": {"a": [1]}, "content": 7},
    {"content": deep(50)},
    {"url": 7, "orig_url": []},
    {"time": "long"},
    {"cookies": 7, "status_code": 599},
]


@pytest.fixture
def broker() -> MemoryBroker:
    return MemoryBroker()


@pytest.fixture
def fetched() -> AwayQueue:
    return AwayQueue()


@pytest.fixture
def processor(
    tmp_path: Path, broker: MemoryBroker, fetched: AwayQueue, monkeypatch: pytest.MonkeyPatch
) -> ClusterProcessor:
    projectdb = connect_database(f"sqlite+projectdb:///{tmp_path}/project.db")
    add_project(projectdb, "p", SCRIPT)
    monkeypatch.setattr(
        "pyspider_zk.workers.processor.presence", lambda *_, **__: running(lambda: None)
    )
    return a_processor(projectdb, broker.queues(SLOTS), fetched)


def packs(broker: MemoryBroker) -> list[Any]:
    found = read_all(broker.queues(SLOTS).slot_queues, SLOTS)
    return [delivery.body for delivery in found if delivery.kind is QueueKind.STATUS]


Eventually = Callable[..., None]


def done(broker: MemoryBroker) -> dict[str, bool]:
    return {pack["taskid"]: pack["track"]["process"]["ok"] for pack in packs(broker)}


def test_a_processor_passes_over_what_is_no_page(
    processor: ClusterProcessor, fetched: AwayQueue, broker: MemoryBroker, eventually: Eventually
) -> None:
    for body in [*NO_PAIR, *([bad, RESPONSE] for bad in NO_TASK)]:
        fetched.put(body)
    fetched.put([task("good"), RESPONSE])
    with running(processor.run):
        eventually(lambda: done(broker) == {"good": True})
        processor.quit()


@pytest.mark.parametrize("response", NO_RESPONSE, ids=repr)
def test_a_processor_tells_of_a_page_that_it_cannot_use(
    processor: ClusterProcessor,
    fetched: AwayQueue,
    broker: MemoryBroker,
    eventually: Eventually,
    response: Any,
) -> None:
    if isinstance(response, dict):
        response = {**RESPONSE, **response}
    fetched.put([task("bad"), response])
    fetched.put([task("good"), RESPONSE])
    with running(processor.run):
        eventually(lambda: done(broker).get("good") is True)
        assert "bad" in done(broker)
        processor.quit()


@pytest.mark.parametrize(
    "parts",
    [
        {"process": 7},
        {"process": {"callback": "leave"}},
        {"process": {"callback": "interrupt"}},
    ],
)
def test_a_script_that_leaves_ends_nobody(
    processor: ClusterProcessor,
    fetched: AwayQueue,
    broker: MemoryBroker,
    eventually: Eventually,
    caplog: pytest.LogCaptureFixture,
    parts: dict[str, Any],
) -> None:
    caplog.set_level(logging.ERROR)
    fetched.put([task("bad", **parts), RESPONSE])
    fetched.put([task("good"), RESPONSE])
    with running(processor.run):
        eventually(lambda: done(broker) == {"bad": False, "good": True})
        processor.quit()
    assert "p:bad" in caplog.text


def test_a_processor_outlives_any_number_of_them(
    processor: ClusterProcessor, fetched: AwayQueue, broker: MemoryBroker, eventually: Eventually
) -> None:
    for number in range(50):
        fetched.put([task(f"bad{number}"), None])
    fetched.put([task("good"), RESPONSE])
    with running(processor.run):
        eventually(lambda: len(done(broker)) == 51)
        processor.quit()
    assert sum(not ok for ok in done(broker).values()) == 50


# -- fetcher --------------------------------------------------------------------------------------


@pytest.fixture
def inqueue() -> AwayQueue:
    return AwayQueue()


@pytest.fixture
def fetcher(inqueue: AwayQueue, monkeypatch: pytest.MonkeyPatch) -> ClusterFetcher:
    monkeypatch.setattr(
        "pyspider_zk.workers.fetcher.presence", lambda *_, **__: running(lambda: None)
    )
    return ClusterFetcher(inqueue, AwayQueue(), settings=Settings())


def results(fetcher: ClusterFetcher) -> dict[Any, Any]:
    fetcher.outqueue.send()
    inner = fetcher.outqueue._queue._inner
    return {one["taskid"]: result for one, result in list(inner.queue)}


FETCHES = [
    None,
    7,
    "x",
    [],
    {"timeout": float("nan")},
    {"timeout": "long"},
    {"connect_timeout": -1},
    {"connect_timeout": [1]},
    {"headers": 7},
    {"headers": {"a": {"b": 1}}},
    {"headers": {"a\r\nb": "c\0d"}},
    {"method": 7},
    {"method": "NO SUCH"},
    {"data": 7},
    {"cookies": 7},
    {"max_redirects": "x"},
    {"proxy": "http://[::1"},
    {"proxy": 7},
    {"fetch_type": {"a": 1}},
    {"etag": 7, "last_modified": 7},
    {"validate_cert": "x", "use_gzip": "x"},
    {"save": deep(100)},
]

TRACKS = {
    "track": 7,
    "report": {"fetch": "x"},
    "headers": {"fetch": {"headers": 7}},
    "odd": {"x": 1},
}


def test_a_fetcher_answers_whatever_is_asked_of_it(
    fetcher: ClusterFetcher, inqueue: AwayQueue, eventually: Eventually
) -> None:
    site = FetchedSite()
    thread = running(site.server.serve_forever)
    with thread:
        for body in [*NO_PAIR, *NO_TASK]:
            inqueue.put(body)
        for number, options in enumerate(FETCHES):
            inqueue.put(task(f"bad{number}", url=f"{site.url}/page", fetch=options))
        for name, track in TRACKS.items():
            inqueue.put(task(name, url=f"{site.url}/page", track=track))
        inqueue.put(task("good", url=f"{site.url}/page"))
        with running(fetcher.run):
            eventually(lambda: len(results(fetcher)) == len(FETCHES) + len(TRACKS) + 1)
            told = results(fetcher)
            assert told["good"]["status_code"] == 200
            named = [name for name in TRACKS if "must be a mapping" in told[name].get("error", "")]
            assert named == ["track", "report", "headers"]
            assert fetcher._under_way == {}
            fetcher.quit()
        site.close()


def test_a_page_that_fits_no_message_is_a_failed_one(
    fetcher: ClusterFetcher,
) -> None:
    fetcher.page_limit = 3
    fetcher.send_result("http", task("big"), {**RESPONSE, "content": "xxxx"})
    fetcher.send_result("http", task("fits"), {**RESPONSE, "content": "xxx"})
    told = results(fetcher)
    assert told["big"]["status_code"] == 599
    assert told["big"]["content"] == ""
    assert "4" in told["big"]["error"]
    assert told["fits"]["content"] == "xxx"


def test_a_result_without_a_wire_form_is_a_failed_one(fetcher: ClusterFetcher) -> None:
    fetcher.send_result("http", task("bad"), {**RESPONSE, "save": {1}})
    assert results(fetcher)["bad"]["status_code"] == 599
    assert "'set'" in results(fetcher)["bad"]["error"]


# -- result worker --------------------------------------------------------------------------------


def opened(folder: Path) -> Any:
    return connect_database(f"sqlite+resultdb:///{folder}/result.db")


@pytest.fixture
def resultdb(tmp_path: Path) -> Any:
    return opened(tmp_path)


@pytest.fixture
def worker(
    resultdb: Any, inqueue: AwayQueue, monkeypatch: pytest.MonkeyPatch
) -> ClusterResultWorker:
    path = "pyspider_zk.workers.result_worker"
    monkeypatch.setattr(f"{path}.presence", lambda *_, **__: running(lambda: None))
    monkeypatch.setattr(f"{path}.PAUSE", 0.01)
    return ClusterResultWorker(resultdb, inqueue, settings=Settings())


def test_a_result_worker_saves_the_next_one_whatever_came_before(
    worker: ClusterResultWorker, inqueue: AwayQueue, resultdb: Any, eventually: Eventually
) -> None:
    for body in [*NO_PAIR, *([bad, {"a": 1}] for bad in NO_TASK)]:
        inqueue.put(body)
    for result in (b"\xff", {"a": b"x"}, {b"a": 1}, deep(5000), {1, 2}, object()):
        inqueue.put([task("bad"), result])
    inqueue.put([task("good"), {"a": 1}])
    with running(worker.run):
        eventually(lambda: resultdb.get("p", "good") is not None)
        worker.quit()
    assert resultdb.get("p", "bad") is None


def test_results_wait_for_a_database_that_another_process_has_locked(
    worker: ClusterResultWorker,
    inqueue: AwayQueue,
    tmp_path: Path,
    eventually: Eventually,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "pyspider_zk.databases")
    for number in range(3):
        inqueue.put([task(str(number)), {"a": number}])
    stored = opened(tmp_path)
    with ExitStack() as lock:
        lock.enter_context(locked(tmp_path / "result.db"))
        with running(worker.run):
            eventually(lambda: "resultdb is away" in caplog.text)
            lock.close()
            eventually(lambda: all(stored.get("p", str(number)) for number in range(3)))
            worker.quit()
    said = [record.levelno for record in caplog.records if "resultdb" in record.message]
    assert said == [logging.WARNING, logging.INFO]


@pytest.mark.parametrize("away", [False, True])
def test_what_waits_at_the_end_goes_back_and_is_not_taken_for_saved(
    worker: ClusterResultWorker,
    inqueue: AwayQueue,
    tmp_path: Path,
    eventually: Eventually,
    caplog: pytest.LogCaptureFixture,
    away: bool,
) -> None:
    inqueue.put([task(), {"a": 1}])
    with locked(tmp_path / "result.db"), running(worker.run):
        eventually(lambda: "resultdb is away" in caplog.text)
        inqueue.away = away
        worker.quit()
    if away:
        inqueue.away = False
        worker._back_off.answered()
        worker.inqueue.give_back()
    assert inqueue.get_nowait() == [task(), {"a": 1}]


def test_a_result_that_only_the_database_refuses_holds_up_no_other(
    worker: ClusterResultWorker,
    inqueue: AwayQueue,
    resultdb: Any,
    eventually: Eventually,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    save = resultdb.save

    def picky(project: str, taskid: str, **kwargs: Any) -> Any:
        if taskid == "bad":
            raise ValueError("too long")
        return save(project, taskid, **kwargs)

    monkeypatch.setattr(resultdb, "save", picky)
    inqueue.put([task("bad"), {"a": 1}])
    inqueue.put([task("good"), {"a": 1}])
    with running(worker.run):
        eventually(lambda: resultdb.get("p", "good") is not None)
        worker.quit()
