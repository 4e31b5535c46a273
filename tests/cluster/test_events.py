"""Events survive, stand in order, and tell what changed in the cluster once."""

import zlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspider_zk.cluster.events import (
    LARGEST,
    MOST_MEMBERS,
    PAIRS_AT_ONCE,
    TOLD_AT_ONCE,
    Checkpoint,
    Event,
    EventKind,
    LeaderObservation,
    Moves,
    age_order,
    event_name,
    gone,
    is_told,
    moves_between,
    new_events,
    sequence_of,
)
from pyspider_zk.cluster.records import Assignment, LeaseTerms, Member, Slot
from pyspider_zk.errors import BadMessage
from pyspider_zk.groups.ids import MemberId
from pyspider_zk.zookeeper.codec import plain

A, B = MemberId(0, "aaa"), MemberId(1, "bbb")
RECORD = Member("10.0.0.1:1", "host", 1, "0", 0.0, "name")
NOW = 9.0


def kinds(events: list[Event]) -> list[tuple[str, str]]:
    return [(event.kind, event.who) for event in events]


@given(st.builds(Event, st.text(), st.text(), st.floats(0, 1e10), st.text()))
def test_an_event_survives(event):
    assert Event.decode(event.encode()) == event


@pytest.mark.parametrize("field", ["text", "who", "data"])
def test_an_event_that_is_too_long_is_cut_and_says_so(field):
    long = {"text": "x" * 10**6, "who": "y" * 10**6, "data": {"note": "z" * 10**6, "batch": "b"}}
    event = Event("batch", "it was asked for", NOW, "ann", {"batch": "b"})

    told = Event.decode(replace(event, **{field: long[field]}).encode())

    assert len(plain(told)) <= LARGEST
    assert told.text.endswith("(cut: it was too long)")
    assert told.data == {"cut": True, "batch": "b"}


def test_an_event_that_inflates_is_refused():
    text = b'{"kind": "a", "text": "b", "at": 1' + b" " * 10**6 + b"}"

    for data in (text, zlib.compress(text)):
        with pytest.raises(BadMessage):
            Event.decode(data)


members = st.builds(lambda number: str(MemberId(number, "a1b2")), st.integers(0, 999))


@given(st.builds(Checkpoint, st.text(), st.lists(members), st.integers(0, 10**9)))
def test_a_roll_survives(roll):
    assert Checkpoint.decode(roll.encode()) == roll


@pytest.mark.parametrize(
    "roll",
    [
        Checkpoint(members=[f"{number}-a" for number in range(MOST_MEMBERS + 1)]),
        Checkpoint(members=["nobody"]),
        Checkpoint(epoch=-1),
        Checkpoint(epoch=10**400),
    ],
    ids=["many members", "no member", "before the first", "huge"],
)
def test_what_is_no_roll_of_a_cluster_is_refused(roll):
    with pytest.raises(BadMessage):
        Checkpoint.decode(roll.encode())


@given(st.integers(-(2**31), 2**31 - 1))
def test_the_number_in_a_name_survives(number):
    assert sequence_of(event_name(number)) == number


@pytest.mark.parametrize(
    "name",
    [
        *("", "event-", "event-x", "event", "entry-0000000001", "event---000000001"),
        *("event-1", "event-00000000001", "event--0000000001", "event--000000000"),
        *("event-2147483648", "event--2147483649", "event-" + "9" * 5000),
        "event-\u0660000000001",
    ],
)
def test_what_is_no_events_name_is_refused(name):
    with pytest.raises(BadMessage):
        sequence_of(name)


def test_the_oldest_comes_first_across_the_overflow():
    numbers = [0, 7, 2**31 - 1, -(2**31), -1]

    assert sorted(numbers, key=age_order) == numbers


def test_who_leads_first_tells_of_all():
    roll, events = new_events(Checkpoint(), LeaderObservation(A, {A: RECORD, B: RECORD}), NOW)

    assert kinds(events) == [("joined", str(A)), ("joined", str(B)), ("leader", str(A))]
    assert events[0].data == {"address": "10.0.0.1:1", "name": "name"}
    assert new_events(roll, LeaderObservation(A, {A: RECORD, B: RECORD}), NOW) == (roll, [])


def test_another_leader_tells_what_the_one_before_did_not():
    roll, _ = new_events(Checkpoint(), LeaderObservation(A, {A: RECORD}), NOW)

    sight = LeaderObservation(B, {B: RECORD}, leases={str(A): LeaseTerms(4.0)})
    _, events = new_events(roll, sight, NOW)

    assert kinds(events) == [("joined", str(B)), ("died", str(A)), ("leader", str(B))]


def test_one_that_deleted_its_lease_has_left():
    roll, _ = new_events(Checkpoint(), LeaderObservation(A, {A: RECORD, B: RECORD}), NOW)
    assert gone(roll, [A]) == [str(B)]

    _, events = new_events(roll, LeaderObservation(A, {A: RECORD}), NOW)

    assert kinds(events) == [("left", str(B))]


def test_one_that_left_its_lease_for_a_restart_has_left_and_how_long_its_slots_wait_is_told():
    roll, _ = new_events(Checkpoint(), LeaderObservation(A, {A: RECORD, B: RECORD}), NOW)
    lease = {str(B): LeaseTerms(90.0, left=True)}

    _, events = new_events(roll, LeaderObservation(A, {A: RECORD}, leases=lease), NOW)

    assert kinds(events) == [("left", str(B))]
    assert "its slots wait 90 s" in events[0].text


def test_of_many_members_the_first_are_told_of_then_the_others_and_at_last_the_moves():
    count = 3 * TOLD_AT_ONCE
    came = {MemberId(number, "new"): RECORD for number in range(count)}
    roll = Checkpoint(str(A), [str(MemberId(number, "old")) for number in range(count)], 4)
    moves = moves_between(Assignment(4, (Slot(),)), Assignment(5, (Slot(A, 1),)))
    told: list[list[Event]] = []

    while not is_told(roll, came):
        roll, events = new_events(roll, LeaderObservation(A, came, moves=[moves]), NOW)
        told.append(events)

    assert max(map(len, told)) <= 2 * TOLD_AT_ONCE + 1
    whole = kinds([event for part in told for event in part])
    assert len(whole) == len(set(whole)) == 2 * count + 1
    assert whole[-1] == (EventKind.MOVED, str(A))
    assert roll.epoch == 5


def test_of_many_moves_the_first_are_told_of_and_the_others_later():
    pairs = {(None, MemberId(number, "a")): 1 for number in range(PAIRS_AT_ONCE // 2)}
    many = [Moves(epoch, pairs) for epoch in range(5, 12)]
    roll, told = Checkpoint(str(A), (str(A),), 4), [[Event("", "", NOW)]]

    while told[-1]:
        roll, events = new_events(roll, LeaderObservation(A, {A: RECORD}, moves=many), NOW)
        told.append(events)

    assert max(map(len, told)) <= PAIRS_AT_ONCE
    epochs = [event.data["epoch"] for part in told[1:] for event in part]
    assert epochs == [each.epoch for each in many for _ in pairs]
    assert roll.epoch == 11


def test_moves_are_the_slots_whose_owner_changed():
    before = Assignment(9, (Slot(A, 1), Slot(A, 2), Slot(B, 3), Slot()))
    after = Assignment(10, (Slot(A, 1), Slot(B, 3), Slot(B, 3, A), Slot(A, 1)))

    assert moves_between(before, after).counts == {(A, B): 1, (None, A): 1}


def test_moves_between_very_many_owners_are_told_by_one_event():
    owners = [MemberId(number, "a") for number in range(PAIRS_AT_ONCE + 1)]
    before = Assignment(4, tuple(Slot(A, 1) for _ in owners for _ in range(2)))
    after = Assignment(5, tuple(Slot(owner, 2) for owner in owners for _ in range(2)))
    sight = LeaderObservation(A, {A: RECORD}, moves=[moves_between(before, after)])

    roll, events = new_events(Checkpoint(str(A), (str(A),)), sight, NOW)

    assert [(event.kind, event.text) for event in events] == [
        (EventKind.MOVED, "402 slots moved between 201 pairs of owners")
    ]
    assert events[0].data == {"slots": 402, "epoch": 5}
    assert roll.epoch == 5


def test_moves_are_told_per_pair_of_owners_and_once():
    before = Assignment(4, (Slot(A, 1), Slot(A, 1), Slot(B, 1), Slot()))
    after = Assignment(5, (Slot(B, 2), Slot(B, 2), Slot(B, 1), Slot(A, 1)))
    roll, _ = new_events(Checkpoint(), LeaderObservation(A, {A: RECORD}), NOW)
    sight = LeaderObservation(A, {A: RECORD}, moves=[moves_between(before, after)])

    roll, events = new_events(roll, sight, NOW)

    assert [(event.kind, event.text) for event in events] == [
        (EventKind.MOVED, f"2 slots moved from {A} to {B}"),
        (EventKind.MOVED, f"1 slot moved from nobody to {A}"),
    ]
    assert events[0].data == {"from": str(A), "to": str(B), "slots": 2, "epoch": 5}
    assert new_events(roll, sight, NOW) == (roll, [])
