"""An agenda returns each project at its time, once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspider_zk.errors import FenceClosed
from pyspider_zk.scheduling.agenda import NEVER, SPARE, Agenda

NAMES = st.sampled_from("abcde")
TIMES = st.sampled_from([float("-inf"), 1.0, 2.0, 3.0, 4.0, NEVER])
STEPS = st.one_of(
    st.tuples(st.just("at"), NAMES, TIMES),
    st.tuples(st.just("drop"), NAMES, st.none()),
    st.tuples(st.just("take"), st.none() | st.sets(NAMES), st.sampled_from([1.0, 2.5, 4.0])),
)


@given(st.lists(STEPS))
def test_it_does_what_a_table_of_times_would_do(steps: list[tuple[str, object, float]]) -> None:
    agenda, table = Agenda(), dict[str, float]()
    for step, what, when in steps:
        if step == "at":
            agenda.at(str(what), when)
            table[str(what)] = when
        elif step == "drop":
            agenda.drop(str(what))
            table.pop(str(what), None)
        else:
            only = what if isinstance(what, set) else None
            due = {name for name, at in table.items() if at <= when and at < NEVER}
            due = due if only is None else due & only
            assert agenda.is_due(when) or not due
            assert sorted(agenda.take(when, only)) == sorted(due)
            for name in due:
                del table[name]
        assert len(agenda) == sum(at < NEVER for at in table.values())


def test_those_that_waited_longest_come_first() -> None:
    agenda = Agenda()
    for name, when in {"c": 3.0, "a": 1.0, "b": 2.0}.items():
        agenda.at(name, when)
    agenda.now("d")
    assert agenda.take(2.5) == ["d", "a", "b"]


def test_a_time_that_is_put_off_again_and_again_takes_no_more_room() -> None:
    agenda = Agenda()
    for when in range(10_000):
        agenda.at("a", when)
    assert len(agenda._heap) <= 2 * len(agenda) + SPARE
    assert agenda.take(9_999.0) == ["a"]


def test_what_an_error_keeps_from_being_looked_at_stays_due() -> None:
    agenda, acts = Agenda(), Acts()
    acts.faults["b"] = FenceClosed("not now")
    for name in "abc":
        agenda.at(name, 1.0)

    with pytest.raises(FenceClosed):
        agenda.work(1.0, acts)
    acts.faults.clear()
    agenda.work(1.0, acts)

    assert acts.done == ["a", "b", "b", "c"]
    assert len(agenda) == 0


class Acts:
    """Notes what was done; fails while it is told to."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.faults: dict[str, Exception] = {}

    def __call__(self, project: str) -> None:
        self.done.append(project)
        if project in self.faults:
            raise self.faults[project]
