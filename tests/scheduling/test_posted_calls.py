"""What other threads hand to the scheduling loop is done once, in order, or refused."""

import pytest

from pyspider_zk.scheduling.posted_calls import PostedCalls


@pytest.fixture
def calls() -> PostedCalls:
    return PostedCalls()


def test_calls_are_made_once_and_in_order(calls: PostedCalls) -> None:
    made: list[str] = []
    assert calls.post(lambda: made.append("first"))
    assert calls.post(lambda: made.append("second"))
    assert made == [], "the thread that posts makes nothing"

    calls.make()
    calls.make()

    assert made == ["first", "second"]


def test_what_a_call_posts_is_made_the_next_time(calls: PostedCalls) -> None:
    made: list[str] = []
    calls.post(lambda: calls.post(lambda: made.append("later")))

    calls.make()
    assert made == []
    calls.make()
    assert made == ["later"]


def test_a_call_that_raises_keeps_no_other_from_being_made(calls: PostedCalls) -> None:
    made: list[str] = []
    calls.post(lambda: 1 / 0)
    calls.post(lambda: made.append("after"))

    with pytest.raises(ZeroDivisionError):
        calls.make()
    calls.make()

    assert made == ["after"]


def test_what_was_accepted_is_made_at_the_end_and_no_more_is_accepted(calls: PostedCalls) -> None:
    made: list[str] = []
    calls.post(lambda: made.append("before"))

    calls.close()

    assert made == ["before"]
    assert not calls.post(lambda: made.append("after"))
    calls.make()
    assert made == ["before"]
