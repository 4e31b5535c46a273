"""Busy projects get equal shares, and no part of a round is lost while anybody has tasks."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from pyspider_zk.scheduling.fair_share import FairShare


class Backlog:
    """What projects have to send, and how much of it was taken."""

    def __init__(self, tasks: dict[str, int]) -> None:
        self.left = Counter(tasks)
        self.taken: Counter[str] = Counter()
        self.order: list[str] = []

    def take(self, project: str, most: int) -> int:
        count = min(most, self.left[project])
        self.left[project] -= count
        self.taken[project] += count
        self.order += [project] * count
        return count


def line_of(backlog: Backlog) -> FairShare:
    shares = FairShare()
    for project in backlog.left:
        shares.join(project)
    return shares


TASKS = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 60), min_size=1)
ROUNDS = st.lists(st.integers(0, 40), max_size=12)
QUANTA = st.integers(1, 12)


@given(TASKS, ROUNDS, QUANTA)
def test_a_round_is_used_up_while_anybody_has_tasks(
    tasks: dict[str, int], rounds: list[int], quantum: int
) -> None:
    backlog = Backlog(tasks)
    shares = line_of(backlog)
    for limit in rounds:
        before, due = len(backlog.order), backlog.left.total()
        shares.serve(limit, quantum, backlog.take)
        assert len(backlog.order) - before == min(limit, due)


@given(st.sets(st.sampled_from("abcdefgh"), min_size=1), ROUNDS, QUANTA)
def test_no_busy_project_is_ahead_by_more_than_a_turn(
    names: set[str], rounds: list[int], quantum: int
) -> None:
    backlog = Backlog(dict.fromkeys(sorted(names), 10_000))
    shares = line_of(backlog)
    for limit in rounds:
        shares.serve(limit, quantum, backlog.take)
        counts = [backlog.taken[name] for name in names]
        assert max(counts) - min(counts) <= quantum


@given(TASKS, st.integers(1, 40), QUANTA)
def test_how_a_backlog_is_cut_into_rounds_does_not_change_the_order(
    tasks: dict[str, int], limit: int, quantum: int
) -> None:
    whole, cut = Backlog(tasks), Backlog(tasks)
    line_of(whole).serve(10_000, quantum, whole.take)
    shares = line_of(cut)
    while len(shares):
        shares.serve(limit, quantum, cut.take)
    assert cut.order == whole.order


@given(TASKS, st.sets(st.sampled_from("abcdefgh")), QUANTA)
def test_a_round_for_some_serves_nobody_else(
    tasks: dict[str, int], only: set[str], quantum: int
) -> None:
    backlog = Backlog(tasks)
    shares = line_of(backlog)
    shares.serve(1000, quantum, backlog.take, only)
    assert not backlog.taken.keys() - only
    assert backlog.taken.total() == sum(tasks.get(name, 0) for name in only)
    shares.serve(10_000, quantum, backlog.take)
    assert backlog.left.total() == 0


def test_who_left_and_joins_again_has_a_whole_turn_behind_the_others() -> None:
    backlog = Backlog({"a": 9, "b": 9})
    shares = line_of(backlog)
    shares.serve(1, 3, backlog.take)
    shares.leave("a")
    shares.join("a")
    shares.serve(7, 3, backlog.take)
    assert "".join(backlog.order) == "a" + "bbb" + "aaa" + "b"
