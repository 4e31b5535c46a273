"""What workers tell of themselves: their tasks, and whether they live and can work."""

import queue
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspider.database import connect_database

from pyspider_zk.cluster.records import ComponentKind
from pyspider_zk.config import Settings
from pyspider_zk.errors import ClusterError
from pyspider_zk.hooks import ClusterFetcher, ClusterProcessor, ClusterResultWorker
from pyspider_zk.metrics import families
from pyspider_zk.metrics.families import FAMILIES, Source
from pyspider_zk.workers.work_meter import WorkMeter
from tests.metrics.reading import Numbers, family_of, get, numbers, parsed, undeclared, value
from tests.queues.away import AwayQueue
from tests.support.memory_queues import MemoryBroker
from tests.support.ports import own_port
from tests.support.stand_ins import running
from tests.workers.processors import a_processor, add_project, page_of

SLOTS = 8
SETTINGS = Settings(slots=SLOTS)
SCRIPT = """
from pyspider.libs.base_handler import BaseHandler


class Handler(BaseHandler):
    def page(self, response):
        return {'text': response.text}

    def fail(self):
        raise ValueError('the script')
"""


def a_task(callback: str, **fields: Any) -> dict[str, Any]:
    task = {"taskid": callback, "project": "p", "url": f"data:,{callback}"}
    return {**task, "process": {"callback": callback}, **fields}


@pytest.fixture
def projectdb(tmp_path: Path) -> Any:
    made = connect_database(f"sqlite+projectdb:///{tmp_path}/project.db")
    add_project(made, "p", SCRIPT)
    return made


@pytest.fixture
def make_processor(projectdb: Any) -> Callable[..., ClusterProcessor]:
    def make(
        inqueue: Any = None, settings: Settings = SETTINGS, limit: int = 0
    ) -> ClusterProcessor:
        queues = MemoryBroker().queues(SLOTS)
        return a_processor(projectdb, queues, inqueue, settings=settings, limit=limit)

    return make


def measured(worker: Any) -> Numbers:
    return numbers(worker._monitoring.exposition.registry.collect())


def ended(worker: Any, component: str) -> tuple[float, float, float]:
    """Return the tasks that were done, those that failed, and how many were timed."""
    found = measured(worker)
    done, failed = (
        value(found, families.WORKED, component=component, outcome=outcome)
        for outcome in ("done", "failed")
    )
    return done, failed, value(found, families.WORK, "_count", component=component)


def test_a_processor_counts_its_tasks(make_processor: Callable[..., ClusterProcessor]) -> None:
    made = make_processor()
    for callback in ("page", "page", "fail"):
        task = a_task(callback)
        made.on_task(task, page_of(task))
    assert ended(made, "processor") == (2, 1, 3)


def test_what_is_under_way_is_reported_the_oldest_first() -> None:
    meter = WorkMeter(ComponentKind.RENDERER, lambda: 0)
    assert meter.report()["oldest"] == ""
    meter.begin(1, a_task("first"))
    meter.begin(2, {"url": "http://h/" + "x" * 1000})
    told = meter.report()
    assert (told["under_way"], told["oldest"]) == (2, "p:first")
    assert 0 < told["oldest_began"] <= time.time()
    meter.end(1)
    meter.count(0.1, ok=True)
    told = meter.report()
    assert (told["under_way"], len(told["oldest"])) == (1, 200)
    assert told["tasks_per_s"] > 0
    assert told["memory"] > 2**20


def test_a_processor_says_what_it_is_busy_with(
    make_processor: Callable[..., ClusterProcessor], monkeypatch: pytest.MonkeyPatch
) -> None:
    made, told = make_processor(), {}

    def look(*_: Any) -> None:
        told.update(made._meter.report())
        raise ValueError("seen")

    monkeypatch.setattr(made.project_manager, "get", look)
    made.on_task(a_task("page"), page_of(a_task("page")))
    assert told["oldest"] == "p:page"
    assert made._meter.report()["under_way"] == 0


def test_a_fetcher_counts_its_fetches() -> None:
    made = ClusterFetcher(queue.Queue(), queue.Queue(), settings=SETTINGS)
    try:
        for status, seconds in ((200, 0.5), (304, 0.1), (404, 0.2), (599, 30.0)):
            made.on_result("http", a_task("page"), {"status_code": status, "time": seconds})
        made.on_result("http", a_task("page"), {})
        assert ended(made, "fetcher") == (2, 3, 5)
        seconds = value(measured(made), families.WORK, "_sum", component="fetcher")
        assert seconds == pytest.approx(30.8)
    finally:
        made.close()


def test_a_result_worker_counts_its_results() -> None:
    class PickyResults:
        def save(self, taskid: str, **_: Any) -> None:
            if taskid == "bad":
                raise ValueError("this row is at fault")

    made = ClusterResultWorker(PickyResults(), queue.Queue(), settings=SETTINGS)
    made.on_result(a_task("good"), {"a": 1})
    with pytest.raises(ValueError, match="at fault"):
        made.on_result(a_task("bad"), {"a": 1})
    assert ended(made, "result-worker") == (1, 1, 2)


def test_messages_that_are_of_no_use_are_counted() -> None:
    inqueue: queue.Queue[str] = queue.Queue()
    made = ClusterResultWorker(None, inqueue, settings=SETTINGS)
    inqueue.put("nonsense")
    with pytest.raises(queue.Empty):
        made.inqueue.get(timeout=0.01)
    assert value(measured(made), families.PASSED_OVER, component="result-worker") == 1


def test_a_message_queue_that_is_away_makes_a_worker_unready_and_not_dead(
    make_processor: Callable[..., ClusterProcessor],
) -> None:
    pages = AwayQueue(away=True)
    made = make_processor(pages, limit=5)
    health = made._monitoring.health
    assert (health.alive(), health.ready()) == ("", "")
    with pytest.raises(queue.Empty):
        made.inqueue.get(timeout=0.01)
    assert (health.alive(), health.ready()) == ("", "message_queue")
    made._meter.pulse._last = -1e9  # it waits for the queue since then
    assert health.alive() == ""
    pages.away = False
    made._back_off._due = 0.0
    with pytest.raises(queue.Empty):
        made.inqueue.get(timeout=0.01)
    assert (health.alive(), health.ready()) == ("", "")


def test_a_processor_that_hangs_in_a_task_is_dead(
    make_processor: Callable[..., ClusterProcessor],
) -> None:
    made = make_processor(limit=5)
    made._meter.pulse._last = time.monotonic() - SETTINGS.hang - 1
    assert made._monitoring.health.alive() == ""  # a script may take its time
    made._meter.pulse._last = time.monotonic() - SETTINGS.hang - 6
    assert made._monitoring.health.alive() == "the loop has stopped"


def test_a_processor_whose_scripts_have_no_limit_lives(
    make_processor: Callable[..., ClusterProcessor],
) -> None:
    made = make_processor(limit=0)
    made._meter.pulse._last = -1e9
    assert made._monitoring.health.alive() == ""


def test_a_processor_that_waits_for_room_lives(
    make_processor: Callable[..., ClusterProcessor],
) -> None:
    made = make_processor(limit=5)
    made._meter.pulse._last = -1e9
    made._back_off.wait(0.001)
    assert made._monitoring.health.alive() == ""


@contextmanager
def serving(made: Any) -> Iterator[None]:
    with running(made.run):
        try:
            yield
        finally:
            made.quit()


@pytest.mark.zk
@pytest.mark.parametrize("kind", ["processor", "fetcher", "result-worker"])
def test_a_worker_serves_every_declared_metric_while_it_runs(
    kind: str,
    make_processor: Callable[..., ClusterProcessor],
    cluster_settings: Settings,
    eventually: Callable[..., Any],
) -> None:
    port = own_port()
    settings = replace(cluster_settings, metrics=f"127.0.0.1:{port}")
    made: Any = {
        "processor": lambda: make_processor(settings=settings),
        "fetcher": lambda: ClusterFetcher(queue.Queue(), queue.Queue(), settings=settings),
        "result-worker": lambda: ClusterResultWorker(None, queue.Queue(), settings=settings),
    }[kind]()
    with serving(made):
        eventually(lambda: made._meter.pulse._last)
        assert get(port, "/healthz").status == get(port, "/readyz").status == 200
        found = parsed(get(port, "/metrics").text)
    names = {family.name for series in found if (family := family_of(series.name))}
    sources = {Source.ALL, Source.WORKER} | ({Source.PROCESSOR} if kind == "processor" else set())
    assert names == {each.name for each in FAMILIES if each.source in sources}
    assert undeclared(found) == []
    with pytest.raises(ConnectionRefusedError):
        get(port, "/healthz")


@pytest.mark.zk
def test_a_port_that_is_taken_is_an_error_with_its_remedy(
    cluster_settings: Settings, eventually: Callable[..., Any]
) -> None:
    settings = replace(cluster_settings, metrics=f"127.0.0.1:{own_port()}")
    first = ClusterResultWorker(None, queue.Queue(), settings=settings)
    second = ClusterResultWorker(None, queue.Queue(), settings=settings)
    with serving(first):
        eventually(lambda: first._meter.pulse._last)
        with pytest.raises(ClusterError, match="PYSPIDER_ZK_METRICS"):
            second.run()
