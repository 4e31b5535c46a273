"""How large, how deep and how many: what is more goes to the dead letters, and holds up nobody."""

from typing import Any

import msgpack
import pytest

from pyspider_zk.errors import BadMessage
from pyspider_zk.queues import caps
from pyspider_zk.queues.api import Message
from pyspider_zk.queues.dead_letters import letter_dict
from pyspider_zk.queues.names import QueueKind

NEW = QueueKind.NEWTASK
SMALL = 10_000  # bytes; the cap in these tests


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caps, "MESSAGE", SMALL)
    monkeypatch.setattr(caps, "ROUND", 5 * SMALL)
    monkeypatch.setattr(caps, "KEPT", 100)
    monkeypatch.setattr(caps, "SHOWN", 500)
    monkeypatch.setattr(caps, "TASKS", 50)


def task(**parts: Any) -> dict[str, Any]:
    return {"project": "p", "taskid": "t", "url": "x", **parts}


def bodies(queues: Any, limit: int = 100) -> list[Any]:
    return [delivery.body for delivery in queues.read(NEW, limit)]


def deep(levels: int) -> bytes:
    return b"\x91" * levels + b"\xc0"


def test_what_is_larger_is_not_published(backend: Any) -> None:
    queues = backend.process().slot_queues
    with pytest.raises(BadMessage, match=r"task 't' of project 'p'.* bytes, the limit is 10000"):
        queues.publish([Message(NEW, 0, task(x="y" * SMALL))])
    assert queues.lengths()[NEW] == 0


@pytest.mark.parametrize(
    "raw",
    [
        msgpack.packb(["x" * (SMALL + 1)]),
        msgpack.packb([None] * 51),
        deep(100_000)[:SMALL],
        deep(900),
        b"\x81\xa1a" * 900 + b"\xc0",
    ],
    ids=["large", "many", "deep", "deeper", "mappings"],
)
def test_what_is_too_much_in_a_slot_queue_is_a_dead_letter(backend: Any, raw: bytes) -> None:
    queues = backend.process().slot_queues
    backend.put_raw(NEW, 0, raw)
    queues.publish([Message(NEW, 0, 1)])
    queues.take([0])
    assert bodies(queues) == [1]
    assert (queues.dead(), queues.lengths()[NEW]) == (1, 1)


@pytest.mark.parametrize(
    "raw", [msgpack.packb(["x" * (SMALL + 1)]), msgpack.packb([None] * 51), deep(900)]
)
def test_what_is_too_much_in_the_inbox_is_a_dead_letter(backend: Any, raw: bytes) -> None:
    queues = backend.process()
    backend.put_inbox(NEW, raw)
    backend.put_inbox(NEW, msgpack.packb(task()))
    for _ in range(2):
        queues.inbox.forward(10)
    assert (queues.slot_queues.dead(), queues.slot_queues.lengths()[NEW]) == (1, 1)
    assert queues.inbox.lengths()[NEW] == 0


def test_a_list_that_is_too_large_as_members_write_it_is_a_dead_letter(backend: Any) -> None:
    """A number of four bytes has eight once it was read."""
    queues = backend.process().slot_queues
    raw = msgpack.packb([task(track={"x": [0.5] * 1500})], use_single_float=True)
    assert len(raw) < SMALL
    backend.put_raw(NEW, 0, raw)
    queues.publish([Message(NEW, 0, 1)])
    queues.take([0])
    assert bodies(queues) == [1]
    (letter,) = queues.dead_letters(9)
    assert (letter.body, queues.lengths()[NEW]) == (raw, 1)
    assert "task 't' of project 'p' has" in letter.reason


@pytest.mark.redis
def test_what_is_larger_is_cut_by_the_server(redis_backend: Any) -> None:
    queues = redis_backend.process().slot_queues
    redis_backend.put_raw(NEW, 0, b"x" * 3 * SMALL)
    queues.take([0])
    assert bodies(queues) == []
    (letter,) = queues.dead_letters(10)
    assert letter.body == b"x" * 100
    assert "has 30000 bytes, the limit is 10000" in letter.reason


@pytest.mark.redis
def test_a_round_reads_no_more_than_its_bytes(redis_backend: Any) -> None:
    queues = redis_backend.process().slot_queues
    queues.take([0, 1])
    for slot in (0, 1):
        queues.publish([Message(NEW, slot, "x" * (SMALL - 100))] * 10)
    sizes = [len(bodies(queues)) for _ in range(6)]
    assert sum(sizes) == 20
    assert max(sizes) <= 6


def test_a_long_letter_is_shown_cut_and_replayed_whole(backend: Any) -> None:
    queues = backend.process().slot_queues
    queues.take([0])
    queues.publish([Message(NEW, 0, "x" * 2000)])
    (delivery,) = queues.read(NEW, 1)
    queues.reject(delivery, "no use")
    (letter,) = queues.dead_letters(1)
    told = letter_dict(letter)
    assert told["cut"] is True
    assert len(told["message"]) < 600
    queues.replay([letter.tag])
    assert bodies(queues) == ["x" * 2000]


def test_a_short_letter_is_shown_whole(backend: Any) -> None:
    queues = backend.process().slot_queues
    queues.take([0])
    queues.publish([Message(NEW, 0, "x")])
    queues.reject(queues.read(NEW, 1)[0], "no use")
    told = letter_dict(queues.dead_letters(1)[0])
    assert (told["cut"], told["message"]) == (False, "x")


@pytest.mark.redis
def test_dead_letters_are_bounded_by_their_bytes(
    redis_backend: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(caps, "DEAD", 100_000)
    queues = redis_backend.process().slot_queues
    queues.take([0])
    for number in range(40):
        queues.publish([Message(NEW, 0, f"{number}" + "x" * (SMALL - 100))])
        queues.reject(queues.read(NEW, 1)[0], "no use")
    assert 3 <= queues.dead() <= 15
    assert msgpack.unpackb(queues.dead_letters(1)[0].body).startswith("39x")
    assert "dropped the oldest" in caplog.text
