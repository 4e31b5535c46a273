"""What a fetcher has under way when it ends is finished or goes back to its queue, nothing else."""

import logging
import os
import queue
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from pyspider_zk.cluster.records import ComponentKind
from pyspider_zk.config import Settings
from pyspider_zk.hooks import ClusterFetcher, ClusterResultWorker
from pyspider_zk.workers import fetcher
from tests.queues.away import AwayQueue
from tests.support.connected import looking
from tests.support.stand_ins import running

Queue = queue.Queue[Any]


class FetchedSite:
    """A site whose page ``/held`` is answered when the test says so.

    Attributes:
        asked: a semaphore that is released by every request for it.
    """

    def __init__(self) -> None:
        self.asked = threading.Semaphore(0)
        self._release = threading.Event()
        site = self

        class SiteHandler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path == "/held":
                    site.asked.release()
                    site._release.wait(60)
                with suppress(OSError):  # the fetcher may have gone
                    self.send_response(200)
                    self.end_headers()
                    self.wfile.write(b"page")

            def log_message(self, *_: Any) -> None:
                """Keep quiet."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), SiteHandler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def release(self) -> None:
        self._release.set()

    def close(self) -> None:
        self._release.set()
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def site() -> Iterator[FetchedSite]:
    made = FetchedSite()
    with running(made.server.serve_forever, 0.01):
        yield made
        made.close()


@pytest.fixture
def tasks() -> Queue:
    return queue.Queue()


@pytest.fixture
def pages() -> Queue:
    return queue.Queue()


def a_task(url: str, taskid: str = "t") -> dict[str, Any]:
    return {"taskid": taskid, "project": "p", "url": url}


def left(tasks: Queue) -> list[Any]:
    return sorted(task["taskid"] for task in tasks.queue)


@pytest.mark.zk
def test_what_is_under_way_goes_back_and_what_is_finished_does_not(
    site: FetchedSite, tasks: Queue, pages: Queue, cluster_settings: Settings
) -> None:
    # given
    made = ClusterFetcher(tasks, pages, settings=cluster_settings)
    held = a_task(f"{site.url}/held", "held")
    with running(made.run):
        tasks.put(held)
        tasks.put(a_task(f"{site.url}/", "finished"))
        tasks.put(a_task("data:,text", "data"))
        assert {pages.get(timeout=60)[0]["taskid"] for _ in range(2)} == {"finished", "data"}
        assert site.asked.acquire(timeout=60)
        # when
        made.quit()
    # then
    assert list(tasks.queue) == [held]
    assert pages.empty()


@pytest.mark.zk
def test_after_sigterm_what_is_under_way_is_finished_and_nothing_begun(
    site: FetchedSite,
    tasks: Queue,
    pages: Queue,
    cluster_settings: Settings,
    eventually: Callable[..., None],
) -> None:
    made = ClusterFetcher(tasks, pages, settings=cluster_settings)

    def terminate() -> None:
        tasks.put(a_task(f"{site.url}/held", "held"))
        assert site.asked.acquire(timeout=60)
        os.kill(os.getpid(), signal.SIGTERM)
        eventually(lambda: made._drain_until is not None)
        tasks.put(a_task("data:,text", "late"))
        looked = threading.Event()
        for look in (made._wake_up, looked.set):
            made.ioloop.add_callback(look)
        assert looked.wait(60)
        site.release()

    not_ours = _guarded(made.run, terminate)

    assert not not_ours.is_set()
    assert [task["taskid"] for task, _ in pages.queue] == ["held"]
    assert left(tasks) == ["late"]


@pytest.mark.zk
def test_a_drain_lasts_until_the_processors_have_taken_all_results(
    site: FetchedSite,
    tasks: Queue,
    cluster_settings: Settings,
    eventually: Callable[..., None],
) -> None:
    pages: Queue = queue.Queue(maxsize=1)
    made = ClusterFetcher(tasks, pages, settings=cluster_settings)
    with running(made.run):
        for name in "ab":
            tasks.put(a_task(f"{site.url}/held", name))
            assert site.asked.acquire(timeout=60)
        made.end()
        site.release()
        eventually(lambda: made.outqueue.kept == 1 and not made._under_way)
        looked = threading.Event()
        for look in (made.take_tasks, looked.set):
            made.ioloop.add_callback(look)
        assert looked.wait(60)
        assert not made._quit
        assert {pages.get(timeout=60)[0]["taskid"] for _ in "ab"} == {"a", "b"}
    assert left(tasks) == []


@pytest.mark.zk
@pytest.mark.parametrize(("drain", "calls"), [(0.1, 1), (3600.0, 2)], ids=["too long", "again"])
def test_what_takes_longer_than_the_drain_or_a_second_signal_goes_back(
    site: FetchedSite,
    tasks: Queue,
    pages: Queue,
    cluster_settings: Settings,
    drain: float,
    calls: int,
) -> None:
    made = ClusterFetcher(tasks, pages, settings=replace(cluster_settings, drain=drain))
    with running(made.run):
        tasks.put(a_task(f"{site.url}/held", "held"))
        assert site.asked.acquire(timeout=60)
        for _ in range(calls):
            made.end()
    assert left(tasks) == ["held"]
    assert pages.empty()


@pytest.mark.zk
def test_a_task_that_came_twice_goes_back_if_one_of_them_is_unfinished(
    site: FetchedSite, tasks: Queue, pages: Queue, cluster_settings: Settings
) -> None:
    made = ClusterFetcher(tasks, pages, settings=cluster_settings)
    with running(made.run):
        tasks.put(a_task(f"{site.url}/held"))
        assert site.asked.acquire(timeout=60)
        tasks.put(a_task(f"{site.url}/"))
        pages.get(timeout=60)
        made.quit()
    assert left(tasks) == ["t"]


@pytest.mark.zk
def test_a_fetch_for_a_caller_of_ours_is_not_remembered(
    site: FetchedSite, tasks: Queue, pages: Queue, cluster_settings: Settings
) -> None:
    # given
    made = ClusterFetcher(tasks, pages, settings=cluster_settings)
    errors: list[BaseException] = []

    def fetch() -> None:
        try:
            made.sync_fetch(a_task(f"{site.url}/held"))
        except BaseException as error:
            errors.append(error)

    with running(made.run):
        tasks.put(a_task("data:,text", "runs"))
        pages.get(timeout=60)
        with running(fetch):
            assert site.asked.acquire(timeout=60)
            # when
            made.quit()
    # then
    assert len(errors) == 1
    assert left(tasks) == []


def test_a_failed_fetch_is_finished_too(tasks: Queue, pages: Queue) -> None:
    made = ClusterFetcher(tasks, pages, async_mode=False, settings=Settings())
    made.fetch(a_task("nonsense://", "failed"))
    made._send_rest()
    made.inqueue.give_back()
    assert pages.get_nowait()[1]["status_code"] == 599
    assert left(tasks) == []
    made.close()


@pytest.mark.zk
def test_a_full_queue_does_not_keep_it_from_ending(
    site: FetchedSite, pages: Queue, cluster_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    # given
    monkeypatch.setattr(fetcher, "PATIENCE", 0.1)
    tasks: Queue = queue.Queue(maxsize=2)
    made = ClusterFetcher(tasks, pages, poolsize=2, settings=cluster_settings)
    with running(made.run):
        for name in "ab":
            tasks.put(a_task(f"{site.url}/held", name))
            assert site.asked.acquire(timeout=60)
        # when another has filled the queue meanwhile
        for name in "cd":
            tasks.put(a_task(f"{site.url}/held", name))
        made.quit()
    # then
    assert left(tasks) == ["c", "d"]


@pytest.mark.zk
def test_a_queue_that_is_away_does_not_keep_it_from_ending(
    site: FetchedSite, pages: Queue, cluster_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    # given
    monkeypatch.setattr(fetcher, "PATIENCE", 0.1)
    tasks = AwayQueue()
    made = ClusterFetcher(tasks, pages, settings=cluster_settings)
    with running(made.run):
        tasks.put(a_task(f"{site.url}/held"))
        assert site.asked.acquire(timeout=60)
        # when
        tasks.away = True
        made.quit()
    # then
    assert left(tasks) == []


@pytest.mark.zk
def test_results_are_kept_while_the_queue_is_away_and_no_task_is_taken(
    site: FetchedSite,
    tasks: Queue,
    cluster_settings: Settings,
    eventually: Callable[..., None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    # given
    caplog.set_level(logging.INFO, "fetcher")
    pages = AwayQueue()
    made = ClusterFetcher(tasks, pages, settings=cluster_settings)
    with running(made.run):
        for name in "abc":
            tasks.put(a_task(f"{site.url}/held", name))
            assert site.asked.acquire(timeout=60)
        # when
        pages.away = True
        site.release()
        eventually(lambda: made.outqueue.kept == 3)
        for name in "de":
            tasks.put(a_task("data:,text", name))
        # then
        for _ in range(2):
            pages.refused.clear()
            assert pages.refused.wait(60)
        assert left(tasks) == ["d", "e"]
        # and
        pages.away = False
        found = [pages.get(timeout=60)[0]["taskid"] for _ in "abcde"]
        made.quit()
    assert (set(found[:3]), found[3:]) == (set("abc"), ["d", "e"])
    about = [r.levelno for r in caplog.records if "listens" in r.message or "again" in r.message]
    assert about == [logging.WARNING, logging.INFO]


@pytest.mark.zk
def test_a_full_queue_does_not_stop_what_is_being_fetched(
    site: FetchedSite, tasks: Queue, cluster_settings: Settings
) -> None:
    # given a processor that does nothing for a while
    pages: Queue = queue.Queue(maxsize=1)
    made = ClusterFetcher(tasks, pages, settings=cluster_settings)
    with running(made.run):
        for name in "abc":
            tasks.put(a_task(f"{site.url}/held", name))
            assert site.asked.acquire(timeout=60)
        # when all are fetched and only one finds room
        site.release()
        found = {pages.get(timeout=60)[0]["taskid"] for _ in range(3)}
        made.quit()
    # then
    assert found == set("abc")


@pytest.mark.zk
def test_what_is_kept_at_the_end_is_sent(
    site: FetchedSite, tasks: Queue, cluster_settings: Settings, eventually: Callable[..., None]
) -> None:
    pages = AwayQueue()
    made = ClusterFetcher(tasks, pages, settings=cluster_settings)
    with running(made.run):
        tasks.put(a_task(f"{site.url}/held", "kept"))
        assert site.asked.acquire(timeout=60)
        pages.away = True
        site.release()
        eventually(lambda: made.outqueue.kept == 1)
        made.quit()
        pages.away = False
    assert [task["taskid"] for task, _ in pages.queue] == ["kept"]
    assert left(tasks) == []


@pytest.mark.zk
def test_a_task_queue_that_is_away_is_said_once_and_asked_again(
    pages: Queue, cluster_settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "fetcher")
    tasks = AwayQueue(away=True)
    made = ClusterFetcher(tasks, pages, settings=cluster_settings)
    with running(made.run):
        for _ in range(4):
            tasks.refused.clear()
            assert tasks.refused.wait(60)
        tasks.away = False
        tasks.put(a_task("data:,text"))
        pages.get(timeout=60)
        made.quit()
    about = [r.levelno for r in caplog.records if "listens" in r.message or "again" in r.message]
    assert about == [logging.WARNING, logging.INFO]


def present(settings: Settings, kind: ComponentKind) -> list[int]:
    with looking(settings) as directory:
        return [component.pid for component in directory.read().components[kind].values()]


@pytest.mark.zk
def test_a_fetcher_is_present_until_sigterm(
    tasks: Queue, pages: Queue, cluster_settings: Settings
) -> None:
    # given
    made = ClusterFetcher(tasks, pages, settings=cluster_settings)
    seen: list[int] = []

    def terminate() -> None:
        tasks.put(a_task("data:,text"))
        pages.get(timeout=60)
        seen.extend(present(cluster_settings, ComponentKind.FETCHER))
        os.kill(os.getpid(), signal.SIGTERM)

    # when
    not_ours = _guarded(made.run, terminate)
    # then
    assert seen == [os.getpid()]
    assert not not_ours.is_set()
    assert present(cluster_settings, ComponentKind.FETCHER) == []


@pytest.mark.zk
def test_a_result_worker_is_present_until_sigterm(cluster_settings: Settings) -> None:
    # given
    saved: Queue = queue.Queue()

    class Results:
        def save(self, **result: Any) -> None:
            saved.put(result)

    inqueue: Queue = queue.Queue()
    made = ClusterResultWorker(Results(), inqueue, settings=cluster_settings)
    seen: list[int] = []

    def terminate() -> None:
        inqueue.put((a_task("data:,text"), {"title": "one"}))
        assert saved.get(timeout=60)["result"] == {"title": "one"}
        seen.extend(present(cluster_settings, ComponentKind.RESULT_WORKER))
        os.kill(os.getpid(), signal.SIGTERM)

    # when
    not_ours = _guarded(made.run, terminate)
    # then
    assert seen == [os.getpid()]
    assert not not_ours.is_set()
    assert present(cluster_settings, ComponentKind.RESULT_WORKER) == []


@pytest.mark.zk
def test_results_that_are_away_are_said_once_and_saved_later(
    cluster_settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    # given
    caplog.set_level(logging.INFO, "result")
    saved: Queue = queue.Queue()

    class LaterResults:
        def save(self, **result: Any) -> None:
            saved.put(result)

    inqueue = AwayQueue(away=True)
    made = ClusterResultWorker(LaterResults(), inqueue, settings=cluster_settings)
    # when
    with running(made.run):
        for _ in range(4):
            inqueue.refused.clear()
            assert inqueue.refused.wait(60)
        inqueue.away = False
        inqueue.put((a_task("data:,text"), {"title": "one"}))
        # then
        assert saved.get(timeout=60)["result"] == {"title": "one"}
        made.quit()
    about = [r.levelno for r in caplog.records if "listens" in r.message or "again" in r.message]
    assert about == [logging.WARNING, logging.INFO]


def _guarded(run: Callable[[], None], terminate: Callable[[], None]) -> threading.Event:
    """Run on the main thread, terminated by another; return whether nobody caught the signal."""
    not_ours = threading.Event()
    before = signal.signal(signal.SIGTERM, lambda *_: not_ours.set())
    try:
        with running(terminate):
            run()
    finally:
        signal.signal(signal.SIGTERM, before)
    return not_ours


@pytest.mark.parametrize("fetch", [{}, {"method": "GE T"}, "all"])
def test_what_has_no_queues_gives_its_page_to_who_asked(
    caplog: pytest.LogCaptureFixture, fetch: Any
) -> None:
    """The web UI fetches so, for the trials of its editor."""
    made = ClusterFetcher(None, None, async_mode=False, settings=Settings())
    try:
        page = made.fetch({"taskid": "t", "project": "p", "url": "data:,x", "fetch": fetch})
    finally:
        made.close()

    assert page["orig_url"] == "data:,x"
    assert made._under_way == {}
    assert "time-out" not in caplog.text


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (Settings(page_limit=3), "more than 3 bytes (page_limit)"),
        (Settings(forbidden_networks=("127.0.0.0/8",)), "127.0.0.1 is in forbidden_networks"),
    ],
)
def test_what_the_settings_forbid_is_a_failed_fetch(
    site: FetchedSite, settings: Settings, told: str
) -> None:
    made = ClusterFetcher(None, None, async_mode=False, settings=settings)
    try:
        page = made.fetch({"taskid": "t", "project": "p", "url": site.url})
    finally:
        made.close()
    assert page["status_code"] == 599
    assert told in page["error"]


def test_kept_results_use_up_the_memory_for_pages_until_they_are_sent(
    site: FetchedSite, tasks: Queue
) -> None:
    pages = AwayQueue(away=True)
    memory = Settings(page_limit=4, page_memory=4)
    made = ClusterFetcher(tasks, pages, async_mode=False, settings=memory)
    try:
        made.fetch(a_task(site.url))
        assert (made.outqueue.kept, made.http_client.free_size()) == (1, 0)
        pages.away = False
        made._send_rest()
        assert made.http_client.free_size() == made.poolsize
        assert made.size() == 0
    finally:
        made.close()
