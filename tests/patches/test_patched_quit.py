"""quit() ends every serving thread and frees its port, whoever calls it."""

import socket
import threading
from typing import Any

import pytest

from tests.patches.spiders import DEADLINE, Spider
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow  # each runs whole components of pyspider

ALL_SCHEDULERS = ["Scheduler", "ThreadBaseScheduler"]


def assert_ended(thread: threading.Thread) -> None:
    thread.join(DEADLINE)
    assert not thread.is_alive()


def assert_free(port: int) -> None:
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(("127.0.0.1", port))


@pytest.mark.parametrize("cls", ALL_SCHEDULERS)
def test_a_schedulers_threads_end(spider: Spider, cls: str) -> None:
    scheduler = spider.scheduler(cls)
    running = spider.start(scheduler)
    client = spider.serve(scheduler)
    assert client.size() == 0
    scheduler.quit()
    for _, thread in spider.threads:
        assert_ended(thread)
    assert_ended(running)
    assert_free(scheduler.xmlrpc_port)


def test_the_workers_of_a_scheduler_end_with_it(spider: Spider) -> None:
    scheduler = spider.scheduler("ThreadBaseScheduler", threads=1)
    running = spider.start(scheduler)
    scheduler.quit()
    assert_ended(running)
    for worker in scheduler.thread_objs:
        assert_ended(worker)


def test_a_fetchers_threads_end(spider: Spider) -> None:
    fetcher = spider.fetcher()
    spider.start(fetcher)
    client = spider.serve(fetcher)
    assert client.size() == 0
    fetcher.quit()
    for _, thread in spider.threads:
        assert_ended(thread)
    assert_free(fetcher.xmlrpc_port)


@pytest.mark.parametrize("kind", ["scheduler", "fetcher"])
def test_quit_over_xmlrpc_is_answered_and_ends_the_threads(spider: Spider, kind: str) -> None:
    component = getattr(Spider, kind)(spider)
    spider.start(component)
    assert spider.serve(component)._quit() is None
    for _, thread in spider.threads:
        assert_ended(thread)


@pytest.mark.parametrize("kind", ["scheduler", "fetcher"])
def test_a_component_that_quit_before_it_ran_ends_at_once(spider: Spider, kind: str) -> None:
    component = getattr(Spider, kind)(spider)
    component.quit()
    assert_ended(spider.start(component, "xmlrpc_run", port=0))
    assert_ended(spider.start(component))
    assert_free(component.xmlrpc_port)


def test_a_fetch_in_hand_keeps_no_thread_from_ending(spider: Spider, site: str) -> None:
    fetcher = spider.fetcher()
    spider.start(fetcher)
    eventually(lambda: fetcher._running)
    spider.serve(fetcher)
    errors: list[Exception] = []

    def fetch(client: Any) -> None:
        try:
            client.fetch({"url": f"{site}/never", "project": "p", "taskid": "t"})
        except Exception as error:
            errors.append(error)

    caller = threading.Thread(target=fetch, args=(spider.client(fetcher.xmlrpc_port),))
    caller.start()
    eventually(lambda: fetcher.size() == 1)
    fetcher.quit()
    for _, thread in spider.threads:
        assert_ended(thread)
    assert_ended(caller)
    assert len(errors) == 1


@pytest.mark.parametrize("kind", ["processor", "result_worker"])
def test_a_worker_ends(spider: Spider, kind: str) -> None:
    component = getattr(Spider, kind)(spider)
    thread = spider.start(component)
    component.quit()
    assert_ended(thread)


def test_the_web_ui_ends_and_can_run_again(spider: Spider) -> None:
    from pyspider.webui.app import app

    for _ in range(2):
        thread = spider.start(app, port=0)
        assert app.ready.wait(DEADLINE)
        with socket.create_connection(("127.0.0.1", app.port)):
            app.quit()
        assert_ended(thread)
        assert_free(app.port)


def test_one_ends_when_another_thread_quits_it(spider: Spider) -> None:
    scheduler, fetcher = spider.scheduler("OneScheduler"), spider.fetcher()
    scheduler.init_one(ioloop=fetcher.ioloop, fetcher=fetcher, processor=spider.processor())
    rpc = spider.serve(scheduler)
    running = spider.start(scheduler)
    assert rpc.size() == 0
    scheduler.quit()
    for _, thread in spider.threads:
        assert_ended(thread)
    assert_ended(running)
    fetcher.close()
    assert_free(scheduler.xmlrpc_port)
