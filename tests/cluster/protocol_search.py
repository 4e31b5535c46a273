"""A search through all states of a small cluster, and what must hold in each."""

from collections.abc import Collection, Iterator, Sequence

from pyspider_zk.groups.ids import MemberId
from tests.cluster.protocol_leader import Step, lead
from tests.cluster.protocol_states import Leader, Rows, State, birth, tidy
from tests.cluster.protocol_world import (
    ALL,
    a_round,
    as_recovery_begins,
    faults_in,
    follow,
    forget_answers,
    is_registered,
    open_to,
    steps,
)
from tests.support.exploration import Recovery, Violated

ROUNDS = 16  # of everybody, within which a cluster without faults must serve all slots


class Search:
    """Visits every state that can be reached, once: with the fewest faults, the nearest first.

    Attributes:
        start: where it begins.
        broken: the rule to leave out.
        kinds: what faults may happen.
    """

    def __init__(self, start: State, broken: str = "", kinds: Sequence[str] = ALL) -> None:
        self.start, self.broken, self.kinds = tidy(start), broken, kinds
        self._came: dict[State, tuple[State, str] | None] = {self.start: None}

    def visit(self, faults: int = 0, depth: int = 999) -> Iterator[State]:
        """Yield the states within so many faults and, after each of them, so many steps.

        Raises:
            Violated: by a state or a step that breaks a rule.
        """
        forget_answers()
        begun = [self.start]
        for left in range(faults, -1, -1):
            reached = []
            for state in self._spread(begun, depth):
                yield state
                reached.append(state)
            begun = list(self._suffer(reached)) if left else []

    def _spread(self, layer: list[State], depth: int) -> Iterator[State]:
        while layer:
            yield from layer
            layer = list(self._beyond(layer)) if depth else []
            depth -= 1

    def _beyond(self, layer: list[State]) -> Iterator[State]:
        for state in layer:
            yield from self._new(state, steps(state, self.broken))

    def _suffer(self, reached: list[State]) -> Iterator[State]:
        for state in reached:
            yield from self._new(state, faults_in(state, self.broken, self.kinds))

    def _new(self, state: State, ways: Iterator[Step]) -> Iterator[State]:
        for label, raw in ways:
            after = raw if _is_tidy(state, raw) else tidy(raw, self.broken)
            if after in self._came and after is raw:
                continue
            fault = fault_of(raw) or fault_between(state, raw)
            if fault:
                raise Violated(fault, [*self._way(state), label])
            if after not in self._came:
                self._came[after] = state, label
                yield after

    def _way(self, state: State) -> list[str]:
        way = []
        while (came := self._came[state]) is not None:
            state, label = came
            way.append(label)
        return way[::-1]


def _is_tidy(before: State, after: State) -> bool:
    """Tell, quickly, that a step touched nothing that could be forgotten."""
    return after.nodes is before.nodes and after.acks is before.acks and after.rows is before.rows


def settled(members: int, slots: int, longer: Collection[int] = (), in_line: bool = False) -> State:
    """Return a cluster at rest: every slot is served, every lease was just renewed."""
    state = birth(members, slots, longer, in_line)
    for _ in range(4):
        state = a_round(state)
    return tidy(lead(follow(state)))


def fault_of(state: State) -> str | None:
    """Tell what is wrong: a fence open to two, or to one that is not the owner any more."""
    holders: dict[int, MemberId] = {}
    for node in state.nodes:
        for slot, epoch in open_to(node):
            if slot in holders:
                return f"slot {slot} is open to {holders[slot]} and to {node.id}"
            holders[slot] = node.id
            row = state.rows[slot]
            if (row.owner, row.epoch) != (node.id, epoch):
                return f"slot {slot} is open to {node.id} at epoch {epoch}, its row is {row}"
    return None


def fault_between(before: State, after: State) -> str | None:
    """Tell what is wrong with a step."""
    return fault_of_table(before, after) or fault_of_line(before, after)


def fault_of_line(before: State, after: State) -> str | None:
    """Tell of one who was deposed and writes, or whose lease held when it was deposed."""
    if before.line is None or after.line is None:
        return None
    if before.rows is not after.rows:
        writers = [who.member for who in before.leaders if _wanted(who) == after.rows]
        if not set(writers) & set(before.line):
            return f"{writers} were deposed, and the assignment is written by one of them"
    sessions = dict(after.members)
    for node in after.nodes:
        was_deposed = node.id in before.line and node.id not in after.line and node.id in sessions
        if was_deposed and node.lease:
            return f"{node.id} is deposed while its lease holds"
    return None


def _wanted(leader: Leader) -> Rows | None:
    return leader.decided and leader.decided.rows


def fault_of_table(before: State, after: State) -> str | None:
    """Tell what is wrong with a write: an epoch grows by one with each grant, and only then."""
    if before.rows is after.rows:
        return None
    for slot, (old, new) in enumerate(zip(before.rows, after.rows, strict=True)):
        grown = new.epoch - old.epoch
        if grown not in (0, 1) or (old.owner != new.owner and not grown):
            return f"slot {slot}: {old} became {new}"
    return None


def recovery() -> Recovery[State]:
    """Look whether a cluster is whole again once no fault happens any more."""
    return Recovery(as_recovery_begins, a_round, what_is_left_to_do, ROUNDS)


def what_is_left_to_do(state: State) -> str | None:
    """Tell what keeps a cluster from being whole."""
    if not is_served(state):
        return "a slot is not served"
    if not is_drained(state):
        return "who drains has slots"
    if not all(is_registered(state, node) for node in state.nodes):
        return "who runs is not registered"
    if state.nodes and not set(dict((*state.leases, *state.acks))) <= needed(state):
        return "something of the gone is left"
    if state.line is not None and set(state.line) != {node.id for node in state.nodes}:
        return "who runs does not stand for election"
    return None


def needed(state: State) -> set[MemberId]:
    """Return whose leases and acks must stay: of those who run, and of owners till others take."""
    return {node.id for node in state.nodes} | {row.owner for row in state.rows if row.owner}


def is_drained(state: State) -> bool:
    """Return whether who drains has no slots left, or there is nobody who could take them."""
    draining = {member for member, drains in state.members if drains}
    if {node.id for node in state.nodes} <= draining:
        return True
    return not any(row.owner in draining for row in state.rows)


def is_served(state: State) -> bool:
    """Return whether every slot has an open fence, or there is nobody who could have it."""
    drains = dict(state.members)
    if all(drains.get(node.id, False) for node in state.nodes):
        return True
    served = {slot for node in state.nodes for slot, _ in open_to(node)}
    return len(served) == len(state.rows)
