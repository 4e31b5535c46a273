"""Each transition of a slot, and who may cause it."""

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pyspider_zk.cluster.cluster_settings import ClusterSettings, Maintenance
from pyspider_zk.cluster.records import Assignment, Member, Slot
from pyspider_zk.cluster.rules import (
    NOTHING,
    Decision,
    Rules,
    Snapshot,
    Stamp,
    View,
    decide,
    eligible,
    is_settled,
    leftovers,
    next_death,
    observe,
    still_released,
    view_of,
)
from pyspider_zk.cluster.tree import candidate_of, leader_of, line_of
from pyspider_zk.groups.ids import MemberId
from pyspider_zk.limits import LONGEST_LEASE

A, B, C = MemberId(0, "aaa"), MemberId(1, "bbb"), MemberId(2, "ccc")
AGAIN = MemberId(A.number, "aaa2")  # the next incarnation of A
RESTART = 60.0  # seconds that the slots of one that restarts wait
RECORD = Member("127.0.0.1:1", "host", 1, "0", 0.0)
RULES = Rules(lease=4.0, drift=0.01, margin=0.2)
NOW = 1000.0
LONG_AGO = NOW - RULES.expiry - 0.001
JUST_ALIVE = NOW - RULES.expiry + 0.001


def cluster(*rows: Slot, members=(A, B), stamps=None, acks=None, weights=None) -> Snapshot:
    """Give a snapshot in which all members are alive unless stamps say otherwise."""
    alive = {member: Stamp(7, NOW) for member in members}
    return Snapshot(
        Assignment(20, rows),
        dict.fromkeys(members, RECORD),
        {**alive, **(stamps or {})},
        acks or {},
        weights or {},
        NOW,
    )


def without_lease(snapshot: Snapshot, *members: MemberId) -> Snapshot:
    stamps = {name: stamp for name, stamp in snapshot.stamps.items() if name not in members}
    return replace(snapshot, stamps=stamps)


def draining(snapshot: Snapshot, *members: MemberId) -> Snapshot:
    records = dict.fromkeys(members, replace(RECORD, draining=True))
    return replace(snapshot, members={**snapshot.members, **records})


def left_for_a_restart(members: list[MemberId], age: float = 0.0) -> Snapshot:
    """Give a cluster that A left, with two slots, for a restart; B has one."""
    lease = {A: Stamp(9, NOW - age, RESTART)}
    rows = (Slot(A, 3), Slot(A, 5), Slot(B, 1))
    return replace(cluster(*rows, members=members, stamps=lease), left={A})


def rows_after(snapshot: Snapshot, rules: Rules = RULES) -> tuple[Slot, ...]:
    decision = decide(snapshot, rules)
    assert decision is not None
    return decision.assignment.slots


def test_a_vacant_slot_is_granted():
    decision = decide(cluster(Slot(), members=[A]), RULES)

    assert decision == Decision(Assignment(21, (Slot(A, 1),)), {})


def test_a_newborn_cluster_waits_for_as_many_members_as_it_shall():
    patient = replace(RULES, await_members=2)
    newborn = replace(cluster(Slot(), Slot(), members=[A, B]), assignment=Assignment.vacant(2))

    assert decide(draining(newborn, B), patient) is None
    assert decide(newborn, patient) is not None


def test_a_cluster_that_was_granted_once_waits_for_nobody():
    snapshot = without_lease(cluster(Slot(), Slot(B, 3), members=[A]), B)

    assert decide(snapshot, replace(RULES, await_members=2)) is not None


def test_a_table_that_was_written_anew_waits_for_nobody():
    assert decide(cluster(Slot(), members=[A]), replace(RULES, await_members=2)) is not None


def test_an_even_cluster_is_left_alone():
    assert decide(cluster(Slot(A, 1), Slot(B, 1)), RULES) is None


def test_a_newcomer_makes_an_owner_release():
    rows = rows_after(cluster(*[Slot(A, 1)] * 4))

    assert sorted(rows, key=str).count(Slot(A, 1, B)) == 2
    assert rows.count(Slot(A, 1)) == 2


def test_a_slot_of_a_live_owner_is_not_granted_before_its_ack():
    assert decide(cluster(Slot(A, 3, B), Slot(A, 1)), RULES) is None


def test_an_acknowledged_slot_goes_to_the_next_owner_at_the_next_epoch():
    snapshot = cluster(Slot(A, 3, B), Slot(A, 1), acks={A: {0: 3}})

    assert decide(snapshot, RULES) == Decision(Assignment(21, (Slot(B, 4), Slot(A, 1))), {})


@pytest.mark.parametrize("epoch", [2, 4])
def test_an_ack_of_another_epoch_is_ignored(epoch):
    assert decide(cluster(Slot(A, 3, B), Slot(A, 1), acks={A: {0: epoch}}), RULES) is None


def test_an_ack_of_somebody_else_is_ignored():
    assert decide(cluster(Slot(A, 3, B), Slot(A, 1), acks={B: {0: 3}}), RULES) is None


def test_a_silent_owner_keeps_its_slot_while_its_lease_may_last():
    snapshot = cluster(Slot(A, 3), members=[A, B], stamps={A: Stamp(9, JUST_ALIVE)})

    assert decide(snapshot, RULES) is None


def test_one_that_is_away_is_not_asked_for_its_slots_before_its_lease_ended():
    snapshot = cluster(Slot(A, 3), members=[B], stamps={A: Stamp(9, JUST_ALIVE)})

    assert decide(snapshot, RULES) is None


def test_a_dead_owner_loses_its_slot_and_the_write_checks_its_lease():
    snapshot = cluster(Slot(A, 3), members=[B], stamps={A: Stamp(9, LONG_AGO)})

    assert decide(snapshot, RULES) == Decision(Assignment(21, (Slot(B, 4),)), {A: 9})


def test_the_ephemeral_of_a_dead_owner_proves_nothing():
    snapshot = cluster(Slot(A, 3), members=[A, B], stamps={A: Stamp(9, LONG_AGO)})

    assert decide(snapshot, RULES) == Decision(Assignment(21, (Slot(B, 4),)), {A: 9})


def test_an_owner_that_left_loses_its_slot_at_once():
    snapshot = without_lease(cluster(Slot(A, 3), members=[B]), A)

    assert decide(snapshot, RULES) == Decision(Assignment(21, (Slot(B, 4),)), {})


def test_the_lease_of_a_member_that_loses_nothing_is_not_checked():
    snapshot = cluster(
        Slot(A, 3), members=[B], stamps={A: Stamp(9, LONG_AGO), C: Stamp(2, LONG_AGO)}
    )

    decision = decide(snapshot, RULES)

    assert decision is not None
    assert set(decision.checks) == {A}


def test_a_former_incarnation_is_somebody_else():
    again = MemberId(A.number, "aaa2")
    snapshot = cluster(Slot(A, 3), members=[again], stamps={A: Stamp(9, NOW)})

    assert decide(snapshot, RULES) is None


def test_the_slots_of_a_dead_member_go_to_the_next_incarnation_of_its_number():
    snapshot = cluster(
        *[Slot(A, 3)] * 4, Slot(B, 1), members=[AGAIN, B], stamps={A: Stamp(9, LONG_AGO)}
    )

    assert decide(snapshot, replace(RULES, moves=0)) == Decision(
        Assignment(21, (*[Slot(AGAIN, 4)] * 4, Slot(B, 1))), {A: 9}
    )


def test_the_slots_of_one_that_left_for_a_restart_wait_for_its_number():
    assert decide(left_for_a_restart(members=[B]), RULES) is None


def test_they_are_granted_as_soon_as_it_is_back():
    snapshot = left_for_a_restart(members=[AGAIN, B])

    assert rows_after(snapshot) == (Slot(AGAIN, 4), Slot(AGAIN, 6), Slot(B, 1))


def test_they_wait_for_its_first_lease():
    snapshot = without_lease(left_for_a_restart(members=[AGAIN, B]), AGAIN)

    assert decide(snapshot, RULES) is None


def test_they_go_to_others_if_it_is_back_and_drains():
    snapshot = draining(left_for_a_restart(members=[AGAIN, B]), AGAIN)

    assert rows_after(snapshot) == (Slot(B, 4), Slot(B, 6), Slot(B, 1))


def test_they_go_to_others_if_it_stays_away_until_the_lease_that_it_left_ends():
    snapshot = left_for_a_restart(members=[B], age=RESTART * (1 + RULES.drift) + 0.3)

    assert decide(snapshot, RULES) == Decision(
        Assignment(21, (Slot(B, 4), Slot(B, 6), Slot(B, 1))), {A: 9}
    )


def test_a_joining_member_is_asked_for_nothing_because_of_slots_that_wait():
    snapshot = left_for_a_restart(members=[B, C])

    assert decide(replace(snapshot, projects={0: 50, 1: 50, 2: 1}), RULES) is None


def test_what_waits_for_a_dead_members_number_counts_as_its_own_once_it_is_back():
    rows = (*[Slot(A, 3)] * 4, *[Slot(B, 1)] * 4)
    snapshot = cluster(*rows, members=[AGAIN, B], stamps={A: Stamp(9, JUST_ALIVE)})

    assert decide(snapshot, RULES) is None


def test_the_lease_of_one_that_is_back_is_swept_at_once():
    snapshot = cluster(Slot(AGAIN, 4), members=[AGAIN], stamps={A: Stamp(9, NOW, RESTART)})

    assert leftovers(snapshot, RULES) == {}
    assert leftovers(replace(snapshot, left={A}), RULES) == {A: 9}


def test_two_dead_at_once_lose_all_their_slots():
    snapshot = cluster(
        Slot(A, 3),
        Slot(B, 5, A),
        members=[C],
        stamps={A: Stamp(1, LONG_AGO), B: Stamp(2, LONG_AGO)},
    )

    assert decide(snapshot, RULES) == Decision(
        Assignment(21, (Slot(C, 4), Slot(C, 6))), {A: 1, B: 2}
    )


def test_another_is_named_if_the_next_owner_dies_during_the_release():
    snapshot = cluster(Slot(A, 3, B), Slot(A, 1), members=[A, C], stamps={B: Stamp(4, LONG_AGO)})

    assert rows_after(snapshot) == (Slot(A, 3, C), Slot(A, 1))


def test_a_release_is_not_called_back_even_if_nobody_else_is_left():
    snapshot = without_lease(cluster(Slot(A, 3, B), members=[A]), B)

    assert decide(snapshot, RULES) is None


def test_an_owner_left_alone_gets_back_what_it_released_at_a_new_epoch():
    snapshot = without_lease(cluster(Slot(A, 3, B), members=[A], acks={A: {0: 3}}), B)

    assert rows_after(snapshot) == (Slot(A, 4),)


def test_the_slots_of_a_draining_member_move_away():
    rows = rows_after(draining(cluster(Slot(A, 1), Slot(A, 1), Slot(B, 1)), A))

    assert rows == (Slot(A, 1, B), Slot(A, 1, B), Slot(B, 1))


def test_a_draining_member_gets_nothing():
    assert decide(draining(cluster(Slot(), members=[A]), A), RULES) is None


def test_nobody_to_take_anything_changes_nothing():
    assert decide(cluster(Slot(A, 1), members=[], stamps={A: Stamp(1, LONG_AGO)}), RULES) is None


def test_a_member_whose_lease_is_stale_gets_nothing():
    snapshot = cluster(Slot(), members=[A, B], stamps={A: Stamp(1, LONG_AGO)})

    assert eligible(snapshot, RULES) == {B}


def test_no_more_slots_are_between_owners_than_the_rules_allow():
    rules = replace(RULES, moves=3)
    snapshot = cluster(Slot(A, 1, B), *[Slot(A, 1)] * 20)

    decision = decide(snapshot, rules)

    assert decision is not None
    assert sum(row.next is not None for row in decision.assignment.slots) == 3


def test_leftovers_are_dead_gone_and_own_nothing():
    old = {name: Stamp(1, LONG_AGO) for name in (A, B, C)}

    assert leftovers(cluster(Slot(B, 1), members=[C], stamps=old), RULES) == {A: 1}


def test_a_version_seen_before_keeps_its_time():
    known = {A: Stamp(3, 5.0, 4.0), B: Stamp(4, 5.0, 4.0), C: Stamp(1, 5.0, 4.0)}

    stamps = observe(known, {A: 3, B: 5}, 9.0, {A: 4.0, B: 4.0})

    assert stamps == {A: Stamp(3, 5.0, 4.0), B: Stamp(5, 9.0, 4.0)}


@pytest.mark.parametrize(
    ("known", "told", "lease"),
    [
        ({}, {A: 2.5}, 2.5),
        ({}, {}, LONGEST_LEASE),  # nobody can tell how long its fence may be open
        ({}, {A: 0.0}, LONGEST_LEASE),
        ({}, {A: -3.0}, LONGEST_LEASE),
        ({}, {A: 1e9}, LONGEST_LEASE),  # what is no length must not keep slots for ever
        ({A: Stamp(3, 5.0, LONGEST_LEASE)}, {A: 2.5}, 2.5),
    ],
)
@pytest.mark.parametrize("version", [3, 4])
def test_a_lease_lasts_as_long_as_it_tells_or_as_long_as_any_may(known, told, lease, version):
    assert observe(known, {A: version}, 9.0, told)[A].lease == lease


@pytest.mark.parametrize(("version", "lease"), [(3, 2.5), (4, LONGEST_LEASE)])
def test_a_length_that_cannot_be_read_any_more_is_known_of_the_same_version_only(version, lease):
    assert observe({A: Stamp(3, 5.0, 2.5)}, {A: version}, 9.0, {})[A].lease == lease


def test_a_member_is_judged_by_the_length_of_its_own_lease():
    longer = cluster(Slot(A, 1), Slot(B, 1), stamps={A: Stamp(7, LONG_AGO, 2 * RULES.lease)})
    shorter = cluster(Slot(A, 1), Slot(B, 1), stamps={A: Stamp(7, NOW - 2.5, 2.0)})

    assert decide(longer, RULES) is None
    assert rows_after(shorter) == (Slot(B, 2), Slot(B, 1))


def test_the_next_death_goes_by_the_length_of_each_lease():
    stamps = [Stamp(1, NOW - 1, 4.0), Stamp(1, NOW, 2.0)]

    assert next_death(stamps, NOW, RULES) == pytest.approx(NOW + 2.22)


def test_a_lease_outlasts_neither_drift_nor_margin():
    assert Rules(lease=4.0, drift=0.01, margin=0.2).expiry == pytest.approx(4.24)


def test_the_next_death_is_that_of_the_lease_not_renewed_for_longest_that_may_still_hold():
    stamps = [Stamp(1, NOW), Stamp(1, NOW - 3), Stamp(1, NOW - RULES.expiry - 1)]

    assert next_death(stamps, NOW, RULES) == pytest.approx(NOW - 3 + RULES.expiry)
    assert next_death(stamps[2:], NOW, RULES) == float("inf")


# --- what operators tell the leader ---


def told(snapshot: Snapshot, **settings: object) -> Snapshot:
    return replace(snapshot, settings=ClusterSettings(**settings))


def test_in_maintenance_a_newcomer_gets_nothing():
    assert decide(told(cluster(*[Slot(A, 1)] * 4), maintenance=Maintenance.ON), RULES) is None


@pytest.mark.parametrize("spoilt", [without_lease, draining])
def test_in_maintenance_the_slots_of_one_that_leaves_or_drains_still_move(spoilt):
    snapshot = told(cluster(Slot(A, 1), Slot(B, 1)), maintenance=Maintenance.ON)

    assert {row.next or row.owner for row in rows_after(spoilt(snapshot, A))} == {B}


@pytest.mark.parametrize("spoilt", [without_lease, draining])
def test_on_hold_they_do_not(spoilt):
    snapshot = told(cluster(Slot(A, 1), Slot(B, 1)), maintenance=Maintenance.HOLD)

    assert decide(spoilt(snapshot, A), RULES) is None


def test_on_hold_a_dead_members_slots_go_to_its_number():
    snapshot = cluster(Slot(A, 3), members=[AGAIN, B], stamps={A: Stamp(9, LONG_AGO)})

    assert rows_after(told(snapshot, maintenance=Maintenance.HOLD)) == (Slot(AGAIN, 4),)


def test_on_hold_a_dead_members_slots_go_to_its_number_even_if_that_is_evicted():
    snapshot = cluster(Slot(A, 3), members=[AGAIN, B], stamps={A: Stamp(9, LONG_AGO)})
    snapshot = told(snapshot, maintenance=Maintenance.HOLD, evicted=(A.number,))

    assert rows_after(snapshot) == (Slot(AGAIN, 4),)


def test_on_hold_one_that_is_evicted_keeps_its_slots_and_gets_no_others():
    snapshot = told(
        cluster(Slot(A, 3), Slot(), Slot(C, 1, A), members=[A, B]),
        maintenance=Maintenance.HOLD,
        evicted=(A.number,),
    )

    assert rows_after(snapshot) == (Slot(A, 3), Slot(B, 1), Slot(B, 2))


def test_on_hold_a_slot_that_was_given_up_still_gets_an_owner():
    snapshot = without_lease(cluster(Slot(A, 3, B), members=[A, C], acks={A: {0: 3}}), B)

    assert rows_after(told(snapshot, maintenance=Maintenance.HOLD))[0].epoch == 4


def test_on_hold_a_new_clusters_slots_are_granted():
    assert decide(told(cluster(Slot()), maintenance=Maintenance.HOLD), RULES) is not None


def test_who_is_evicted_gives_all_and_gets_nothing():
    snapshot = told(cluster(Slot(A, 1), Slot(B, 1), Slot()), evicted=(A.number,))

    assert rows_after(snapshot) == (Slot(A, 1, B), Slot(B, 1), Slot(B, 1))


def test_the_slots_of_one_that_is_evicted_move_all_at_once():
    snapshot = told(cluster(Slot(A, 1), Slot(A, 1), Slot(B, 1)), evicted=(A.number,))

    rows = rows_after(snapshot, replace(RULES, moves=1))

    assert rows == (Slot(A, 1, B), Slot(A, 1, B), Slot(B, 1))


def test_if_all_are_evicted_nothing_moves():
    assert decide(told(cluster(Slot(A, 1), Slot(B, 1)), evicted=(0, 1)), RULES) is None


def test_if_all_are_evicted_the_slots_of_one_that_dies_move():
    snapshot = without_lease(told(cluster(Slot(A, 1), Slot(B, 1)), evicted=(0, 1)), A)

    assert rows_after(snapshot) == (Slot(B, 2), Slot(B, 1))


def test_a_pinned_slot_is_asked_for():
    snapshot = told(cluster(Slot(A, 1), Slot(B, 1), Slot(A, 1), Slot(B, 1)), pins={0: B.number})

    assert rows_after(snapshot)[0] == Slot(A, 1, B)


# --- any cluster at all ------------------------------------------------------------------

CROWD = [MemberId(number, f"{number:x}") for number in range(4)]
someone = st.sampled_from(CROWD)
a_slot = st.one_of(
    st.just(Slot()),
    st.builds(Slot, someone, st.integers(1, 3)),
    st.builds(Slot, someone, st.integers(1, 3), someone).filter(lambda row: row.owner != row.next),
)


@st.composite
def snapshots(draw) -> Snapshot:
    ages = draw(st.dictionaries(someone, st.sampled_from([0.0, RULES.expiry + 1])))
    records = st.sampled_from([RECORD, replace(RECORD, draining=True)])
    return Snapshot(
        Assignment(1, tuple(draw(st.lists(a_slot, min_size=1, max_size=8)))),
        draw(st.dictionaries(someone, records)),
        {member: Stamp(5, NOW - age) for member, age in ages.items()},
        draw(st.dictionaries(someone, st.dictionaries(st.integers(0, 7), st.integers(1, 3)))),
        draw(st.dictionaries(st.integers(0, 7), st.integers(0, 9))),
        NOW,
        left=frozenset(),
        settings=ClusterSettings(
            maintenance=draw(st.sampled_from(Maintenance)),
            evicted=tuple(draw(st.sets(st.integers(0, 3), max_size=1))),
            pins=draw(st.dictionaries(st.integers(0, 9), st.integers(0, 5))),
        ),
    )


@given(snapshots())
def test_a_slot_changes_hands_only_if_nobody_can_hold_it(snapshot):
    decision = decide(snapshot, RULES)
    after = decision.assignment.slots if decision else snapshot.assignment.slots
    for number, (old, new) in enumerate(zip(snapshot.assignment.slots, after, strict=True)):
        if (old.owner, old.epoch) == (new.owner, new.epoch):
            continue
        acked = snapshot.acks.get(old.owner, {}).get(number) == old.epoch
        stamp = snapshot.stamps.get(old.owner)
        is_alive = stamp is not None and NOW - stamp.first_seen <= RULES.expiry
        assert old.owner is None or acked or not is_alive
        assert new.epoch == old.epoch + 1
        assert new.next is None
        if not is_alive and stamp is not None and new.owner != old.owner:
            assert decision.checks[old.owner] == stamp.version


@given(snapshots(), st.sets(someone, min_size=1), st.booleans())
def test_a_restart_moves_no_slot_to_another_number(snapshot, restarted, is_planned):
    snapshot = at_rest(replace(snapshot, members=dict.fromkeys(snapshot.members, RECORD)))
    assume(is_settled(snapshot, RULES) and snapshot.members.keys() - restarted)
    before = [slot.owner and slot.owner.number for slot in snapshot.assignment.slots]
    gone = {one: record for one, record in snapshot.members.items() if one in restarted}
    snapshot = away(snapshot, gone, is_planned)
    assert decide(snapshot, RULES) is None
    after = come_to_rest(back(snapshot, gone, is_planned))
    assert [slot.owner and slot.owner.number for slot in after.assignment.slots] == before
    assert not gone.keys() & {slot.owner for slot in after.assignment.slots}


@given(snapshots())
def test_only_eligible_members_are_granted_or_promised_slots(snapshot):
    takers = eligible(snapshot, RULES)
    is_held = snapshot.settings.maintenance is Maintenance.HOLD
    decision = decide(snapshot, RULES)
    after = decision.assignment.slots if decision else snapshot.assignment.slots
    for old, new in zip(snapshot.assignment.slots, after, strict=True):
        if new.epoch != old.epoch:
            is_same = old.owner is not None and new.owner.number == old.owner.number
            assert new.owner in takers or (is_held and is_same)
        if new.next != old.next:
            assert new.next in takers | {None}


@given(snapshots())
def test_deciding_again_and_again_comes_to_rest(snapshot):
    for _ in range(20):
        decision = decide(snapshot, RULES)
        if decision is None:
            return
        assert decision.assignment.epoch == snapshot.assignment.epoch + 1
        snapshot = replace(snapshot, assignment=decision.assignment)
    pytest.fail("the assignment never comes to rest")


@given(snapshots())
def test_once_all_asked_have_released_every_slot_has_an_eligible_owner(snapshot):
    assume(snapshot.settings.maintenance is not Maintenance.HOLD)
    standing = snapshot.members.keys() & snapshot.stamps.keys()
    stamps = {member: snapshot.stamps[member] for member in standing}
    snapshot = replace(snapshot, stamps=stamps)  # the leases of all others have ended
    for _ in range(40):
        table = snapshot.assignment.slots
        acks = {
            member: {
                slot: row.epoch
                for slot, row in enumerate(table)
                if row.owner == member and row.next
            }
            for member in CROWD
        }
        decision = decide(replace(snapshot, acks=acks), RULES)
        if decision is None:
            break
        snapshot = replace(snapshot, assignment=decision.assignment)
    takers = eligible(snapshot, RULES)
    assert not takers or {row.owner for row in snapshot.assignment.slots} <= takers


# --- the member's side --------------------------------------------------------------------


def test_the_fence_is_open_for_owned_and_releasing_slots_at_their_epoch_within_the_lease():
    view = View({1: 5}, {2: 6}, lease_until=10.0)

    assert view.open(1, 5, 9.9)
    assert view.open(2, 6, 9.9)


@pytest.mark.parametrize(
    ("slot", "epoch", "now"), [(1, 5, 10.0), (1, 4, 9.0), (1, 6, 9.0), (3, 5, 9.0), (2, 5, 9.0)]
)
def test_the_fence_is_shut_for_all_else(slot, epoch, now):
    assert not View({1: 5}, {2: 6}, lease_until=10.0).open(slot, epoch, now)


def test_nothing_is_open_before_the_first_renewal():
    assert not View({1: 5}, {}).open(1, 5, 0.0)
    assert not NOTHING.open(0, 0, float("-inf"))


def test_a_renewal_changes_nothing_but_the_end_of_the_lease():
    assert View({1: 5}, {2: 6}, 3.0).renewed(7.0) == View({1: 5}, {2: 6}, 7.0)


def test_a_member_sees_its_rows_without_what_it_released():
    table = Assignment(1, (Slot(A, 1), Slot(A, 2, B), Slot(A, 3, B), Slot(B, 4)))

    assert view_of(table, A, {1: 2}, 5.0) == View({0: 1}, {2: 3}, 5.0)


def test_a_slot_that_comes_back_at_a_later_epoch_is_owned_again():
    table = Assignment(1, (Slot(A, 7),))

    assert still_released(table, A, {0: 5}) == {}
    assert view_of(table, A, {0: 5}, 1.0).owned == {0: 7}


def test_only_releases_that_were_asked_for_are_told():
    table = Assignment(1, (Slot(A, 1), Slot(A, 2, B)))

    assert still_released(table, A, {0: 1, 1: 2}) == {1: 2}


# --- the election -------------------------------------------------------------------------


def test_the_lowest_sequence_number_leads_as_a_number_not_as_text():
    names = ["0-aaa-2147483647", "1-bbb-0000000010", "2-ccc-0000000009"]

    assert leader_of(names) == "2-ccc-0000000009"


def test_candidates_stand_in_line_by_their_sequence_numbers():
    assert line_of({"0-a-0000000012", "9-b-0000000003"}) == ["9-b-0000000003", "0-a-0000000012"]


def test_nobody_leads_without_candidates():
    assert leader_of([]) is None


def test_a_candidate_tells_its_member():
    assert candidate_of("12-abc-0000000009") == MemberId(12, "abc")


def away(snapshot: Snapshot, gone: dict[MemberId, Member], is_planned: bool) -> Snapshot:
    """Give the cluster just after these went: their ephemerals are gone, their leases are not."""
    members = {one: record for one, record in snapshot.members.items() if one not in gone}
    return replace(snapshot, members=members, left=gone.keys() if is_planned else set())


def back(snapshot: Snapshot, gone: dict[MemberId, Member], is_planned: bool) -> Snapshot:
    """Give the cluster when these are back; by then the lease of one that was killed has ended."""
    again = {one._replace(incarnation=f"{one.incarnation}+"): gone[one] for one in gone}
    alive = dict.fromkeys(again, Stamp(1, NOW))
    ended = {} if is_planned else dict.fromkeys(gone, Stamp(5, LONG_AGO))
    return replace(
        snapshot,
        members={**snapshot.members, **again},
        stamps={**snapshot.stamps, **ended, **alive},
    )


ACKS = st.dictionaries(someone, st.dictionaries(st.integers(0, 7), st.integers(1, 9)))


def at_rest(snapshot: Snapshot) -> Snapshot:
    """Give the cluster when all who stand have a lease, and all moves are over."""
    stamps = {member: Stamp(5, NOW) for member in snapshot.members}
    return come_to_rest(replace(snapshot, stamps=stamps))


def come_to_rest(snapshot: Snapshot) -> Snapshot:
    """Give the cluster when all have released what they were asked for."""
    while (decision := decide(snapshot, RULES)) is not None:
        acks = {member: dict(decision.assignment.releasing_by(member)) for member in CROWD}
        snapshot = replace(snapshot, assignment=decision.assignment, acks=acks)
    return snapshot


@given(snapshots(), ACKS)
def test_what_is_settled_stays_so_while_leases_are_renewed(snapshot, acks):
    snapshot = at_rest(snapshot)
    assert is_settled(snapshot, RULES) or any(row.next for row in snapshot.assignment.slots)
    assume(is_settled(snapshot, RULES))
    later = {member: Stamp(6, NOW + 1000) for member in snapshot.stamps}
    snapshot = replace(snapshot, acks=acks, stamps=later, now=NOW + 1000)
    assert decide(snapshot, RULES) is None
    assert leftovers(snapshot, RULES) == {}


def test_an_even_cluster_is_settled():
    assert is_settled(cluster(Slot(A, 1), Slot(B, 1)), RULES)


@pytest.mark.parametrize(
    "snapshot",
    [
        cluster(Slot(A, 1, B), Slot(B, 1)),
        cluster(Slot(A, 1), Slot(B, 1), stamps={B: Stamp(7, LONG_AGO)}),
        cluster(Slot(A, 1), Slot(B, 1), stamps={C: Stamp(7, NOW)}),
        without_lease(cluster(Slot(A, 1), Slot(A, 1)), B),
    ],
    ids=["moving", "silent", "leftover", "left"],
)
def test_a_cluster_in_which_something_goes_on_is_not_settled(snapshot):
    assert not is_settled(snapshot, RULES)
