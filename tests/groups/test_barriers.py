"""The barrier: everybody passes together, round after round, and the missing are named."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from pyspider_zk.config import Settings
from pyspider_zk.errors import ConfigError, Mismatch, Missing, SessionLost
from pyspider_zk.groups.barriers import (
    Barrier,
    BarrierArrivals,
    BarrierState,
    arrive,
    here,
    missing,
    next_round,
    withdraw,
)
from pyspider_zk.groups.group import check_name
from pyspider_zk.groups.ids import MemberId
from tests.support.crew import expire
from tests.support.waiting import eventually
from tests.support.zk_faults import GroupPlace, Places, together

A, B, C = "0-aaa", "1-bbb", "2-ccc"


def members(*names: str) -> list[MemberId]:
    return [MemberId.parse(name) for name in names]


def test_an_arrival_counts_once():
    arrivals = arrive(arrive(BarrierArrivals(), A, {A, B}), A, {A, B})

    assert arrivals == BarrierArrivals((A,))
    assert next_round(BarrierState(2), arrivals, {A, B}) is None


def test_the_last_arrival_opens_the_state_for_those_that_arrived():
    state = BarrierState(2, 7, {A: 6, B: 6, C: 6})

    after = next_round(state, arrive(BarrierArrivals((A,)), B, {A, B}), {A, B})

    assert after == BarrierState(2, 8, {A: 7, B: 7})


def test_the_dead_do_not_count_though_they_had_arrived():
    arrivals = arrive(BarrierArrivals((A, B)), C, {B, C})

    assert arrivals == BarrierArrivals((B, C))
    assert next_round(BarrierState(3), arrivals, {B, C}) is None


def test_an_arrival_can_be_taken_back():
    assert withdraw(BarrierArrivals((A, B)), A) == BarrierArrivals((B,))
    assert withdraw(BarrierArrivals((B,)), A) == BarrierArrivals((B,))


def test_records_come_back_as_they_were():
    assert BarrierArrivals.decode(BarrierArrivals((A, B)).encode()) == BarrierArrivals((A, B))
    assert BarrierState.decode(BarrierState(3, 2, {A: 1}).encode()) == BarrierState(3, 2, {A: 1})


def test_the_missing_are_named_dead_or_alive_and_the_unknown_counted():
    running = members(A, B)
    arrived = here(BarrierArrivals((A, C)), running)

    told = missing(4, arrived, {0: "a", 1: "", 2: "c"}, running)

    assert told == ("number 1, which runs", "number 2 (c), which is gone", "1 that never joined")


def test_one_that_took_the_number_of_a_dead_one_stands_for_it():
    again = members("2-other")

    assert missing(1, here(BarrierArrivals(("2-other", C)), again), {2: "d"}, again) == ()


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\n", "\ud800", "\x00"])
def test_a_name_that_no_znode_may_have_is_refused(name):
    with pytest.raises(ConfigError, match=r"barrier: .* cannot be its name"):
        check_name(name, "barrier")


def test_a_name_may_be_in_any_language():
    assert check_name("Zählwerk 1: 数", "barrier") == "Zählwerk 1: 数"


LONG = 60.0


@pytest.fixture
def places(settings: Settings) -> Iterator[Places]:
    with ExitStack() as stack:
        yield Places(settings, stack)


def barrier(place: GroupPlace, parties: int, name: str = "step") -> Barrier:
    group = place.group
    return Barrier(place.connection, group.home, group.id_allocator, group.me, name, parties)


class BarrierWaiter(threading.Thread):
    """Waits at a barrier; afterwards has the round or the error."""

    def __init__(self, barrier: Barrier, timeout: float = LONG) -> None:
        super().__init__(daemon=True)
        self._barrier = barrier
        self._timeout = timeout
        self.outcome: int | Exception | None = None
        self.start()

    def run(self) -> None:
        try:
            self.outcome = self._barrier.wait(self._timeout)
        except Exception as error:
            self.outcome = error

    def result(self) -> int | Exception | None:
        self.join(LONG)
        return self.outcome


def arrived(place: GroupPlace, count: int, parties: int = 3) -> None:
    """Wait until so many have arrived."""
    eventually(lambda: len(barrier(place, parties)._arrivals()[0].names) == count, "arrival")


@pytest.mark.zk
def test_nobody_passes_before_all_have_arrived(places: Places):
    a, b, c = places.join("a", "b", "c")
    early = [BarrierWaiter(barrier(a, 3)), BarrierWaiter(barrier(b, 3))]
    arrived(a, 2)
    assert [waiter.outcome for waiter in early] == [None, None]

    assert barrier(c, 3).wait(LONG) == 0

    assert [waiter.result() for waiter in early] == [0, 0]


@pytest.mark.zk
def test_rounds_never_mix(places: Places):
    crew = places.join("a", "b", "c", "d")
    steps: list[int] = []
    behind: list[int] = []

    def work(place: GroupPlace) -> None:
        state = barrier(place, 4)
        for step in range(10):
            steps.append(step)
            assert state.wait(LONG) == step
            behind.extend(done for done in range(step + 1) if steps.count(done) != 4)

    together(*(lambda place=place: work(place) for place in crew))

    assert behind == []
    assert len(steps) == 40


@pytest.mark.zk
def test_the_missing_are_named_when_time_is_up(places: Places):
    a, _, c = places.join("a", "b", "c")
    c.vanish()
    eventually(lambda: len(a.group.running()) == 2)

    with pytest.raises(Missing) as missing:
        barrier(a, 4).wait(0.1)

    assert missing.value.missing == (
        "number 1 (b), which runs",
        "number 2 (c), which is gone",
        "1 that never joined",
    )
    assert "'step' was not complete within 0.1 s; missing: number 1 (b)" in str(missing.value)


@pytest.mark.zk
def test_an_arrival_that_was_not_in_time_does_not_count(places: Places):
    a, b = places.join("a", "b")
    with pytest.raises(Missing):
        barrier(a, 2).wait(0)

    with pytest.raises(Missing):
        barrier(b, 2).wait(0)

    assert barrier(b, 2).missing() == ("number 0 (a), which runs", "number 1 (b), which runs")


@pytest.mark.zk
def test_one_that_died_at_the_barrier_is_missing_and_may_come_again(places: Places):
    a, b, c = places.join("a", "b", "c")
    dead = BarrierWaiter(barrier(c, 3))
    arrived(a, 1)
    expire(c.connection)
    assert isinstance(dead.result(), SessionLost)
    eventually(lambda: len(a.group.running()) == 2)

    alive = [BarrierWaiter(barrier(a, 3)), BarrierWaiter(barrier(b, 3))]
    arrived(a, 2)
    assert barrier(b, 3).missing() == ("number 2 (c), which is gone",)
    again = places.make("c")
    assert again.join() == 2

    assert barrier(again, 3).wait(LONG) == 0
    assert [waiter.result() for waiter in alive] == [0, 0]


@pytest.mark.zk
def test_more_may_use_it_than_a_round_needs(places: Places):
    crew = places.join("a", "b", "c", "d")
    waiters = [BarrierWaiter(barrier(place, 2)) for place in crew]

    assert sorted(str(waiter.result()) for waiter in waiters) == ["0", "0", "1", "1"]


@pytest.mark.zk
@pytest.mark.parametrize("lost", [1, 2])
def test_an_arrival_whose_reply_was_lost_counts_once(places: Places, lost: int):
    a, b = places.join("a", "b")
    for _ in range(2):
        a.connection.lose = lost
        waiter = BarrierWaiter(barrier(a, 2))
        number = barrier(b, 2).wait(LONG)
        assert waiter.result() == number
    a.connection.lose = 0

    with pytest.raises(Missing, match=r"missing: number 1 \(b\), which runs$"):
        barrier(a, 2).wait(0)


@pytest.mark.zk
def test_the_last_arrival_may_lose_its_reply_too(places: Places):
    a, b = places.join("a", "b")
    waiter = BarrierWaiter(barrier(a, 2))
    arrived(b, 1, parties=2)
    b.connection.lose = 1

    assert barrier(b, 2).wait(LONG) == 0
    assert waiter.result() == 0


@pytest.mark.zk
def test_a_death_between_looking_and_opening_keeps_the_state_shut(places: Places):
    a, b = places.join("a", "b")
    BarrierWaiter(barrier(a, 2))
    arrived(b, 1, parties=2)

    b.connection.before = lambda: expire(a.connection)
    with pytest.raises(Missing, match=r"missing: number 0 \(a\), which is gone$"):
        barrier(b, 2).wait(1.0)


@pytest.mark.zk
def test_an_arrival_in_between_is_not_overwritten(places: Places):
    a, b, c = places.join("a", "b", "c")
    with pytest.raises(Missing):
        barrier(b, 3).wait(0)
    waiters: list[BarrierWaiter] = []

    def arrive_first() -> None:
        waiters.append(BarrierWaiter(barrier(b, 3)))
        arrived(b, 1)

    a.connection.before = arrive_first
    with pytest.raises(Missing) as missing:
        barrier(a, 3).wait(0)
    assert missing.value.missing == ("number 2 (c), which runs",)

    waiters.append(BarrierWaiter(barrier(a, 3)))
    assert barrier(c, 3).wait(LONG) == 0
    assert [waiter.result() for waiter in waiters] == [0, 0]


@pytest.mark.zk
def test_arrivals_that_were_deleted_are_made_again(places: Places):
    a, b = places.join("a", "b")
    with pytest.raises(Missing):
        barrier(a, 2).wait(0)
    a.connection.delete(barrier(a, 2)._arrived)

    waiter = BarrierWaiter(barrier(a, 2))

    assert barrier(b, 2).wait(LONG) == 0
    assert waiter.result() == 0


@pytest.mark.zk
def test_another_number_of_parties_is_refused(places: Places):
    (a,) = places.join("a")
    with pytest.raises(Missing):
        barrier(a, 2).wait(0)

    with pytest.raises(Mismatch, match="made for 2 parties, not for 3"):
        barrier(a, 3).wait(0)


@pytest.mark.zk
def test_a_barrier_of_one_is_passed_at_once(places: Places):
    (a,) = places.join("a")
    state = barrier(a, 1)

    assert [state.wait(0), state.wait(0), state.wait(0)] == [0, 1, 2]


@pytest.mark.zk
def test_an_interrupted_arrival_is_taken_back(places: Places, monkeypatch: pytest.MonkeyPatch):
    a, b = places.join("a", "b")
    state = barrier(a, 2)

    def interrupt(*_: object) -> bool:
        state._is_passed()
        raise KeyboardInterrupt

    monkeypatch.setattr(state._waiting, "until", interrupt)
    with pytest.raises(KeyboardInterrupt):
        state.wait(LONG)

    assert len(barrier(b, 2).missing()) == 2
