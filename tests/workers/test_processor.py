"""Scripts run as in pyspider; what they make reaches the queue of its project's slot."""

import logging
import os
import signal
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspider.database import connect_database
from pyspider.processor.processor import Processor

from pyspider_zk.cluster.records import ComponentKind
from pyspider_zk.config import Settings
from pyspider_zk.errors import Unavailable
from pyspider_zk.hooks import ClusterProcessor
from pyspider_zk.projects.slots import slot_of
from pyspider_zk.queues.api import Delivery
from pyspider_zk.queues.names import QueueKind
from tests.queues.away import AwayQueue
from tests.support.connected import looking
from tests.support.memory_queues import MemoryBroker
from tests.support.stand_ins import FaultySlotQueues, faulty, locked, read_all, running
from tests.workers.processors import a_processor, add_project, page_of

SLOTS = 8
ONE, OTHER = "one", "other"

SCRIPT = """
from pyspider.libs.base_handler import BaseHandler


class Handler(BaseHandler):
    def on_start(self):
        self.crawl('http://site.example/1', callback=self.page)
        self.crawl('http://site.example/2', callback=self.page)

    def page(self, response):
        return {'text': response.text}

    def count(self):
        return {'large': 2 ** 70}

    def fail(self):
        self.crawl('http://site.example/3', callback=self.page)
        raise ValueError('the script')

    def tell(self):
        self.send_message('other', {'news': 1}, url='data:,news')

    def on_message(self, project, message):
        self.crawl('http://site.example/news', callback=self.page)
        return {'from': project, **message}
"""


@pytest.fixture
def projectdb(tmp_path: Path) -> Any:
    made = connect_database(f"sqlite+projectdb:///{tmp_path}/project.db")
    for name in (ONE, OTHER):
        add_project(made, name, SCRIPT)
    return made


@pytest.fixture
def broker() -> MemoryBroker:
    return MemoryBroker()


@pytest.fixture
def slot_queues(broker: MemoryBroker) -> FaultySlotQueues:
    return faulty(broker, SLOTS)[1]


@pytest.fixture
def fetched() -> AwayQueue:
    return AwayQueue()


@pytest.fixture
def results() -> AwayQueue:
    return AwayQueue()


@pytest.fixture
def make(
    projectdb: Any,
    broker: MemoryBroker,
    slot_queues: FaultySlotQueues,
    fetched: AwayQueue,
    results: AwayQueue,
) -> Callable[..., ClusterProcessor]:
    def make(settings: Settings | None = None) -> ClusterProcessor:
        queues = replace(broker.queues(SLOTS), slot_queues=slot_queues)
        return a_processor(projectdb, queues, fetched, results, settings=settings)

    return make


Make = Callable[..., ClusterProcessor]


def a_task(callback: str, project: str = ONE, **fields: Any) -> dict[str, Any]:
    url = f"data:,{callback}"
    return {
        "taskid": callback,
        "project": project,
        "url": url,
        "process": {"callback": callback},
        **fields,
    }


def run(processor: ClusterProcessor, task: dict[str, Any]) -> None:
    processor.on_task(task, page_of(task))
    processor.send()


def left(broker: MemoryBroker) -> list[Delivery]:
    return read_all(broker.queues(SLOTS).slot_queues, SLOTS)


def test_follow_ups_arrive_at_the_slot_of_their_project_before_the_pack(
    make: Make, slot_queues: FaultySlotQueues
) -> None:
    run(make(), a_task("on_start"))
    ((*new, pack),) = slot_queues.published
    assert {(each.kind, each.slot) for each in new} == {(QueueKind.NEWTASK, slot_of(ONE, SLOTS))}
    assert [each.body["url"] for each in new] == [  # type: ignore[index]
        "http://site.example/1",
        "http://site.example/2",
    ]
    assert (pack.kind, pack.slot) == (QueueKind.STATUS, slot_of(ONE, SLOTS))
    assert pack.body["track"]["process"]["ok"] is True  # type: ignore[index]
    assert pack.body["track"]["process"]["follows"] == 2  # type: ignore[index]


def test_an_exception_in_the_script_still_gives_a_failed_pack(
    make: Make, broker: MemoryBroker
) -> None:
    run(make(), a_task("fail"))
    new, pack = left(broker)
    assert new.body["url"] == "http://site.example/3"
    assert pack.body["track"]["process"]["ok"] is False
    assert "the script" in pack.body["track"]["process"]["logs"]


def test_a_task_of_an_unknown_project_gives_a_failed_pack(make: Make, broker: MemoryBroker) -> None:
    run(make(), a_task("page", project="nobody"))
    (pack,) = left(broker)
    assert (pack.slot, pack.body["project"]) == (slot_of("nobody", SLOTS), "nobody")
    assert pack.body["track"]["process"]["ok"] is False


def test_a_message_reaches_the_slot_of_the_project_it_is_sent_to(
    make: Make, slot_queues: FaultySlotQueues, results: AwayQueue
) -> None:
    # given
    assert slot_of(ONE, SLOTS) != slot_of(OTHER, SLOTS)
    # when
    run(make(), a_task("tell"))
    # then all leaves with the task that sent it
    (messages,) = slot_queues.published
    assert [(message.kind, message.slot) for message in messages] == [
        (QueueKind.NEWTASK, slot_of(OTHER, SLOTS)),
        (QueueKind.STATUS, slot_of(ONE, SLOTS)),
    ]
    task, result = results.get_nowait()
    assert (task["project"], result) == (OTHER, {"from": ONE, "news": 1})


def test_results_take_pyspiders_own_way(
    make: Make, results: AwayQueue, broker: MemoryBroker
) -> None:
    run(make(), a_task("page"))
    assert results.get_nowait()[1] == {"text": "text"}
    assert [delivery.kind for delivery in left(broker)] == [QueueKind.STATUS]


def test_a_result_waits_outside_of_the_script_whose_time_is_limited(
    make: Make, results: AwayQueue, slot_queues: FaultySlotQueues, broker: MemoryBroker
) -> None:
    # given
    results.away = True
    processor = make()
    # when
    with running(run, processor, a_task("page")):
        for _ in range(2):
            results.refused.clear()
            assert results.refused.wait(60)
        # then the script has ended, and what must come after the result has not left
        assert processor.project_manager.projects[ONE]["instance"].task is None
        assert slot_queues.published == []
        results.away = False
    # and it has not failed
    (pack,) = left(broker)
    assert pack.body["track"]["process"]["ok"] is True
    assert results.get_nowait()[1] == {"text": "text"}


def test_to_quit_ends_the_waiting(make: Make, results: AwayQueue) -> None:
    processor = make()
    processor._back_off._grace = 0
    results.away = True
    with running(run, processor, a_task("page"), raises=Unavailable):
        assert results.refused.wait(60)
        processor.quit()


def test_a_result_that_cannot_be_sent_at_all_fails_its_script(
    make: Make, broker: MemoryBroker
) -> None:
    run(make(), a_task("count"))
    (pack,) = left(broker)
    assert pack.body["track"]["process"]["ok"] is False


def test_what_comes_of_several_pages_leaves_in_one_call(
    make: Make, fetched: AwayQueue, slot_queues: FaultySlotQueues, results: AwayQueue
) -> None:
    # given
    processor = make()
    for callback in ("page", "on_start", "page"):
        fetched.put((a_task(callback), page_of(a_task(callback))))
    processor.on_task(*processor.inqueue.get_nowait())
    # when the first was done soon
    for _ in range(2):
        processor.on_task(*processor.inqueue.get_nowait())
    # then
    assert [len(messages) for messages in slot_queues.published] == [1]
    processor.send()
    kinds = [[message.kind.name for message in each] for each in slot_queues.published]
    assert kinds == [["STATUS"], ["NEWTASK", "NEWTASK", "STATUS", "STATUS"]]
    assert results.qsize() == 2


def test_results_leave_before_the_pack_of_their_task(
    make: Make, results: AwayQueue, slot_queues: FaultySlotQueues
) -> None:
    slot_queues.away = True
    with running(run, make(), a_task("page")):
        assert slot_queues.refused.wait(60)
        assert results.qsize() == 1
        slot_queues.away = False


def test_no_service_is_needed_to_make_one(projectdb: Any) -> None:
    nowhere = Settings(hosts="127.0.0.1:1", slots=SLOTS)
    queues = MemoryBroker().queues(SLOTS)
    ClusterProcessor(projectdb, None, None, None, None, settings=nowhere, queues=queues)


# -- with a real ZooKeeper -------------------------------------------------------------------


def present(settings: Settings) -> list[int]:
    """Return the processes of the processors that are present."""
    with looking(settings) as directory:
        found = directory.read().components.get(ComponentKind.PROCESSOR, {})
    return [component.pid for component in found.values()]


@pytest.fixture
def small(cluster_settings: Settings) -> Settings:
    return Settings(**{**vars(cluster_settings), "slots": SLOTS})


@pytest.mark.zk
def test_it_is_present_while_it_runs(
    make: Make,
    small: Settings,
    fetched: AwayQueue,
    broker: MemoryBroker,
    eventually: Callable[..., None],
) -> None:
    # given
    processor = make(small)
    # when
    with running(processor.run):
        task = a_task("on_start")
        fetched.put((task, page_of(task)))
        eventually(lambda: len(left(broker)) == 3)
        # then
        assert present(small) == [os.getpid()]
        processor.quit()
    # and
    assert present(small) == []


@pytest.mark.zk
def test_a_message_queue_that_goes_away_ends_no_processor_and_is_said_once(
    make: Make,
    small: Settings,
    fetched: AwayQueue,
    broker: MemoryBroker,
    eventually: Callable[..., None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    # given
    caplog.set_level(logging.INFO, "processor")
    processor = make(small)
    fetched.away = True
    # when
    with running(processor.run):
        eventually(lambda: fetched.asked > Processor.EXCEPTION_LIMIT)
        fetched.away = False
        task = a_task("on_start")
        fetched.put((task, page_of(task)))
        eventually(lambda: len(left(broker)) == 3)
        processor.quit()
    # then
    about = [r.levelno for r in caplog.records if "listens" in r.message or "again" in r.message]
    assert about == [logging.WARNING, logging.INFO]


@pytest.mark.zk
def test_a_page_whose_script_is_not_to_be_had_goes_back_when_it_ends(
    make: Make,
    small: Settings,
    fetched: AwayQueue,
    broker: MemoryBroker,
    tmp_path: Path,
    eventually: Callable[..., None],
) -> None:
    processor = make(small)
    page = (a_task("page"), page_of(a_task("page")))
    with locked(tmp_path / "project.db"), running(processor.run):
        fetched.put(page)
        eventually(lambda: processor.project_manager.is_away)
        processor.quit()
    assert fetched.get_nowait() == page
    assert left(broker) == []


@pytest.mark.zk
def test_its_queues_are_closed_when_it_ends(
    make: Make, small: Settings, slot_queues: FaultySlotQueues
) -> None:
    processor = make(small)
    processor.quit()
    processor.run()
    with pytest.raises(Unavailable):
        slot_queues.publish([])


def test_its_queues_are_closed_when_it_cannot_join(
    make: Make, slot_queues: FaultySlotQueues, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any, **__: Any) -> Any:
        raise Unavailable("no ZooKeeper")

    monkeypatch.setattr("pyspider_zk.workers.processor.presence", refused)
    with pytest.raises(Unavailable, match="no ZooKeeper"):
        make().run()
    with pytest.raises(Unavailable, match="closed"):
        slot_queues.publish([])


@pytest.mark.zk
def test_sigterm_ends_it_after_the_task_at_hand(
    make: Make,
    small: Settings,
    fetched: AwayQueue,
    slot_queues: FaultySlotQueues,
    broker: MemoryBroker,
) -> None:
    # given a task that waits for the message queue
    processor = make(small)
    task = a_task("on_start")
    for _ in range(2):
        fetched.put((task, page_of(task)))
    slot_queues.away = True
    not_ours = threading.Event()
    before = signal.signal(signal.SIGTERM, lambda *_: not_ours.set())

    def terminate() -> None:
        assert slot_queues.refused.wait(60)
        os.kill(os.getpid(), signal.SIGTERM)
        assert quitted.wait(60)
        slot_queues.away = False

    quitted = threading.Event()
    quit_, processor.quit = processor.quit, lambda: (quit_(), quitted.set())  # type: ignore[method-assign, assignment]
    # when
    try:
        with running(terminate):
            processor.run()
    finally:
        signal.signal(signal.SIGTERM, before)
    # then what it made of the first is sent, the second is left
    assert not not_ours.is_set()
    assert [delivery.kind.value for delivery in left(broker)] == [
        *("newtask_queue", "newtask_queue", "status_queue")
    ]
    assert fetched.qsize() == 1
