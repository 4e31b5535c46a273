"""Each project that is to be looked at has its turn, whatever prevents the looks at others."""

from collections.abc import Callable
from contextlib import suppress

import pytest

from pyspider_zk.errors import DatabaseAway, FenceClosed
from pyspider_zk.scheduling.project_set import MOST_PREVENTED, ProjectSet
from tests.support.world import World


class Looks:
    """Looks at the projects of a set: notes which, and fails while it is told to."""

    def __init__(self, projects: ProjectSet) -> None:
        self.done: list[str] = []
        self.faults: dict[str, Exception] = {}
        self.meanwhile: Callable[[str], object] = lambda _name: None
        self.projects = projects

    def __call__(self, name: str) -> bool:
        self.done.append(name)
        self.meanwhile(name)
        if name in self.faults:
            raise self.faults[name]
        return True

    @property
    def to_come(self) -> list[str]:
        """The projects that are still to be looked at, in the order of their turns."""
        return list(self.projects._looks)


@pytest.fixture
def looks(world: World, monkeypatch: pytest.MonkeyPatch) -> Looks:
    projects = world.scheduler().project_set
    made = Looks(projects)
    monkeypatch.setattr(projects, "look_at", made)
    return made


def test_a_project_comes_once(looks: Looks) -> None:
    looks.projects.look_soon("p")

    looks.projects.follow_rows()
    looks.projects.follow_rows()

    assert looks.done == ["p"]


def test_one_that_fails_holds_up_no_other(looks: Looks) -> None:
    looks.faults["a"] = OSError("corrupt")
    looks.projects.look_soon("abc")

    looks.projects.follow_rows()
    looks.projects.follow_rows()

    assert looks.done == ["a", "b", "c"]
    assert looks.projects.quarantine.names() == ["a"]
    assert looks.to_come == []


def test_one_that_is_prevented_holds_up_no_other(looks: Looks) -> None:
    looks.faults["a"] = FenceClosed("not now")
    looks.projects.look_soon("abc")

    with pytest.raises(FenceClosed):
        looks.projects.follow_rows()

    assert looks.done == ["a", "b", "c"]
    assert looks.to_come == ["a"]
    assert looks.projects.quarantine.names() == []


def test_one_that_was_prevented_comes_again(looks: Looks) -> None:
    looks.faults["p"] = FenceClosed("not now")
    looks.projects.look_soon("p")

    with pytest.raises(FenceClosed):
        looks.projects.follow_rows()
    looks.faults.clear()
    looks.projects.follow_rows()

    assert looks.done == ["p", "p"]
    assert looks.to_come == []


@pytest.mark.parametrize("error", [DatabaseAway("away"), FenceClosed("not now")])
def test_in_an_outage_some_are_tried_at_a_time_and_each_has_its_turn(
    looks: Looks, error: Exception
) -> None:
    names = [f"p{number:03}" for number in range(3 * MOST_PREVENTED)]
    looks.faults |= dict.fromkeys(names[:-1], error)
    looks.projects.look_soon(names)

    for count in (1, 2, 3):
        with suppress(FenceClosed):
            looks.projects.follow_rows()
        assert len(looks.done) <= count * (MOST_PREVENTED + 1)
        looks.projects.look_soon(names[:MOST_PREVENTED])  # these are asked for again and again

    assert {*looks.done} == {*names}
    assert {*looks.to_come} == {*names[:-1], *names[:MOST_PREVENTED]}


def test_what_none_expects_ends_the_round_and_the_others_come_first_in_the_next(
    looks: Looks, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("of ours")

    looks.faults["a"] = OSError("corrupt")
    looks.projects.look_soon("abc")
    with monkeypatch.context() as patch:
        patch.setattr(looks.projects, "put_aside", fails)
        with pytest.raises(RuntimeError):
            looks.projects.follow_rows()
    looks.projects.follow_rows()

    assert looks.done == ["a", "b", "c", "a"]


def test_what_is_put_or_dropped_meanwhile_is_not_overwritten(looks: Looks) -> None:
    def meanwhile(name: str) -> None:
        looks.projects.look_soon([name])
        looks.projects.forget("b")

    looks.meanwhile = meanwhile
    looks.projects.look_soon("ab")

    looks.projects.follow_rows()

    assert looks.done == ["a"]
    assert looks.to_come == ["a"]
