"""What every implementation of SlotQueues must do about dead letters."""

from typing import Any

import pytest
from redis import Redis

from pyspider_zk.queues import redis_dead_letters
from pyspider_zk.queues.api import DeadLetter, Message, Queues, SlotQueues
from pyspider_zk.queues.codec import encode
from pyspider_zk.queues.names import QueueKind

NEW, STATUS = QueueKind.NEWTASK, QueueKind.STATUS
NOBODY_S = ["", "no tag", "0", "1-", "999-999", "9" * 30 + "-0"]


@pytest.fixture
def process(backend: Any) -> Queues:
    found: Queues = backend.process()
    return found


@pytest.fixture
def queues(process: Queues) -> SlotQueues:
    return process.slot_queues


def reject(
    queues: SlotQueues, *numbers: int, slot: int = 0, kind: QueueKind = NEW
) -> list[DeadLetter]:
    """Reject messages; return their letters in the same order."""
    queues.take([slot])
    queues.publish([Message(kind, slot, {"taskid": n, "project": "p"}) for n in numbers])
    for delivery in queues.read(kind, len(numbers)):
        queues.reject(delivery, "no use")
    return queues.dead_letters(len(numbers))[::-1]


def ids(queues: SlotQueues, kind: QueueKind = NEW) -> list[int]:
    return [delivery.body["taskid"] for delivery in queues.read(kind, 1000)]


def test_letters_have_tags_of_their_own(queues: SlotQueues) -> None:
    letters = reject(queues, 1, 2, 3)
    assert len({letter.tag for letter in letters}) == 3
    assert queues.dead_letters(0) == []


def test_tags_are_told_from_the_oldest_to_one_that_was_seen(
    queues: SlotQueues, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_dead_letters, "BATCH", 2)
    tags = [letter.tag for letter in reject(queues, 1, 2, 3, 4, 5)]
    assert queues.dead_letter_tags() == tags
    assert queues.dead_letter_tags(tags[2]) == tags[:3]


def test_those_that_are_skipped_are_read_some_at_a_time(
    queues: SlotQueues, monkeypatch: pytest.MonkeyPatch
) -> None:
    letters = reject(queues, 1, 2, 3, 4, 5, 6)[::-1]
    monkeypatch.setattr(redis_dead_letters, "BATCH", 2)
    read = Redis.xrevrange
    counts: list[int] = []

    def counted(*args: Any, count: int) -> Any:
        counts.append(count)
        return read(*args, count=count)

    monkeypatch.setattr(Redis, "xrevrange", counted)
    assert queues.dead_letters(2, 3) == letters[3:5]
    assert queues.dead_letters(2, 4) == letters[4:]
    assert queues.dead_letters(2, 6) == queues.dead_letters(2, 7) == []
    assert max(counts, default=0) <= 2


def test_a_letter_that_is_replayed_is_read_again(queues: SlotQueues) -> None:
    first, second, third = reject(queues, 1, 2, 3, slot=5, kind=STATUS)
    assert queues.replay([third.tag, first.tag]) == 2
    assert ids(queues, STATUS) == [3, 1]
    assert [letter.tag for letter in queues.dead_letters(9)] == [second.tag]


def test_a_letter_is_replayed_to_whoever_owns_its_slot_now(
    backend: Any, queues: SlotQueues
) -> None:
    (letter,) = reject(queues, 1, slot=5)
    owner = backend.process().slot_queues
    owner.take([5])
    assert queues.replay([letter.tag]) == 1
    assert ids(owner) == [1]


def test_a_letter_is_replayed_once(backend: Any, queues: SlotQueues) -> None:
    (letter,) = reject(queues, 1)
    other = backend.process().slot_queues
    assert [queues.replay([letter.tag, letter.tag]), other.replay([letter.tag])] == [1, 0]
    assert ids(queues) == [1]


@pytest.mark.redis
def test_two_that_replay_at_the_same_time_put_a_letter_back_once(
    redis_backend: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # given one that has looked at a letter when another one replays it
    queues, other = (redis_backend.process().slot_queues for _ in range(2))
    (letter,) = reject(queues, 1)
    types = redis_dead_letters._types

    def late(*args: Any) -> dict[str, str]:
        monkeypatch.undo()
        assert other.replay([letter.tag]) == 1
        return types(*args)

    monkeypatch.setattr(redis_dead_letters, "_types", late)
    # then
    assert queues.replay([letter.tag]) == 0
    assert ids(queues) == [1]


def test_a_full_slot_queue_takes_what_is_replayed(backend: Any) -> None:
    queues = backend.process(limit=1).slot_queues
    (letter,) = reject(queues, 1)
    queues.publish([Message(NEW, 0, {"taskid": 2, "project": "p"})])
    assert queues.replay([letter.tag]) == 1
    assert ids(queues) == [2, 1]


def test_a_letter_of_the_inbox_goes_there_again(backend: Any, process: Queues) -> None:
    # given
    queues = process.slot_queues
    backend.put_inbox(NEW, encode({"project": "a b"}))
    process.inbox.forward(10)
    (letter,) = queues.dead_letters(9)
    assert letter.slot is None
    # when
    assert queues.replay([letter.tag]) == 1
    # then it is routed like any other message
    assert process.inbox.lengths()[NEW] == 1
    assert queues.dead() == 0
    process.inbox.forward(10)
    (again,) = queues.dead_letters(9)
    assert (again.body, again.reason) == (letter.body, letter.reason)


def test_letters_that_are_discarded_are_gone(queues: SlotQueues) -> None:
    first, second, third = reject(queues, 1, 2, 3)
    assert queues.discard([first.tag, third.tag, third.tag]) == 2
    assert queues.dead_letters(9) == [second]
    assert queues.lengths()[NEW] == 0


def test_a_tag_that_no_letter_has_is_passed_over(queues: SlotQueues) -> None:
    (letter,) = reject(queues, 1)
    assert queues.discard(NOBODY_S) == queues.replay(NOBODY_S) == 0
    assert queues.replay([*NOBODY_S, letter.tag]) == 1


def test_nothing_is_replayed_or_discarded_by_naming_nothing(queues: SlotQueues) -> None:
    reject(queues, 1)
    assert queues.replay([]) == queues.discard([]) == 0
    assert queues.dead() == 1


def test_many_letters_go_at_once(queues: SlotQueues) -> None:
    letters = reject(queues, *range(250))
    tags = [letter.tag for letter in letters]
    assert queues.replay(tags[:130]) == 130
    assert ids(queues) == list(range(130))
    assert queues.discard(tags) == 120
