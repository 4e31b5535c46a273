"""A barrier's rounds, one decision after the other."""

import pytest

from pyspider_zk.errors import ConfigError
from pyspider_zk.groups.barriers import (
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
