"""All states of small clusters over the real rules: nothing overlaps, and each rule is needed."""

import pytest
from protocol_search import Recovery, Violated, explore, settled
from protocol_states import State, birth, put
from protocol_world import ALL, steps

from pyspider_zk.core import ownership
from pyspider_zk.core.ownership import Decision, Rules, View
from pyspider_zk.core.phases import Event

QUIET = ("drain", "expiry", "leave")

# What is explored, and how many states that is at least: a search that finds fewer is broken.
# The last number is the depth, in steps; where it is 99 the states came to an end by themselves.
SMALL = [
    ("one is born and another joins", birth(1, 1, faults=1, writes=3), 99, 2_000),
    ("two are born, one slot", birth(2, 1, faults=0, writes=3), 99, 15_000),
    ("two are born, two slots", birth(2, 2, faults=0, writes=2), 99, 14_000),
    ("two at rest, two faults", settled(2, 2, faults=2, writes=2), 6, 9_000),
    ("three at rest, two faults", settled(3, 2, faults=2, writes=2), 5, 6_000),
]
LARGE = [
    ("two at rest, a crash", settled(2, 1, faults=1, writes=2), 99, ("crash",), 18_000),
    ("two at rest, one leaves", settled(2, 1, faults=1, writes=2), 99, ("leave",), 12_000),
    ("two at rest, one drains", settled(2, 1, faults=1, writes=2), 99, ("drain",), 76_000),
    ("two at rest, a lost session", settled(2, 1, faults=1, writes=2), 99, ("expiry",), 376_000),
    ("two at rest, any one fault", settled(2, 1, faults=1, writes=2), 12, ALL, 100_000),
    ("three at rest, two faults", settled(3, 2, faults=2, writes=2), 7, ALL, 90_000),
]


def name_of(item: object) -> str:
    return item if isinstance(item, str) else ""


def look_at_all(start: State, depth: int, at_least: int, faults=ALL) -> str:
    recovery, count = Recovery(), 0
    for state in explore(start, depth=depth, faults=faults):
        recovery.check(state)
        count += 1
    assert count >= at_least
    return f"{count} states, each served again within {recovery.rounds} rounds of everybody"


@pytest.mark.parametrize(("name", "start", "depth", "at_least"), SMALL, ids=name_of)
def test_in_no_state_ownership_overlaps_and_all_recover(name, start, depth, at_least, capsys):
    found = look_at_all(start, depth, at_least)

    with capsys.disabled():
        print(f"\n{name}: {found}")  # noqa: T201 - the figure


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("name", "start", "depth", "faults", "at_least"), LARGE, ids=name_of)
def test_in_no_state_of_a_larger_search(name, start, depth, faults, at_least, capsys):
    found = look_at_all(start, depth, at_least, faults)

    with capsys.disabled():
        print(f"\n{name}: {found}")  # noqa: T201 - the figure


# --- each rule is needed: without it the search finds a way to a violation ----------------------

AT_REST = settled(2, 1, faults=1, writes=2)
AT_BIRTH = birth(2, 1, faults=2, writes=2)
BROKEN_STEPS = [
    ("no check of the assignment", AT_REST),
    ("no check of the lease", AT_REST),
    ("lease from the reply", AT_REST),
    ("ack before release", AT_REST),
    ("leave before the gate is shut", AT_REST),
    ("version 0 unconditional", AT_BIRTH),
    ("write whatever stands", AT_BIRTH),
]


def gate_without_lease(view: View, slot: int, epoch: int, _now: float) -> bool:
    return epoch in (view.owned.get(slot), view.releasing.get(slot))


def view_with_what_was_released(assignment, member, _released, lease_until):
    return View(assignment.owned_by(member), assignment.releasing_by(member), lease_until)


def granted_before_the_ack(number, slot, snapshot, rules, rule=ownership._freed_by):
    return Event.ACKNOWLEDGED if slot.next else rule(number, slot, snapshot, rules)


def any_epoch_acked(number, slot, snapshot, rules, rule=ownership._freed_by):
    acked = slot.next and number in snapshot.acks.get(slot.owner, {})
    return Event.ACKNOWLEDGED if acked else rule(number, slot, snapshot, rules)


def same_epoch_again(slot, freed, target, rule=ownership._next_row):
    return rule(slot, freed, target)._replace(epoch=max(1, slot.epoch))


def checks_nothing(self, assignment, _checks, init=Decision.__init__):
    init(self, assignment, {})


BROKEN_RULES = {
    "no gate": (View, "open", gate_without_lease),
    "no wait": (Rules, "expiry", property(lambda _: 0.0)),
    "no drift in the wait": (Rules, "expiry", property(lambda rules: rules.lease)),
    "grant before the ack": (ownership, "_freed_by", granted_before_the_ack),
    "epochs stand still": (ownership, "_next_row", same_epoch_again),
    "a decision checks nothing": (Decision, "__init__", checks_nothing),
}


@pytest.mark.parametrize(("broken", "start"), BROKEN_STEPS, ids=name_of)
def test_without_a_rule_of_the_writes_a_violation_is_found(broken, start):
    print(way_to_violation(start, broken))  # noqa: T201 - the counterexample


@pytest.mark.parametrize("rule", BROKEN_RULES)
def test_without_a_rule_of_the_core_a_violation_is_found(rule, monkeypatch):
    start = settled(2, 1, faults=2, writes=4)
    monkeypatch.setattr(*BROKEN_RULES[rule])

    print(way_to_violation(start))  # noqa: T201 - the counterexample


def test_a_released_slot_that_stays_open_is_found(monkeypatch):
    monkeypatch.setattr("protocol_world.view_of", view_with_what_was_released)

    print(way_to_violation(AT_REST))  # noqa: T201 - the counterexample


def test_an_ack_of_an_older_epoch_that_counts_is_found(monkeypatch):
    owner = AT_REST.nodes[0].id
    monkeypatch.setattr(ownership, "_freed_by", any_epoch_acked)

    print(way_to_violation(AT_REST._replace(acks=put(AT_REST.acks, owner, ((0, 0),)))))  # noqa: T201


# A leader reads the leases, and is stopped. The sleeper wakes up and renews, another leader grants
# it a slot, its session ends. The first goes on: it knows an old version of a lease, no member of
# that name, and no slot that it owns.
A_LATE_SWEEP = [
    "leader 0 looks at assignment and leases",
    "time passes",
    "time passes",
    "1-0 renews",
    "another leads, with empty hands",
    "0-0 leaves",
    "leader 1 looks at assignment and leases",
    "leader 1 decides",
    "leader 1 writes",
    "1-0 reads the assignment, 0 behind",
    "1-0 gets its reply",
    "1-0 loses its session",
    "leader 0 decides",
    "leader 0 sweeps",
    "leader 0 looks at assignment and leases",
    "leader 0 decides",
]


def after_a_late_sweep(broken: str = "") -> State:
    state = settled(3, 1, faults=3, writes=2)
    for label in A_LATE_SWEEP:
        state = dict(steps(state, broken))[label]
    return state


def test_a_late_sweep_frees_no_slot():
    for state in explore(after_a_late_sweep(), depth=4):
        Recovery().check(state)


def test_a_late_sweep_that_checks_nothing_is_found():
    with pytest.raises(Violated, match="slot 0 is open to 1-0"):
        list(explore(after_a_late_sweep("sweep whatever stands"), "sweep whatever stands"))


def way_to_violation(start: State, broken: str = "") -> Violated:
    faults = ("drain", "election") if start is AT_BIRTH else QUIET
    with pytest.raises(Violated) as found:
        for _ in explore(start, broken, faults=faults):
            pass
    return found.value
