"""What every implementation of Inbox must do."""

import logging
from typing import Any

import msgpack
import pytest

from pyspider_zk.projects.slots import slot_of
from pyspider_zk.queues.api import Queues
from pyspider_zk.queues.names import QueueKind

NEW, STATUS = QueueKind.NEWTASK, QueueKind.STATUS
SLOTS = 8


def task(project: object, number: int = 0) -> dict[str, object]:
    return {"project": project, "taskid": f"{project}-{number}", "url": "http://x/"}


def pack(body: object) -> bytes:
    return msgpack.packb(body)


@pytest.fixture
def owner(backend: Any) -> Queues:
    queues = backend.process()
    queues.slot_queues.take(range(SLOTS))
    return queues


def read(owner: Queues, kind: QueueKind) -> list[tuple[int, Any]]:
    return [(delivery.slot, delivery.body) for delivery in owner.slot_queues.read(kind, 1000)]


def test_a_task_goes_to_the_slot_of_its_project(backend: Any, owner: Queues) -> None:
    backend.put_inbox(NEW, pack(task("shop")))
    backend.put_inbox(STATUS, pack(task("news")))
    assert owner.inbox.forward(10) == 2
    assert read(owner, NEW) == [(slot_of("shop", SLOTS), task("shop"))]
    assert read(owner, STATUS) == [(slot_of("news", SLOTS), task("news"))]
    assert owner.inbox.lengths() == {NEW: 0, STATUS: 0}


def test_a_list_of_tasks_becomes_a_message_of_each(backend: Any, owner: Queues) -> None:
    projects = ["a", "b", "a", "c"]
    assert slot_of("a", SLOTS) != slot_of("b", SLOTS)
    backend.put_inbox(NEW, pack([task(name, n) for n, name in enumerate(projects)]))
    owner.inbox.forward(10)
    bodies = read(owner, NEW)
    assert all(slot_of(body["project"], SLOTS) == slot for slot, body in bodies)
    found = [body["taskid"] for _, body in bodies]
    assert sorted(found) == ["a-0", "a-2", "b-1", "c-3"]
    assert found.index("a-0") < found.index("a-2")


def test_order_within_a_slot_is_kept(backend: Any, owner: Queues) -> None:
    for number in range(250):
        backend.put_inbox(NEW, pack(task("shop", number)))
    assert owner.inbox.forward(1000) == 250
    assert [body["taskid"] for _, body in read(owner, NEW)] == [f"shop-{n}" for n in range(250)]


@pytest.mark.parametrize("limit", [0, 1, 3])
def test_no_more_than_the_limit_of_each_kind_moves(backend: Any, owner: Queues, limit: int) -> None:
    for number in range(5):
        backend.put_inbox(NEW, pack(task("shop", number)))
        backend.put_inbox(STATUS, pack(task("shop", number)))
    assert owner.inbox.forward(limit) == 2 * limit
    assert owner.inbox.lengths() == {NEW: 5 - limit, STATUS: 5 - limit}


def test_an_empty_inbox_moves_nothing(owner: Queues) -> None:
    assert owner.inbox.forward(10) == 0


def test_equal_messages_all_move(backend: Any, owner: Queues) -> None:
    for _ in range(3):
        backend.put_inbox(NEW, pack(task("shop")))
    assert owner.inbox.forward(10) == 3
    assert len(read(owner, NEW)) == 3


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"\xc1", "no msgpack"),
        (b"", "no msgpack"),
        (b"\x81\x91\x01\x02", "no msgpack"),
        (pack("text"), "no task but a str"),
        (pack({"taskid": "x"}), "project name None"),
        (pack(task("no/slash")), "project name 'no/slash'"),
        (pack(task(b"bytes")), "project name b'bytes'"),
        (pack(task("x" * 65)), "65 characters"),
    ],
)
@pytest.mark.parametrize("kind", QueueKind)
def test_what_is_no_task_goes_to_the_dead_letters(
    backend: Any, owner: Queues, kind: QueueKind, raw: bytes, reason: str
) -> None:
    backend.put_inbox(kind, raw)
    backend.put_inbox(kind, pack(task("shop")))
    assert owner.inbox.forward(10) == 2
    assert [body for _, body in read(owner, kind)] == [task("shop")]
    (letter,) = owner.slot_queues.dead_letters(10)
    assert (letter.kind, letter.slot, letter.body) == (kind, None, raw)
    assert reason in letter.reason


def test_a_list_of_status_packs_is_no_status_pack(backend: Any, owner: Queues) -> None:
    backend.put_inbox(STATUS, pack([task("shop")]))
    owner.inbox.forward(10)
    assert "no task but a list" in owner.slot_queues.dead_letters(1)[0].reason


def test_good_tasks_of_a_list_with_bad_ones_move(backend: Any, owner: Queues) -> None:
    backend.put_inbox(NEW, pack([task("shop"), 42, task("")]))
    assert owner.inbox.forward(10) == 1
    assert [body for _, body in read(owner, NEW)] == [task("shop")]
    letters = owner.slot_queues.dead_letters(10)
    assert sorted(letter.body for letter in letters) == sorted([pack(42), pack(task(""))])


def test_an_empty_list_vanishes(backend: Any, owner: Queues) -> None:
    backend.put_inbox(NEW, pack([]))
    assert owner.inbox.forward(10) == 1
    assert owner.inbox.lengths()[NEW] == owner.slot_queues.dead() == 0


def test_a_rejected_message_is_logged_once_without_its_body(
    backend: Any, owner: Queues, caplog: pytest.LogCaptureFixture
) -> None:
    backend.put_inbox(NEW, pack(task("no/slash") | {"fetch": {"cookies": "secret"}}))
    with caplog.at_level(logging.WARNING, "pyspider_zk.queues"):
        owner.inbox.forward(10)
        owner.inbox.forward(10)
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "secret" not in record.getMessage()
    assert len(record.getMessage()) < 300


def test_messages_for_a_full_slot_wait_in_the_inbox(backend: Any, owner: Queues) -> None:
    inbox = backend.process(limit=2).inbox
    for number in range(5):
        backend.put_inbox(NEW, pack(task("shop", number)))
    assert (inbox.forward(10), inbox.forward(10)) == (2, 0)
    owner.slot_queues.acknowledge(owner.slot_queues.read(NEW, 10))
    assert inbox.forward(10) == 2
    assert [body["taskid"] for _, body in read(owner, NEW)] == ["shop-2", "shop-3"]


def test_a_split_message_waits_while_one_of_its_slots_is_full(backend: Any, owner: Queues) -> None:
    inbox = backend.process(limit=1).inbox
    backend.put_inbox(NEW, pack(task("a")))
    backend.put_inbox(NEW, pack([task("a"), task("b")]))
    assert inbox.forward(10) == 1
    assert [body for _, body in read(owner, NEW)] == [task("a")]
