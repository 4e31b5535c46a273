"""A search through all states of a small cluster, and what must hold in each."""

from collections.abc import Collection, Iterator, Sequence

from protocol_leader import Step, lead
from protocol_states import State, birth, tidy
from protocol_world import (
    ALL,
    a_round,
    as_recovery_begins,
    faults_in,
    follow,
    forget_answers,
    open_to,
    steps,
)

from pyspider_zk.core.records import MemberId

ROUNDS = 16  # of everybody, within which a cluster without faults must serve all slots


class Violated(AssertionError):
    """A state that must not be, with the shortest way to it."""

    def __init__(self, fault: str, way: list[str]) -> None:
        lines = [f"{number:4} {step}" for number, step in enumerate(way, 1)]
        super().__init__("\n".join([fault, *lines]))
        self.steps = len(way)


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


def settled(members: int, slots: int, longer: Collection[int] = ()) -> State:
    """Return a cluster at rest: every slot is served, every lease was just renewed."""
    state = birth(members, slots, longer)
    for _ in range(4):
        state = a_round(state)
    return tidy(lead(follow(state)))


def fault_of(state: State) -> str | None:
    """Tell what is wrong: a gate open to two, or to one that is not the owner any more."""
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
    """Tell what is wrong with a write: an epoch grows by one with each grant, and only then."""
    if before.rows is after.rows:
        return None
    for slot, (old, new) in enumerate(zip(before.rows, after.rows, strict=True)):
        grown = new.epoch - old.epoch
        if grown not in (0, 1) or (old.owner != new.owner and not grown):
            return f"slot {slot}: {old} became {new}"
    return None


class Recovery:
    """Looks whether a cluster serves all slots again once no fault happens any more.

    Everybody takes their steps in turn, fairly. States on the way to a good end are remembered,
    so that the next one that comes by is known to be good.
    """

    def __init__(self) -> None:
        self._good: set[State] = set()
        self.rounds = 0

    def check(self, state: State) -> None:
        """Raise ``AssertionError`` if a slot stays without an open gate, or a drain has no end."""
        way, state = [], as_recovery_begins(state)
        while state not in self._good and not (is_served(state) and is_drained(state)):
            assert len(way) < ROUNDS, f"not served, or drained, after {ROUNDS} rounds: {state}"
            way.append(state)
            state = a_round(state)
        self.rounds = max(self.rounds, len(way))
        self._good.update(way)


def is_drained(state: State) -> bool:
    """Tell whether who drains has no slots left, or there is nobody who could take them."""
    draining = {member for member, drains in state.members if drains}
    if {node.id for node in state.nodes} <= draining:
        return True
    return not any(row.owner in draining for row in state.rows)


def is_served(state: State) -> bool:
    """Tell whether every slot has an open gate, or there is nobody who could have it."""
    drains = dict(state.members)
    if all(drains.get(node.id, False) for node in state.nodes):
        return True
    served = {slot for node in state.nodes for slot, _ in open_to(node)}
    return len(served) == len(state.rows)
