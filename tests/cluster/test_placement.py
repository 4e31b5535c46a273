"""The assignment is even, sticky, bounded and the same everywhere."""

import os
import subprocess
import sys
from collections import Counter
from statistics import mean
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyspider_zk.cluster import placement
from pyspider_zk.groups.ids import MemberId
from pyspider_zk.projects.slots import slot_of
from tests.cluster.scanning_placement import place_by_scanning

ANY_NUMBER = 10**6
crowds = st.integers(1, 8)
weight_tables = st.lists(st.integers(0, 50), min_size=1, max_size=40)


def place(
    owners: list[MemberId | None],
    members: list[MemberId],
    projects: dict[int, int],
    moves: int,
    pins: dict[int, int] | None = None,
    rates: dict[int, int] | None = None,
) -> list[MemberId]:
    """Place the slots from 0 on."""
    known = dict(enumerate(owners))
    placed = placement.place(
        known, members, projects, moves, pins or {}, placement.Rated(rates or {})
    )
    return [placed[slot] for slot in range(len(owners))]


def crowd(count: int) -> list[MemberId]:
    return [MemberId(number, f"{number:x}") for number in range(count)]


def weights_of(table: list[int]) -> dict[int, int]:
    return {slot: weight for slot, weight in enumerate(table) if weight}


def loads(owners: list[MemberId], weights: dict[int, int], members: list[MemberId]) -> list[int]:
    load = dict.fromkeys(members, 0)
    for slot, weight in weights.items():
        load[owners[slot]] += weight
    return list(load.values())


def moved(before: list[MemberId], after: list[MemberId]) -> list[int]:
    return [slot for slot, pair in enumerate(zip(before, after, strict=True)) if pair[0] != pair[1]]


def weights_of_projects(projects: int, slots: int) -> dict[int, int]:
    return dict(Counter(slot_of(f"project_{number}", slots) for number in range(projects)))


@given(weight_tables, crowds, st.integers(0, 50))
def test_every_slot_is_placed_on_a_member(table, count, moves):
    members = crowd(count)

    owners = place([None] * len(table), members, weights_of(table), moves)

    assert len(owners) == len(table)
    assert set(owners) <= set(members)


@given(weight_tables, crowds)
def test_nothing_moves_when_nothing_changed(table, count):
    members = crowd(count)
    owners = place([None] * len(table), members, weights_of(table), ANY_NUMBER)

    assert place(owners, members, weights_of(table), ANY_NUMBER) == owners


@given(weight_tables, crowds, st.data())
def test_no_more_slots_are_taken_from_owners_than_allowed(table, count, data):
    members = crowd(count)
    before = [data.draw(st.sampled_from(members)) for _ in table]
    moves = data.draw(st.integers(0, 10))

    assert len(moved(before, place(before, members, weights_of(table), moves))) <= moves


@given(weight_tables, st.integers(2, 8))
def test_without_moves_only_the_slots_of_a_removed_member_move(table, count):
    members = crowd(count)
    before = place([None] * len(table), members, weights_of(table), ANY_NUMBER)

    after = place(before, members[1:], weights_of(table), 0)

    assert {before[slot] for slot in moved(before, after)} <= {members[0]}


@given(st.integers(1, 9), st.integers(20, 300))
@settings(max_examples=50)
def test_a_joining_member_takes_about_its_share_and_others_swap_nothing(count, slots):
    weights = dict.fromkeys(range(slots), 1)
    before = place([None] * slots, crowd(count), weights, ANY_NUMBER)

    after = place(before, crowd(count + 1), weights, ANY_NUMBER)

    newcomer = crowd(count + 1)[-1]
    assert {after[slot] for slot in moved(before, after)} <= {newcomer}
    assert len(moved(before, after)) <= slots / (count + 1) + 1


def test_the_heaviest_slots_are_placed_first():
    a, b = crowd(2)

    assert place([None] * 5, [a, b], {0: 1, 1: 1, 2: 1, 3: 1, 4: 4}, 0) == [b, b, b, b, a]


@given(weight_tables, crowds)
def test_slots_placed_on_nobodys_are_within_the_heaviest_slot_of_even(table, count):
    members, weights = crowd(count), weights_of(table)
    load = loads(place([None] * len(table), members, weights, 0), weights, members)

    assert max(load) - min(load) <= max(weights.values(), default=0)


def test_empty_slots_never_cost_a_busy_slot_its_owner():
    a, b = crowd(2)
    before = [a, b] + [a] * 100

    after = place(before, [a, b], {0: 5, 1: 5}, ANY_NUMBER)

    assert after[:2] == [a, b]
    assert 40 <= after.count(b) - 1 <= 60


pin_tables = st.dictionaries(st.integers(0, 60), st.integers(0, 9), max_size=20)


@given(weight_tables, crowds, pin_tables)
def test_a_pinned_slot_is_where_it_shall_be_whenever_that_member_is_there(table, count, pins):
    members = crowd(count)

    owners = place([None] * len(table), members, weights_of(table), ANY_NUMBER, pins)

    followed = {slot: to for slot, to in pins.items() if slot < len(table) and to < count}
    assert {slot: owners[slot].number for slot in followed} == followed


@given(weight_tables, crowds, pin_tables, st.data())
def test_pins_take_no_more_slots_from_owners_than_allowed_and_come_to_rest(
    table, count, pins, data
):
    members, weights = crowd(count), weights_of(table)
    before = [data.draw(st.sampled_from(members)) for _ in table]
    moves = data.draw(st.integers(0, 5))
    assert len(moved(before, place(before, members, weights, moves, pins))) <= moves

    rested = place(before, members, weights, ANY_NUMBER, pins)

    assert place(rested, members, weights, ANY_NUMBER, pins) == rested


@given(weight_tables, st.integers(2, 8))
def test_pins_to_members_that_are_away_change_nothing(table, count):
    members, weights = crowd(count), weights_of(table)
    pins = dict.fromkeys(range(len(table)), count)

    assert place([None] * len(table), members, weights, ANY_NUMBER, pins) == place(
        [None] * len(table), members, weights, ANY_NUMBER
    )


def test_what_is_pinned_counts_as_load():
    a, b = crowd(2)

    owners = place([None] * 4, [a, b], dict.fromkeys(range(4), 1), ANY_NUMBER, {0: 0, 1: 0})

    assert owners == [a, a, b, b]


busy_tables = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 40) | st.integers(0, 4000)), min_size=1, max_size=40
)


def busy(table: list[tuple[int, int]]) -> tuple[dict[int, int], dict[int, int]]:
    """Return the projects of the slots, and their tasks per second."""
    projects = weights_of([count for count, _ in table])
    return projects, {slot: rate for slot, (_, rate) in enumerate(table) if rate}


def weights_with(projects: dict[int, int], rates: dict[int, int]) -> dict[int, int]:
    return {slot: count + rates.get(slot, 0) for slot, count in projects.items()}


@given(busy_tables, crowds, st.data())
def test_at_rest_nobody_exceeds_another_by_more_than_is_promised(table, count, data):
    members, (projects, rates) = crowd(count), busy(table)
    before = [data.draw(st.sampled_from(members)) for _ in table]

    owners = place(before, members, projects, ANY_NUMBER, rates=rates)

    weights = weights_with(projects, rates)
    load = loads(owners, weights, members)
    measured = sum(rates.get(slot, 0) for slot in projects)
    tolerance = max(1.0, (0.02 * sum(projects.values()) + 0.1 * measured) / count)
    heaviest = members[load.index(max(load))]
    lightest_slot = min((w for slot, w in weights.items() if owners[slot] == heaviest), default=0)
    assert max(load) - min(load) <= max(tolerance, 1.5 * lightest_slot)
    assert place(owners, members, projects, ANY_NUMBER, rates=rates) == owners


@given(busy_tables, crowds, st.data())
def test_rates_take_no_more_slots_from_owners_than_allowed(table, count, data):
    members, (projects, rates) = crowd(count), busy(table)
    before = [data.draw(st.sampled_from(members)) for _ in table]
    moves = data.draw(st.integers(0, 5))

    assert len(moved(before, place(before, members, projects, moves, rates=rates))) <= moves


@given(st.integers(2, 6), st.integers(2, 40), st.integers(100, 5000))
def test_the_neighbours_of_a_heavy_slot_move_away_and_it_stays(count, neighbours, rate):
    """Each at most once; and once it is idle again all are even, by moves of each at most once."""
    members, slots = crowd(count), neighbours * count
    projects = dict.fromkeys(range(slots), 1)
    before = place([None] * slots, members, projects, 0)

    after = place(before, members, projects, ANY_NUMBER, rates={0: rate})

    assert after[0] == before[0]
    moving = moved(before, after)
    assert {before[slot] for slot in moving} <= {before[0]}
    assert after.count(before[0]) <= max(1, slots // count - rate + 1)
    assert place(after, members, projects, ANY_NUMBER, rates={0: rate}) == after


def test_heavy_slots_are_spread():
    members, rates = crowd(3), {0: 3000, 1: 2900, 2: 3100, 3: 40}
    projects = dict.fromkeys(range(30), 1)
    before = [members[0]] * 30

    owners = place(before, members, projects, ANY_NUMBER, rates=rates)

    assert len({owners[slot] for slot in (0, 1, 2)}) == 3


def test_a_heavy_slot_moves_only_if_that_gains_more_than_it_does():
    a, b = crowd(2)
    projects = dict.fromkeys(range(3), 1)

    # 1000 and 600 against 100: to move the lesser leaves 1000 against 700.
    assert place([a, a, b], [a, b], projects, 9, rates={0: 1000, 1: 600, 2: 100}) == [a, b, b]
    # 1000 and 600 against 800: the greater would leave 600 against 1800.
    assert place([a, a, b], [a, b], projects, 9, rates={0: 1000, 1: 600, 2: 800}) == [a, a, b]
    # 1000 and 2 against 0: to move the greater gains nothing.
    assert place([a, a, b], [a, b], {0: 1, 1: 2}, 9, rates={0: 1000}) == [a, b, b]


def test_what_was_moved_lately_moves_on_only_to_who_is_new():
    a, b = crowd(2)
    owners, projects = dict.fromkeys(range(4), a), dict.fromkeys(range(4), 1)

    def moving(settled: set[MemberId]) -> set[int]:
        rated = placement.Rated({0: 1000}, moved={1, 2}, settled=settled)
        placed = placement.place(owners, [a, b], projects, 9, {}, rated)
        return {slot for slot in owners if placed[slot] != owners[slot]}

    assert moving({a, b}) == {3}
    assert moving({a}) == {1, 2, 3}


slots_of_any_kind = st.tuples(
    st.integers(1, 9) | st.integers(0, 60),  # projects
    st.sampled_from([0, 9, 100, 1000]) | st.integers(0, 50),  # tasks per second
    st.none() | st.integers(0, 1),  # number of the owner
    st.booleans(),  # moved lately
)


@given(st.lists(slots_of_any_kind, min_size=4, max_size=16), st.integers(2, 4), st.data())
@settings(max_examples=100)
def test_the_move_that_is_chosen_is_the_best_of_all(table, count, data):
    members = crowd(count)
    projects = weights_of([projects for projects, _, _, _ in table])
    owners = {
        slot: None if number is None else members[number]
        for slot, (_, _, number, _) in enumerate(table)
    }
    rated = placement.Rated(
        {slot: rate for slot, (_, rate, _, _) in enumerate(table) if rate},
        moved={slot for slot, (*_, was_moved) in enumerate(table) if was_moved},
        settled=data.draw(st.sets(st.sampled_from(members))),
    )
    moves = data.draw(st.integers(0, 5) | st.just(ANY_NUMBER))
    pins = data.draw(st.just({}) | pin_tables)

    placed = placement.place(owners, members, projects, moves, pins, rated)

    assert placed == place_by_scanning(owners, members, projects, moves, pins, rated)


@pytest.mark.parametrize("projects", [{0: 5, 1: 3}, {0: 3, 1: 5}])
def test_of_two_slots_that_even_out_alike_the_first_moves(projects):
    a, b = crowd(2)

    assert place([a, a], [a, b], projects, 1) == [b, a]


def test_who_had_nothing_for_a_settled_member_still_gives_to_a_newcomer():
    a, b, settled, newcomer = members = crowd(4)
    owners = {0: a, 1: a, 2: b, 3: b, 4: newcomer}
    rated = placement.Rated({5: 1}, moved={0, 1}, settled={settled})

    placed = placement.place(owners, members, {0: 9, 1: 9, 2: 8, 3: 8, 4: 1}, 2, {}, rated)

    assert placed == {0: newcomer, 1: a, 2: settled, 3: b, 4: newcomer}


def lines_run(slots: int, rates: dict[int, int]) -> int:
    """Return how many lines are run to move the slots of one member to the nine that joined."""
    members, projects = crowd(10), {slot: 1 + slot % 7 for slot in range(0, slots, 2)}
    owners = dict.fromkeys(range(slots), members[0])
    lines = 0

    def count(_frame: FrameType, event: str, _arg: Any) -> Any:
        nonlocal lines
        lines += event == "line"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        placement.place(owners, set(members), projects, ANY_NUMBER, {}, placement.Rated(rates))
    finally:
        sys.settrace(before)
    return lines


@pytest.mark.parametrize("has_rates", [False, True])
def test_placing_four_times_as_many_slots_takes_about_four_times_as_many_steps(has_rates):
    rates = {slot: slot * 37 % 400 for slot in range(0, 1024, 3)} if has_rates else {}

    assert lines_run(1024, rates) < 5 * lines_run(256, rates)


def test_the_rate_of_a_slot_without_projects_does_not_count():
    a, b = crowd(2)

    assert place([a, b], [a, b], {1: 1}, ANY_NUMBER, rates={0: 5000}) == [a, b]


def test_without_members_nothing_can_be_placed():
    with pytest.raises(ValueError, match="without members"):
        place([None], [], {}, 0)


def test_ten_projects_on_three_members_are_as_even_as_can_be():
    members, weights = crowd(3), dict.fromkeys(range(10), 1)

    load = loads(place([None] * 256, members, weights, ANY_NUMBER), weights, members)

    assert max(load) / mean(load) == pytest.approx(1.20)


def test_a_thousand_projects_on_ten_members_are_even_and_a_join_moves_a_member_share():
    weights = weights_of_projects(1000, 1024)
    before = place([None] * 1024, crowd(10), weights, ANY_NUMBER)
    after = place(before, crowd(11), weights, ANY_NUMBER)

    load = loads(before, weights, crowd(10))
    moving = sum(weights.get(slot, 0) for slot in moved(before, after))

    assert max(load) / mean(load) <= 1.01
    assert 0.07 <= moving / 1000 <= 0.10


@pytest.mark.parametrize(("members", "least"), [(2, 0.62), (10, 0.85)])
def test_modulo_by_members_would_move_most_projects(members, least):
    projects = [f"project_{number}" for number in range(1000)]

    moving = sum(slot_of(name, members) != slot_of(name, members + 1) for name in projects)

    assert moving / 1000 >= least


PROGRAM = """
from pyspider_zk.cluster.placement import place
from pyspider_zk.groups.ids import (MemberId)
members = {MemberId(number, str(number)) for number in range(7)}
print(place(dict.fromkeys(range(200)), members, {slot: slot % 5 for slot in range(200)}, 10))
"""


def test_every_process_decides_alike_whatever_its_hash_seed():
    answers = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
        ).stdout
        for seed in ("0", "1", "2")
    }

    assert len(answers) == 1
