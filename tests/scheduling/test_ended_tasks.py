"""What ended lately is remembered as long as it may be trusted."""

from pyspider_zk.scheduling.ended_tasks import TRUSTED, EndedTasks


def test_a_task_is_remembered_until_its_row_is_written() -> None:
    ended = EndedTasks()
    ended.note(("p", "a"), 5.0, now=7.0)
    assert ended.crawled(("p", "a"), now=8.0) == 5.0
    assert ended.crawled(("q", "a"), now=8.0) is None
    ended.forget(("p", "a"))
    assert ended.crawled(("p", "a"), now=8.0) is None


def test_what_was_noted_long_ago_or_before_the_clock_was_set_back_is_read_again() -> None:
    ended = EndedTasks()
    ended.note(("p", "a"), 5.0, now=1000.0)
    assert ended.crawled(("p", "a"), now=1000.0 + TRUSTED) is None
    assert ended.crawled(("p", "a"), now=1000.0 - TRUSTED) is None
    ended.note(("p", "a"), 6.0, now=1000.0 + TRUSTED)
    assert ended.crawled(("p", "a"), now=1000.0 + TRUSTED) == 6.0


def test_the_oldest_are_forgotten_first() -> None:
    ended = EndedTasks(most=2)
    for taskid in "abca":
        ended.note(("p", taskid), 5.0, now=7.0)
    known = [each for each in "abc" if ended.crawled(("p", each), now=7.0)]
    assert known == ["a", "c"]


def test_a_project_is_forgotten_with_all_its_tasks() -> None:
    ended = EndedTasks()
    ended.note(("p", "a"), 5.0, now=7.0)
    ended.note(("q", "a"), 5.0, now=7.0)
    ended.discard("p".__eq__)
    assert ended.crawled(("p", "a"), now=7.0) is None
    assert ended.crawled(("q", "a"), now=7.0) == 5.0
