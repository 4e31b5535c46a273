"""Joining and leaving a group: numbers, the name, and nothing left behind."""

import random
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from itertools import repeat

import pytest

from pyspider_zk.config import Settings
from pyspider_zk.errors import Mismatch, NameTaken, SessionLost, Unavailable
from pyspider_zk.groups.group import Holder
from pyspider_zk.zookeeper.ephemeral import Tenure
from tests.support.crew import expire
from tests.support.waiting import eventually
from tests.support.zk_faults import GroupPlace, Places, together, tree

pytestmark = pytest.mark.zk


@pytest.fixture
def places(settings: Settings) -> Iterator[Places]:
    with ExitStack() as stack:
        yield Places(settings, stack)


def test_all_that_join_at_once_get_the_numbers_from_zero(places: Places):
    crew = [places.make(name) for name in ("a", "b", "c", "", "", "")]

    together(*(place.join for place in crew))

    assert sorted(place.group.me.number for place in crew) == list(range(6))
    assert [one.number for one in crew[0].group.running()] == list(range(6))


def test_a_name_gets_its_number_back_and_a_newcomer_does_not_take_it_needlessly(places: Places):
    a, b, _ = places.join("a", "b", "c")
    a.group.leave()
    b.group.leave()

    assert places.make("b").join() == 1
    assert places.make("d").join() == 0
    assert places.make("a").join() == 3


def test_those_that_left_count_among_those_that_joined(places: Places):
    a, b, c = places.join("a", "b", "c")
    b.group.leave()
    c.vanish()
    places.make("d").join()

    eventually(lambda: [one.name for one in a.group.running()] == ["a", "d"])
    assert [one.name for one in a.group.joined()] == ["a", "b", "d", "c"]
    assert [one.number for one in a.group.joined()] == [0, 1, 1, 2]


def test_joining_often_leaves_one_trace_for_each_name_and_nameless_number(places: Places):
    (stays,) = places.join("stays")
    for name in ("a", "", "a", "", ".", "a/b"):
        places.join(name)[0].group.leave()

    assert sorted(one.name for one in stays.group.joined()) == ["", ".", "a", "a/b", "stays"]


def test_a_second_under_the_same_name_is_refused_while_the_first_lives(places: Places):
    places.join("a")

    with pytest.raises(NameTaken, match="has a participant 'a' already, number 0"):
        places.make("a").join(patience=0)


def test_two_of_one_name_that_join_at_once_do_not_both_get_in(places: Places):
    for _ in range(5):
        twins = [places.make("twin"), places.make("twin")]
        refused: list[NameTaken] = []

        def join(twin: GroupPlace, refused: list[NameTaken] = refused) -> None:
            try:
                twin.join(patience=0)
            except NameTaken as error:
                refused.append(error)

        together(*(lambda twin=twin: join(twin) for twin in twins))

        assert len(refused) == 1
        for twin in twins:
            twin.group.leave()


def test_one_name_does_not_get_two_numbers_from_two_that_join_at_once(places: Places):
    twin, _ = places.join("twin", "stays")
    twin.group.leave()
    (newcomer,) = places.join("newcomer")
    first, second = places.make("twin"), places.make("twin")

    def overtake() -> None:
        newcomer.group.leave()
        assert first.join() == 0

    second.connection.before = overtake
    with pytest.raises(NameTaken):
        second.join(patience=0)


def test_who_was_killed_gets_its_number_back_when_its_session_has_ended(places: Places):
    old = places.join("a", "b")[1]
    again = places.make("b")
    numbers: list[int] = []
    thread = threading.Thread(target=lambda: numbers.append(again.join()))
    thread.start()

    expire(old.connection)
    thread.join(60)

    assert numbers == [1]


def test_a_former_self_that_ends_while_joining_leaves_its_number(
    places: Places, monkeypatch: pytest.MonkeyPatch
):
    old = places.join("a", "b")[1]
    again = places.make("b")
    find = again.connection.find

    def ends_first(path, watch=None):
        if "/joined/" in path:
            old.vanish()
        return find(path, watch)

    monkeypatch.setattr(again.connection, "find", ends_first)
    assert again.join() == 1


def test_another_run_is_refused_while_anybody_of_the_first_lives(places: Places):
    first = places.make("a", run="monday")
    first.join()
    second = places.make("b", run="tuesday")

    with pytest.raises(NameTaken, match=r"held by run 'monday' with 1 running \(number 0 \(a\) on"):
        second.join(patience=0)

    first.group.leave()
    assert second.join(patience=0) == 0


def test_what_a_dead_run_left_is_cleared_up_by_the_next(places: Places, settings: Settings):
    dead = [places.make(name, run="monday") for name in ("a", "b")]
    for place in dead:
        place.join()
    for place in dead:
        place.vanish()
    second = places.make("c", run="tuesday")

    assert second.join() == 0

    assert [one.name for one in second.group.joined()] == ["c"]
    assert len(second.connection.children(f"{settings.root}/groups/work")) == 2
    second.group.leave()
    assert tree(second.connection, settings.root) == [settings.root]


def test_a_run_that_died_whole_goes_on_with_its_numbers(places: Places):
    for place in places.join("a", "b"):
        place.vanish()

    assert places.make("b").join() == 1


def test_the_last_to_leave_leaves_nothing_behind(places: Places, settings: Settings):
    crew = places.join("a", "b", "")
    for place in crew:
        place.group.leave()
        place.group.leave()

    assert tree(crew[0].connection, settings.root) == [settings.root]


def test_nothing_is_left_when_all_leave_at_once(places: Places, settings: Settings):
    crew = [places.make(name) for name in ("a", "b", "c")]
    for _ in range(25):
        together(*(place.join for place in crew))
        together(*(place.group.leave for place in crew))
        assert tree(crew[0].connection, settings.root) == [settings.root]


def test_joining_while_others_leave_is_sound(places: Places, settings: Settings):
    chance = random.Random(1)  # noqa: S311 - chance, not secrets
    crew = [places.make(name) for name in ("a", "b", "c", "")]
    rounds = [[chance.random() / 100 for _ in range(15)] for _ in crew]

    def come_and_go(place: GroupPlace, pauses: list[float]) -> None:
        for pause in pauses:
            number = place.join()
            found = [one for one in place.group.running() if one.number == number]
            assert [one.name for one in found] == [place.name]
            threading.Event().wait(pause)
            place.group.leave()

    together(*map(partial, repeat(come_and_go), crew, rounds))

    assert tree(crew[0].connection, settings.root) == [settings.root]


@pytest.mark.parametrize("lost", [1, 2])
def test_a_lost_reply_while_joining_leaves_no_second_self(places: Places, lost: int):
    place = places.make("a")
    place.connection.lose = lost

    assert place.join() == 0

    assert place.connection.lose == 0
    assert len(place.group.running()) == 1


def test_a_server_that_lags_makes_no_second_self(places: Places):
    places.join("a")
    place = places.make("b")
    place.connection.lose, place.connection.lags = 1, True

    assert place.join() == 1

    assert len(place.group.running()) == 2


def test_a_lost_reply_while_leaving_can_be_repeated(places: Places, settings: Settings):
    (place,) = places.join("a")
    place.connection.lose = 1

    with pytest.raises(Unavailable):
        place.group.leave()
    place.group.leave()

    assert tree(place.connection, settings.root) == [settings.root]


def test_who_was_half_gone_joins_again(places: Places):
    place, other = places.join("a", "b")

    def be_silent() -> None:
        raise Unavailable("no server answers")

    place.connection.before = be_silent
    with pytest.raises(Unavailable):
        place.group.leave()
    with pytest.raises(SessionLost, match="join it"):
        _ = place.group.me

    assert place.join() == 0
    assert [one.name for one in other.group.running()] == ["a", "b"]


def test_who_was_deleted_from_outside_joins_again(places: Places):
    place, other = places.join("a", "b")
    other.connection.delete(place.group.home.member(place.group.me))

    assert place.join() == 0

    assert [one.name for one in other.group.running()] == ["a", "b"]


def test_a_group_that_is_closed_while_one_joins_is_founded_anew(places: Places):
    first = places.join("a")[0]
    second = places.make("b")
    second.connection.before = first.group.leave

    assert second.join() == 0

    assert [one.name for one in second.group.joined()] == ["b"]


def test_who_clears_up_slowly_spares_the_next_run(places: Places, monkeypatch: pytest.MonkeyPatch):
    (first,) = places.join("a")
    second, third = places.make("b"), places.make("c")
    sweep = first.group._sweep
    monkeypatch.setattr(first.group, "_sweep", lambda: (second.join(), sweep()))

    first.group.leave()

    assert third.join() == 1
    assert [one.name for one in third.group.joined()] == ["b", "c"]


def test_the_number_is_gone_with_the_session_and_can_be_had_again(places: Places):
    place, _ = places.join("a", "b")
    before, session = place.group.me, place.connection.session

    expire(place.connection)
    eventually(lambda: place.connection.session not in (None, session))
    with pytest.raises(SessionLost, match="join it again"):
        _ = place.group.me

    assert place.join() == 0
    assert place.group.me != before


def test_who_took_its_session_for_lost_too_early_joins_in_its_own_place(places: Places):
    place, other = places.join("a", "b")
    place.group._tenure = Tenure(place.connection, None)

    assert place.join() == 0

    assert [one.number for one in other.group.running()] == [0, 1]


def test_joining_twice_changes_nothing(places: Places):
    (place,) = places.join("")
    before = place.group.me

    assert place.join() == 0
    assert place.group.me == before


def test_the_number_is_not_had_between_two_sessions(places: Places):
    (place,) = places.join("a")
    place.vanish()
    eventually(lambda: place.connection.session is None)

    with pytest.raises(SessionLost):
        _ = place.group.me


def test_a_group_damaged_from_outside_is_told(places: Places):
    place, _ = places.join("a", "b")
    home = place.group.home
    for name in place.connection.children(home.ids):
        place.connection.delete(f"{home.ids}/{name}")
    place.connection.delete(home.ids)

    with pytest.raises(Mismatch, match=r"groups/work was damaged from outside: delete it"):
        places.make("c").join()


@pytest.mark.parametrize("below", ["", "holder/note", "abc/members/note"])
def test_a_holder_that_cannot_be_closed_is_told_to_another_run(places: Places, settings, below):
    place = places.make("c", run="tuesday")
    path = f"{settings.root}/groups/work"
    place.connection.create(f"{path}/holder", Holder("monday", "abc").encode())
    if below:
        place.connection.ensure([f"{path}/abc/members", f"{path}/{below}"])

    with pytest.raises(Mismatch, match=r"groups/work was damaged from outside: delete it"):
        place.join()


def test_nobody_is_in_a_group_before_joining_it(places: Places):
    place = places.make()

    place.group.leave()
    for question in ("me", "home"):
        with pytest.raises(SessionLost, match="join it"):
            getattr(place.group, question)
