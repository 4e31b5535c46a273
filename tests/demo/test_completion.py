"""When a crawl has ended, and when it is stuck."""

from pyspider_zk.demo.completion import QUIET, STALL, Completion


def test_a_crawl_has_ended_when_nothing_is_ahead_for_a_while():
    pace = Completion(now=0)
    pace.note("all done", nothing_ahead=True, now=10)

    assert not pace.ended(now=10 + QUIET - 0.1)
    assert pace.ended(now=10 + QUIET)
    assert pace.last_change == 10


def test_work_that_shows_up_again_starts_the_wait_anew():
    pace = Completion(now=0)
    pace.note("a", nothing_ahead=True, now=10)
    pace.note("b", nothing_ahead=False, now=11)

    assert not pace.ended(now=100)


def test_a_change_while_nothing_is_ahead_starts_the_wait_anew():
    pace = Completion(now=0)
    pace.note(("9 results"), nothing_ahead=True, now=10)
    pace.note(("10 results"), nothing_ahead=True, now=12)

    assert not pace.ended(now=12 + QUIET - 0.1)
    assert pace.ended(now=12 + QUIET)


def test_a_crawl_that_changes_is_not_stuck():
    pace = Completion(now=0)
    for now in range(1000):
        pace.note(now, nothing_ahead=False, now=now)

        assert not pace.stalled(now)


def test_a_crawl_without_any_change_is_stuck():
    pace = Completion(now=0)
    pace.note("the same", nothing_ahead=False, now=1)
    pace.note("the same", nothing_ahead=False, now=30)

    assert not pace.stalled(now=1 + STALL - 0.1)
    assert pace.stalled(now=1 + STALL)
