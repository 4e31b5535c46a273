"""The schedule is a pure function of the seed and never more than a cluster can stand."""

from itertools import pairwise

import pytest

from tests.chaos.faults import HITS_SCHEDULER, MOST_HIT, WARM_UP, Kind, PlannedFault, schedule

SEEDS = range(30)


def flat(faults: list[PlannedFault]) -> list[PlannedFault]:
    """Return the faults with pairs taken apart."""
    return [part for fault in faults for part in (fault.parts or (fault,))]


def test_a_seed_gives_the_same_schedule_every_time() -> None:
    assert schedule(7, 60) == schedule(7, 60)


def test_another_seed_gives_another_schedule() -> None:
    assert schedule(7, 60) != schedule(8, 60)


def test_thirty_minutes_hold_a_thousand_faults_and_every_kind() -> None:
    faults = [fault for seed in SEEDS for fault in schedule(seed, 60)]

    assert len(faults) >= 1100
    assert {fault.kind for fault in faults} == set(Kind)


@pytest.mark.parametrize("seconds", [5, 20, 60])
def test_faults_begin_after_the_warm_up_and_are_undone_at_the_end(seconds: int) -> None:
    for seed in SEEDS:
        for fault in flat(schedule(seed, seconds)):
            assert fault.at >= WARM_UP
            assert fault.at + fault.lasts <= seconds + 1e-6


@pytest.mark.parametrize("seed", SEEDS)
def test_somebody_is_left_to_take_over(seed: int) -> None:
    hits = [fault for fault in flat(schedule(seed, 60)) if fault.kind in HITS_SCHEDULER]
    for fault in hits:
        at_once = [other for other in hits if other.at <= fault.at < other.at + other.lasts]
        assert len(at_once) <= MOST_HIT


@pytest.mark.parametrize("seed", SEEDS)
def test_the_quorum_of_zookeeper_is_never_lost_for_long(seed: int) -> None:
    kinds = (Kind.ZK_KILL, Kind.ZK_LEADER_KILL, Kind.ZK_THROTTLED)
    downs = [fault for fault in flat(schedule(seed, 60)) if fault.kind in kinds]
    for fault in downs:
        at_once = [other for other in downs if other.at <= fault.at < other.at + other.lasts]
        assert len(at_once) == 1


def test_a_stop_and_a_drop_outlast_the_lease() -> None:
    lasting = (Kind.STOP, Kind.DROP, Kind.DROP_IN, Kind.DROP_OUT)
    for seed in SEEDS:
        for fault in flat(schedule(seed, 60)):
            assert fault.lasts > 4 or fault.kind not in lasting


def test_a_schedule_can_be_kept_to_some_kinds() -> None:
    kinds = (Kind.DRAIN, Kind.JOIN)

    assert {fault.kind for fault in schedule(1, 60, kinds)} == set(kinds)


def test_calm_keeps_one_fault_from_the_next() -> None:
    for seed in SEEDS:
        faults = schedule(seed, 180, (Kind.KILL, Kind.LEADER_KILL), calm=12)
        pairs = pairwise(faults)

        assert len(faults) > 5
        assert all(after.at >= before.at + before.lasts + 12 for before, after in pairs)
