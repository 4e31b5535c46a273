"""What a task makes leaves in calls of bounded size, in the safe order, and is not lost."""

import logging
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from pyspider_zk.cluster.records import ComponentKind
from pyspider_zk.errors import Unavailable
from pyspider_zk.local.services import RedisServer
from pyspider_zk.projects.slots import slot_of
from pyspider_zk.queues.api import Message, SlotQueues
from pyspider_zk.queues.back_off import BackOff
from pyspider_zk.queues.connect import connect
from pyspider_zk.queues.names import QueueKind
from pyspider_zk.workers.outbox import MOST_BYTES, MeteredPacks, Outbox
from pyspider_zk.workers.work_meter import WorkMeter
from tests.support.memory_queues import MemoryBroker
from tests.support.stand_ins import FaultySlotQueues, read_all, running

SLOTS = 8
ONE, OTHER = "one", "other"
SOON = 0.01  # seconds

TOO_LARGE = 2**70  # for the wire format
MANY = 2500  # more than two calls may have


@pytest.fixture
def queues() -> FaultySlotQueues:
    return FaultySlotQueues(MemoryBroker())


def back_off_of(grace: float = 0.0) -> BackOff:
    return BackOff(logging.getLogger("processor"), "results wait", grace, pause=SOON)


def outbox_of(queues: Any, back_off: BackOff | None = None) -> Outbox:
    return Outbox(queues, SLOTS, back_off or back_off_of())


def a_task(project: str, taskid: str = "t", **fields: Any) -> dict[str, Any]:
    return {"project": project, "taskid": taskid, "url": f"data:,{taskid}", **fields}


def deliver(outbox: Outbox, body: Any, kind: QueueKind = QueueKind.STATUS) -> None:
    outbox.queue(kind).put(body)
    outbox.send()


def put_a_page(outbox: Outbox, count: int) -> None:
    """Put the pack of a page, and so many new tasks."""
    with outbox:
        outbox.queue(QueueKind.STATUS).put(a_task(ONE, "pack"))
        outbox.queue(QueueKind.NEWTASK).put([a_task(ONE, str(each)) for each in range(count)])


def taskids(messages: list[Message]) -> list[Any]:
    return [message.body["taskid"] for message in messages]  # type: ignore[index]


def test_the_projects_of_these_tests_have_slots_of_their_own() -> None:
    assert slot_of(ONE, SLOTS) != slot_of(OTHER, SLOTS)


def test_new_tasks_precede_the_status_pack_in_one_publish(queues: FaultySlotQueues) -> None:
    outbox = outbox_of(queues)
    with outbox:
        outbox.queue(QueueKind.STATUS).put(a_task(ONE, "pack"))
        outbox.queue(QueueKind.NEWTASK).put([a_task(ONE, "a"), a_task(ONE, "b")])
    assert queues.published == [], "nothing is sent before all is"
    outbox.send()
    (messages,) = queues.published
    assert [message.kind.value for message in messages] == [
        *("newtask_queue", "newtask_queue", "status_queue")
    ]
    assert taskids(messages) == ["a", "b", "pack"]


def test_many_new_tasks_leave_in_parts_and_the_pack_is_in_the_last(
    queues: FaultySlotQueues,
) -> None:
    # given
    outbox = outbox_of(queues)
    # when
    put_a_page(outbox, MANY)
    outbox.send()
    # then
    assert [len(messages) for messages in queues.published] == [1000, 1000, 501]
    assert taskids(queues.everything) == [*map(str, range(MANY)), "pack"]
    # and nothing is left
    outbox.send()
    assert outbox.size == 0
    assert len(queues.published) == 3


def test_new_tasks_of_all_pages_precede_each_status_pack_also_in_parts(
    queues: FaultySlotQueues,
) -> None:
    outbox = outbox_of(queues)
    put_a_page(outbox, MANY)
    put_a_page(outbox, MANY)
    outbox.send()
    kinds = [message.kind for message in queues.everything]
    assert kinds == [QueueKind.NEWTASK] * 2 * MANY + [QueueKind.STATUS] * 2


def test_many_status_packs_leave_in_parts(queues: FaultySlotQueues) -> None:
    outbox = outbox_of(queues)
    with outbox:
        for number in range(MANY):
            outbox.queue(QueueKind.STATUS).put(a_task(ONE, str(number)))
    outbox.send()
    assert [len(messages) for messages in queues.published] == [1000, 1000, 500]
    assert taskids(queues.everything) == [*map(str, range(MANY))]


def test_large_messages_leave_in_parts_of_some_bytes(queues: FaultySlotQueues) -> None:
    # given tasks of which three have more bytes than a part may have, and one by itself
    sizes = [MOST_BYTES // 2, MOST_BYTES // 3, MOST_BYTES // 3, 2 * MOST_BYTES, 0, 0]
    outbox = outbox_of(queues)
    # when
    with outbox:
        outbox.queue(QueueKind.NEWTASK).put(
            [a_task(ONE, str(each), fetch={"save": "x" * size}) for each, size in enumerate(sizes)]
        )
        outbox.queue(QueueKind.STATUS).put(a_task(ONE, "pack"))
    outbox.send()
    # then
    sent = [taskids(messages) for messages in queues.published]
    assert sent == [["0", "1"], ["2"], ["3"], ["4", "5", "pack"]]


def test_an_outage_repeats_only_the_part_that_it_met(queues: FaultySlotQueues) -> None:
    # given
    outbox = outbox_of(queues)
    put_a_page(outbox, MANY)
    queues.away_after(1)
    # when
    with running(outbox.send):
        assert queues.refused.wait(60)
        queues.away = False
    # then
    assert [len(messages) for messages in queues.published] == [1000, 1000, 501]
    assert taskids(queues.everything) == [*map(str, range(MANY)), "pack"]


def test_what_close_leaves_of_a_page_is_what_was_not_sent(queues: FaultySlotQueues) -> None:
    # given
    back_off = back_off_of()
    outbox = outbox_of(queues, back_off)
    put_a_page(outbox, MANY)
    queues.away_after(1)
    # when
    with running(outbox.send, raises=Unavailable):
        assert queues.refused.wait(60)
        back_off.close()
    # then
    assert outbox.size == MANY + 1 - 1000
    queues.away = False
    outbox.send()
    assert taskids(queues.everything) == [*map(str, range(MANY)), "pack"]


def test_room_is_waited_for_between_two_parts() -> None:
    # given
    broker = MemoryBroker()
    queues = FaultySlotQueues(broker, limit=1000)
    outbox = outbox_of(queues)
    put_a_page(outbox, 1500)
    owner = broker.queues(SLOTS).slot_queues
    # when
    with running(outbox.send):
        assert queues.asked_full.wait(60)
        # then
        first = read_all(owner, SLOTS)
        assert len(first) == 1000
        owner.acknowledge(first)
    # and
    assert len(read_all(owner, SLOTS)) == 501


def test_a_task_that_cannot_be_encoded_costs_only_itself_also_in_parts(
    queues: FaultySlotQueues,
) -> None:
    # given
    outbox = outbox_of(queues)
    new = [a_task(ONE, str(number)) for number in range(MANY)]
    new[1234]["fetch"] = {"save": TOO_LARGE}
    # when
    with outbox:
        outbox.queue(QueueKind.STATUS).put(a_task(ONE, "pack"))
        outbox.queue(QueueKind.NEWTASK).put(new)
    outbox.send()
    # then
    left = [str(number) for number in range(MANY) if number != 1234]
    assert taskids(queues.everything) == [*left, "pack"]


def test_each_task_of_a_list_is_a_message_for_its_slot(queues: FaultySlotQueues) -> None:
    outbox = outbox_of(queues)
    three = [a_task(ONE, "a"), a_task(OTHER, "b"), a_task(ONE, "c")]
    deliver(outbox, three, QueueKind.NEWTASK)
    (messages,) = queues.published
    one, other = slot_of(ONE, SLOTS), slot_of(OTHER, SLOTS)
    assert [message.slot for message in messages] == [one, other, one]
    assert taskids(messages) == ["a", "b", "c"]


def test_a_task_put_by_itself_stays_one(queues: FaultySlotQueues) -> None:
    deliver(outbox_of(queues), a_task(ONE, "a"), QueueKind.NEWTASK)
    assert queues.published == [[Message(QueueKind.NEWTASK, slot_of(ONE, SLOTS), a_task(ONE, "a"))]]


def test_a_block_within_the_block_belongs_to_the_outer_task(queues: FaultySlotQueues) -> None:
    outbox = outbox_of(queues)
    with outbox:
        outbox.queue(QueueKind.STATUS).put(a_task(ONE, "outer"))
        with outbox:
            outbox.queue(QueueKind.STATUS).put(a_task(OTHER, "inner"))
            outbox.queue(QueueKind.NEWTASK).put([a_task(OTHER, "new")])
        assert queues.published == []
    outbox.send()
    (messages,) = queues.published
    assert taskids(messages) == ["new", "outer", "inner"]


def test_a_failing_task_sends_nothing_and_leaves_nothing_to_the_next(
    queues: FaultySlotQueues,
) -> None:
    outbox = outbox_of(queues)
    with pytest.raises(RuntimeError, match="the script"):
        _put_and_fail(outbox)
    with outbox:
        outbox.queue(QueueKind.STATUS).put(a_task(ONE, "next"))
    outbox.send()
    assert [taskids(messages) for messages in queues.published] == [["next"]]


def test_a_task_that_made_nothing_publishes_nothing(queues: FaultySlotQueues) -> None:
    outbox = outbox_of(queues)
    with outbox:
        pass
    outbox.send()
    assert queues.published == []


def test_a_queue_that_is_away_is_waited_for_and_nothing_is_lost(queues: FaultySlotQueues) -> None:
    queues.away = True
    with running(deliver, outbox_of(queues), a_task(ONE, "pack")):
        assert queues.refused.wait(60)
        queues.refused.clear()
        assert queues.refused.wait(60)
        queues.away = False
    assert [taskids(messages) for messages in queues.published] == [["pack"]]


def test_close_ends_the_waiting_for_a_queue_that_is_away(queues: FaultySlotQueues) -> None:
    queues.away = True
    back_off = back_off_of()
    outbox = outbox_of(queues, back_off)
    with running(deliver, outbox, a_task(ONE, "kept"), raises=Unavailable):
        assert queues.refused.wait(60)
        back_off.close()
    queues.away = False
    outbox.send()
    assert [taskids(messages) for messages in queues.published] == [["kept"]]


def test_close_ends_the_waiting_for_room() -> None:
    # given a slot whose owner reads nothing
    queues = FaultySlotQueues(MemoryBroker(), limit=1)
    back_off = back_off_of()
    outbox = outbox_of(queues, back_off)
    deliver(outbox, a_task(ONE, "first"))
    # when
    with running(deliver, outbox, a_task(ONE, "second"), raises=Unavailable):
        assert queues.asked_full.wait(60)
        back_off.close()
    # then
    assert [taskids(messages) for messages in queues.published] == [["first"]]


def test_room_is_waited_for() -> None:
    # given
    broker = MemoryBroker()
    queues = FaultySlotQueues(broker, limit=1)
    outbox = outbox_of(queues)
    deliver(outbox, a_task(ONE, "first"))
    # when
    with running(deliver, outbox, a_task(ONE, "second")):
        assert queues.asked_full.wait(60)
        owner = broker.queues(SLOTS).slot_queues
        owner.acknowledge(read_all(owner, SLOTS))
    # then
    assert [each.body["taskid"] for each in read_all(owner, SLOTS)] == ["second"]


def test_a_slot_of_a_dead_owner_holds_up_only_until_the_next_owner_reads() -> None:
    # given a slot whose owner died with all it had read
    broker = MemoryBroker()
    queues = FaultySlotQueues(broker, limit=1)
    outbox = outbox_of(queues)
    deliver(outbox, a_task(ONE, "first"))
    dead = broker.queues(SLOTS).slot_queues
    read_all(dead, SLOTS)
    # when
    with running(deliver, outbox, a_task(ONE, "second")):
        assert queues.asked_full.wait(60)
        # then who has nothing for it goes on
        other = FaultySlotQueues(broker, limit=1)
        deliver(outbox_of(other), a_task(OTHER, "of another slot"))
        # and when the next owner reads, all do
        heir = broker.queues(SLOTS).slot_queues
        first = read_all(heir, SLOTS)
        heir.acknowledge(first)
    assert {each.body["taskid"] for each in first} == {"first", "of another slot"}
    assert [each.body["taskid"] for each in read_all(heir, SLOTS)] == ["second"]


def test_an_outage_is_said_once(queues: FaultySlotQueues, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    queues.away = True
    with running(deliver, outbox_of(queues), a_task(ONE, "pack")):
        for _ in range(3):
            queues.refused.clear()
            assert queues.refused.wait(60)
        queues.away = False
    assert [record.levelno for record in caplog.records] == [logging.WARNING, logging.INFO]


def test_a_queue_that_comes_back_within_the_grace_gets_what_was_done(
    queues: FaultySlotQueues,
) -> None:
    queues.away = True
    back_off = back_off_of(grace=60)
    with running(deliver, outbox_of(queues, back_off), a_task(ONE, "pack")):
        assert queues.refused.wait(60)
        back_off.close()
        queues.refused.clear()
        assert queues.refused.wait(60)
        queues.away = False
    assert [taskids(messages) for messages in queues.published] == [["pack"]]


def test_what_is_done_after_close_is_sent_all_the_same(queues: FaultySlotQueues) -> None:
    back_off = back_off_of()
    outbox = outbox_of(queues, back_off)
    back_off.close()
    with outbox:
        outbox.queue(QueueKind.STATUS).put(a_task(ONE, "pack"))
    outbox.send()
    assert [taskids(messages) for messages in queues.published] == [["pack"]]


def test_a_task_that_cannot_be_encoded_costs_only_itself(queues: FaultySlotQueues) -> None:
    # given
    outbox = outbox_of(queues)
    new = [a_task(ONE, str(number)) for number in range(7)]
    new[3]["fetch"] = {"save": TOO_LARGE}
    # when
    with outbox:
        outbox.queue(QueueKind.STATUS).put(a_task(ONE, "pack"))
        outbox.queue(QueueKind.NEWTASK).put([*new, a_task(OTHER, "other")])
    outbox.send()
    # then
    read = read_all(queues, SLOTS)
    sent = [each.body["taskid"] for each in read if each.kind is QueueKind.NEWTASK]
    assert sorted(sent) == ["0", "1", "2", "4", "5", "6", "other"]
    # and the pack is still the last
    assert [m.kind for m in queues.published[-1]][-1] is QueueKind.STATUS
    assert sum(m.kind is QueueKind.STATUS for messages in queues.published for m in messages) == 1


def test_a_pack_that_cannot_be_encoded_costs_no_new_task(queues: FaultySlotQueues) -> None:
    outbox = outbox_of(queues)
    with outbox:
        outbox.queue(QueueKind.STATUS).put(a_task(ONE, "pack", save=TOO_LARGE))
        outbox.queue(QueueKind.NEWTASK).put([a_task(ONE, "a")])
    outbox.send()
    assert [taskids(messages) for messages in queues.published] == [["a"], ["pack"]]
    (failed,) = queues.published[1]
    assert failed.body["track"]["process"]["ok"] is False  # type: ignore[call-overload, index]


@pytest.mark.parametrize("name", ["logs", "exception"])
def test_a_text_that_is_none_is_sent_as_one(queues: FaultySlotQueues, name: str) -> None:
    outbox = outbox_of(queues)
    packs = MeteredPacks(outbox, WorkMeter(ComponentKind.PROCESSOR, lambda: 0))
    packs.put(a_task(ONE, track={"process": {"ok": True, "time": 0.1, name: "half \ud83d"}}))
    outbox.send()
    ((pack,),) = queues.published
    assert pack.body["track"]["process"][name] == "half \\ud83d"  # type: ignore[call-overload, index]


def test_a_message_without_a_project_fails_its_task(queues: FaultySlotQueues) -> None:
    outbox = outbox_of(queues)
    with pytest.raises(KeyError), outbox:
        outbox.queue(QueueKind.NEWTASK).put([a_task(ONE), {"taskid": "t"}])
    assert queues.published == []


class WatchedQueues:
    """Queues that tell when they were away."""

    def __init__(self, queues: SlotQueues) -> None:
        self._queues = queues
        self.full = queues.full
        self.refused = threading.Event()

    def publish(self, messages: Sequence[Message]) -> None:
        try:
            self._queues.publish(messages)
        except Unavailable:
            self.refused.set()
            raise


@pytest.mark.redis
def test_a_redis_that_was_stopped_gets_everything_once_it_is_back(
    redis_server: RedisServer, redis_url: str
) -> None:
    # given
    queues = connect(redis_url, limit=0, slots=SLOTS).slot_queues
    watched = WatchedQueues(queues)
    redis_server.stop()
    # when
    try:
        with running(_put_both, outbox_of(watched)):
            assert watched.refused.wait(60)
            redis_server.start()
    finally:
        if not redis_server.running:
            redis_server.start()
    # then
    left = read_all(queues, SLOTS)
    assert taskids([Message(each.kind, each.slot, each.body) for each in left]) == ["new", "pack"]
    queues.close()


def _put_both(outbox: Outbox) -> None:
    with outbox:
        outbox.queue(QueueKind.STATUS).put(a_task(ONE, "pack"))
        outbox.queue(QueueKind.NEWTASK).put([a_task(OTHER, "new")])
    outbox.send()


def _put_and_fail(outbox: Outbox) -> None:
    with outbox:
        outbox.queue(QueueKind.STATUS).put(a_task(ONE, "lost"))
        raise RuntimeError("the script")
    outbox.send()
