"""All states of small clusters over the real rules: nothing overlaps, and each rule is needed."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspider_zk.cluster import rules, transactions
from pyspider_zk.cluster.records import Load, Trigger
from pyspider_zk.cluster.rules import Decision, Liveness, Rules, Stamp, View, observe
from pyspider_zk.groups.ids import MemberId
from pyspider_zk.zookeeper.steps import ANY_VERSION, Check, Delete, Step, Write
from tests.cluster.protocol_search import Search, recovery, settled
from tests.cluster.protocol_states import OLD_ACKS, OLD_ROWS, RULES, State, birth, tidy
from tests.cluster.protocol_world import ALL, RESTARTS, SLOW, faults_in, steps
from tests.cluster.protocol_zookeeper import TREE
from tests.support.exploration import Violated

TO_THE_END = 999  # steps: such a search comes to an end by itself, with any number of writes
AT_HOME = ("crash", "leave", "drain")
LOSSES = ("crash", "expiry")
IN_PLACE = ("election", *AT_HOME)
TWO, TWO_BY_TWO, IN_LINE = settled(2, 1), settled(2, 2), settled(2, 1, in_line=True)
UNEQUAL = {owner: settled(2, 1, longer=[owner]) for owner in (0, 1)}  # 0 or 1 has a longer lease


def after(state: State, *labels: str, broken: str = "") -> State:
    """Return what these steps and faults lead to."""
    for label in labels:
        ways = {**dict(steps(state, broken)), **dict(faults_in(state, broken))}
        state = tidy(ways[label], broken)
    return state


# A leader was stopped after it looked, and another leads by now.
STOPPED_LEADER = after(
    TWO,
    "time passes",
    "time passes",
    "leader 0 looks at assignment and leases",
    "another leads",
)

# What is explored, with how many faults of which kinds, for how many steps after each, and how many
# states that is at least: a search that finds fewer is broken.
SMALL = [
    ("two are born, two slots", birth(2, 2), 0, (), TO_THE_END, 3_100),
    ("one is born, two may join", birth(1, 1), 2, ("join", "crash"), TO_THE_END, 12_000),
    ("two at rest, one slot, any one fault", TWO, 1, ALL, TO_THE_END, 15_000),
    ("two at rest, two slots, one of three faults", TWO_BY_TWO, 1, AT_HOME, TO_THE_END, 24_000),
    ("the owner has a longer lease, one fault", UNEQUAL[0], 1, AT_HOME, TO_THE_END, 4_000),
    ("the other has a longer lease, one fault", UNEQUAL[1], 1, AT_HOME, TO_THE_END, 4_000),
    ("a leader was stopped, one of three faults", STOPPED_LEADER, 1, AT_HOME, TO_THE_END, 5_600),
    ("two at rest, one slot, a restart", TWO, 1, RESTARTS, TO_THE_END, 67_000),
    ("two at rest, two slots, a restart", TWO_BY_TWO, 1, ("restart",), TO_THE_END, 45_000),
    ("three at rest, any one fault", settled(3, 2), 1, ALL, 4, 24_000),
    ("two in line to lead, one slot", IN_LINE, 0, (), TO_THE_END, 4_700),
]
LARGE = [
    ("a leader was stopped, any one fault", STOPPED_LEADER, 1, ALL, TO_THE_END, 31_000),
    ("two at rest, no joining, no lost session", TWO_BY_TWO, 1, IN_PLACE, TO_THE_END, 47_000),
    ("two at rest, a lost session", TWO_BY_TWO, 1, ("expiry",), TO_THE_END, 82_000),
    ("two at rest, one slot, two faults", TWO, 2, ("expiry", "election"), TO_THE_END, 116_000),
    ("two at rest, two of three faults", TWO_BY_TWO, 2, AT_HOME, TO_THE_END, 67_000),
    ("three at rest, two faults", settled(3, 2), 2, ALL, 2, 88_000),
    ("two in line, one slot, one fault", IN_LINE, 1, LOSSES, TO_THE_END, 798_000),
    ("two in line, two slots", settled(2, 2, in_line=True), 0, (), TO_THE_END, 64_000),
]


def name_of(item: object) -> str:
    return item if isinstance(item, str) else ""


def look_at_all(start: State, faults: int, kinds: tuple, depth: int, at_least: int) -> str:
    recovering, count = recovery(), 0
    for state in Search(start, kinds=kinds).visit(faults, depth):
        recovering.check(state)
        count += 1
    assert count >= at_least
    return f"{count} states, each served again within {recovering.rounds} rounds of everybody"


FIELDS = ("name", "start", "faults", "kinds", "depth", "at_least")


@pytest.mark.parametrize(FIELDS, SMALL, ids=name_of)
def test_in_no_state_ownership_overlaps_and_all_recover(
    name, start, faults, kinds, depth, at_least, capsys
):
    found = look_at_all(start, faults, kinds, depth, at_least)

    with capsys.disabled():
        print(f"\n{name}: {found}")  # noqa: T201 - the figure


@pytest.mark.soak
@pytest.mark.parametrize(FIELDS, LARGE, ids=name_of)
def test_in_no_state_of_a_larger_search(name, start, faults, kinds, depth, at_least, capsys):
    found = look_at_all(start, faults, kinds, depth, at_least)

    with capsys.disabled():
        print(f"\n{name}: {found}")  # noqa: T201 - the figure


# --- what the search takes for granted ----------------------------------------------------------


@pytest.mark.parametrize("kinds", [("crash",), ("leave",)])
def test_replies_that_take_their_time_change_no_verdict(kinds):
    """Nor do they where a rule is left out: those of the core are, below, both ways."""
    for _ in Search(TWO, SLOW[0], kinds).visit(faults=1):
        pass


def test_older_acks_change_no_verdict():
    for _ in Search(TWO_BY_TWO, OLD_ACKS).visit():
        pass


@given(st.lists(st.tuples(st.booleans(), st.floats(0.0, 9.0))))
def test_a_stamp_is_of_the_version_read_and_no_older_than_it(events):
    member, made, version, now, stamps = MemberId(0, "0"), 0.0, 0, 0.0, {}
    for renews, pause in events:
        now += pause
        if renews:
            version, made = version + 1, now
        else:
            stamps = observe(stamps, {member: version}, now, {member: 5.0})
            assert stamps[member].version == version
            assert stamps[member].first_seen >= made


# --- each rule is needed: without it the search finds a way to a violation ----------------------

BROKEN_ORDERS = [
    ("lease from the reply", TWO, 0, ()),
    ("ack before release", TWO, 1, ("drain",)),
    ("leave before the fence is shut", TWO, 1, ("leave",)),
    ("leave before the fence is shut", TWO, 1, ("restart",)),
]


def unchecked(parent: str) -> Callable[[Step], Step | None]:
    """Return what leaves the check of such a znode out."""
    return lambda step: None if isinstance(step, Check) and step.path.startswith(parent) else step


def undeleted(parent: str) -> Callable[[Step], Step | None]:
    """Return what leaves the deletion of such a znode out."""
    return lambda step: None if isinstance(step, Delete) and step.path.startswith(parent) else step


def of_any_version(step: Step) -> Step:
    return replace(step, version=ANY_VERSION) if isinstance(step, Write | Delete) else step


def of_any_version_at_0(step: Step) -> Step:
    return of_any_version(step) if isinstance(step, Write) and not step.version else step


def of_the_usual_length(step: Step) -> Step:
    is_lease = isinstance(step, Write) and step.path.startswith(TREE.leases)
    return replace(step, data=Load(lease=RULES.lease).encode()) if is_lease else step


# which function, what of its steps is changed, where it shows, with which faults
BROKEN_TRANSACTIONS = {
    "renew by any assignment": (
        *("renew_steps", unchecked(TREE.assignment)),
        *(TWO, 1, AT_HOME, OLD_ROWS),
    ),
    "assign though a lease was renewed": (
        *("assign_steps", unchecked(TREE.leases)),
        *(TWO, 0, (), ""),
    ),
    "assign over version 0": (
        *("assign_steps", of_any_version_at_0),
        *(birth(2, 1), 2, ("drain", "election"), ""),
    ),
    "assign over any version": (
        *("assign_steps", of_any_version),
        *(birth(2, 1), 2, ("drain", "election"), ""),
    ),
    "assign after being deposed": (
        *("assign_steps", unchecked(TREE.election)),
        *(IN_LINE, 0, (), ""),
    ),
    "depose though a lease was renewed": (
        *("depose_steps", unchecked(TREE.leases)),
        *(IN_LINE, 0, (), ""),
    ),
    "sweep a lease that was renewed": (
        *("sweep_moves", of_any_version),
        *(STOPPED_LEADER, 1, ("expiry",), ""),
    ),
}

# which function, what of its steps is left out, with which faults, what it comes to
NEVER_WHOLE = {
    "renew though not registered": (
        *("renew_steps", unchecked(TREE.members)),
        *(("expiry",), "who runs is not registered"),
    ),
    "leave without taking the acks along": (
        *("leave_steps", undeleted(TREE.acks)),
        *(("leave",), "something of the gone is left"),
    ),
    "sweep without the lease": (
        *("sweep_moves", undeleted(TREE.leases)),
        *(("crash",), "something of the gone is left"),
    ),
}


def fence_without_lease(view: View, slot: int, epoch: int, _now: float) -> bool:
    return epoch in (view.owned.get(slot), view.releasing.get(slot))


def view_with_what_was_released(assignment, member, _released, lease_until):
    return View(assignment.owned_by(member), assignment.releasing_by(member), lease_until)


def granted_before_the_ack(number, slot, snapshot, rules, rule=rules._freed_by):
    return Trigger.ACKNOWLEDGED if slot.next else rule(number, slot, snapshot, rules)


def any_epoch_acked(number, slot, snapshot, rules, rule=rules._freed_by):
    acked = slot.next and number in snapshot.acks.get(slot.owner, {})
    return Trigger.ACKNOWLEDGED if acked else rule(number, slot, snapshot, rules)


def same_epoch_again(slot, freed, target, rule=rules._next_row):
    return rule(slot, freed, target)._replace(epoch=max(1, slot.epoch))


def age_of_any_version(stamps, versions, now, told):
    return {
        member: Stamp(version, stamps[member].first_seen if member in stamps else now, told[member])
        for member, version in versions.items()
    }


def checks_nothing(self, assignment, _checks, init=Decision.__init__):
    init(self, assignment, {})


BROKEN_RULES = {
    "no fence": (View, "open", fence_without_lease),
    "no wait": (Rules, "expiry", property(lambda _: 0.0)),
    "no drift in the wait": (Rules, "expiry", property(lambda rules: rules.lease)),
    "grant before the ack": (rules, "_freed_by", granted_before_the_ack),
    "epochs stand still": (rules, "_next_row", same_epoch_again),
    "the age of any version": ("tests.cluster.protocol_leader.observe", age_of_any_version),
    "a decision checks nothing": (Decision, "__init__", checks_nothing),
}


@pytest.mark.parametrize(("broken", "start", "faults", "kinds"), BROKEN_ORDERS, ids=name_of)
def test_in_another_order_a_violation_is_found(broken, start, faults, kinds):
    print(way_to_violation(start, broken, faults, kinds))  # noqa: T201 - the counterexample


@pytest.mark.parametrize("fault", BROKEN_TRANSACTIONS)
def test_without_a_part_of_a_transaction_a_violation_is_found(fault, monkeypatch):
    function, spoil, start, faults, kinds, broken = BROKEN_TRANSACTIONS[fault]
    spoil_transaction(monkeypatch, function, spoil)

    print(way_to_violation(start, broken, faults, kinds))  # noqa: T201 - the counterexample


@pytest.mark.parametrize("fault", NEVER_WHOLE)
def test_without_a_part_of_a_transaction_a_cluster_is_never_whole_again(fault, monkeypatch):
    function, spoil, kinds, reason = NEVER_WHOLE[fault]
    spoil_transaction(monkeypatch, function, spoil)

    with pytest.raises(AssertionError, match=reason):
        look_at_all(TWO, 1, kinds, TO_THE_END, 0)


def spoil_transaction(monkeypatch, function: str, spoil: Callable[[Step], Step | None]) -> None:
    """Let a function of the product return steps that are not quite right."""
    right = getattr(transactions, function)

    def spoilt(*args):
        found = right(*args)
        is_one = not found or not isinstance(found[0], list)
        return spoilt_steps(found) if is_one else list(map(spoilt_steps, found))

    def spoilt_steps(steps):
        return [changed for step in steps if (changed := spoil(step)) is not None]

    monkeypatch.setattr(transactions, function, spoilt)


@pytest.mark.soak
def test_without_the_check_of_the_sweep_a_violation_is_found_from_rest(monkeypatch):
    spoil_transaction(monkeypatch, "sweep_moves", of_any_version)

    print(way_to_violation(TWO, "", 2, ("expiry", "election")))  # noqa: T201


@pytest.mark.parametrize("reply", ["", SLOW[0]])
@pytest.mark.parametrize("rule", BROKEN_RULES)
def test_without_a_rule_of_the_core_a_violation_is_found(rule, reply, monkeypatch):
    monkeypatch.setattr(*BROKEN_RULES[rule])

    print(way_to_violation(TWO, reply, 1, AT_HOME))  # noqa: T201 - the counterexample


def test_a_released_slot_that_stays_open_is_found(monkeypatch):
    monkeypatch.setattr("tests.cluster.protocol_world.view_of", view_with_what_was_released)

    print(way_to_violation(TWO, "", 1, ("drain",)))  # noqa: T201 - the counterexample


def test_an_ack_of_an_older_epoch_that_counts_is_found(monkeypatch):
    monkeypatch.setattr(rules, "_freed_by", any_epoch_acked)

    print(way_to_violation(TWO_BY_TWO, OLD_ACKS, 0, ()))  # noqa: T201 - the counterexample


@pytest.mark.parametrize("owner", UNEQUAL)
def test_a_lease_that_tells_another_length_is_found(owner, monkeypatch):
    spoil_transaction(monkeypatch, "renew_steps", of_the_usual_length)

    print(way_to_violation(UNEQUAL[owner], "", 1, AT_HOME))  # noqa: T201 - the counterexample


def back_though_it_never_left(snapshot, member):
    return any(one.number == member.number for one in snapshot.members if one != member)


def test_slots_that_go_to_a_number_whose_holder_did_not_leave_are_found(monkeypatch):
    monkeypatch.setattr(rules.Snapshot, "is_back", back_though_it_never_left)

    print(way_to_violation(TWO, "", 1, ("twin",)))  # noqa: T201 - the counterexample


def draining_members_too(snapshot, rules):
    return {
        member for member in snapshot.members if snapshot.standing(member, rules) is Liveness.ALIVE
    }


def test_a_drain_that_never_ends_is_found(monkeypatch):
    monkeypatch.setattr(rules, "eligible", draining_members_too)
    with pytest.raises(AssertionError, match="who drains"):
        look_at_all(TWO, 1, ("drain",), TO_THE_END, 1)


def way_to_violation(start: State, broken: str, faults: int, kinds: tuple) -> Violated:
    with pytest.raises(Violated) as found:
        for _ in Search(start, broken, kinds).visit(faults):
            pass
    return found.value
