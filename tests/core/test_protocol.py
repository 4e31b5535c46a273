"""Random walks over the real rules: ownership never overlaps, and each rule is needed for that."""

import pytest
from protocol_world import walk

from pyspider_zk.core import ownership
from pyspider_zk.core.ownership import Decision, Rules, View

SEEDS = range(400)
BROKEN_IN_THE_WORLD = [
    "no check of the assignment",
    "no check of the lease",
    "lease from the reply",
    "ack before release",
]


def test_ownership_never_overlaps_whatever_the_order_of_events():
    grants = sum(walk(seed).grants for seed in SEEDS)

    assert grants > len(SEEDS)  # the walks do get somewhere


@pytest.mark.parametrize("rule", BROKEN_IN_THE_WORLD)
def test_without_a_rule_of_the_members_ownership_overlaps(rule):
    assert some_walk_overlaps(frozenset({rule}))


def test_without_the_gate_ownership_overlaps(monkeypatch):
    def held(view: View, slot: int, epoch: int, _now: float) -> bool:
        return epoch in (view.owned.get(slot), view.releasing.get(slot))

    monkeypatch.setattr(View, "open", held)

    assert some_walk_overlaps()


def test_without_the_wait_ownership_overlaps(monkeypatch):
    monkeypatch.setattr(Rules, "expiry", property(lambda rules: rules.lease / 2))

    assert some_walk_overlaps()


def test_with_a_grant_before_the_ack_ownership_overlaps(monkeypatch):
    rule = ownership._is_free
    monkeypatch.setattr(
        ownership,
        "_is_free",
        lambda number, slot, *rest: bool(slot.next) or rule(number, slot, *rest),
    )

    assert some_walk_overlaps()


def test_with_an_ack_of_another_epoch_counted_ownership_overlaps(monkeypatch):
    rule = ownership._is_free

    def any_epoch(number, slot, snapshot, rules):
        acked = number in snapshot.acks.get(slot.owner, {})
        return acked or rule(number, slot, snapshot, rules)

    monkeypatch.setattr(ownership, "_is_free", any_epoch)

    assert some_walk_overlaps()


def test_without_the_checks_of_a_decision_ownership_overlaps(monkeypatch):
    init = Decision.__init__
    monkeypatch.setattr(
        Decision, "__init__", lambda self, assignment, _checks: init(self, assignment, {})
    )

    assert some_walk_overlaps()


def some_walk_overlaps(broken: frozenset[str] = frozenset()) -> bool:
    for seed in range(3_000):
        try:
            walk(seed, broken=broken)
        except AssertionError:
            return True
    return False
