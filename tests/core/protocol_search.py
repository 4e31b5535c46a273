"""A search through all states of a small cluster, and what must hold in each."""

from collections.abc import Iterator, Sequence

from protocol_leader import lead
from protocol_states import State, birth
from protocol_world import ALL, a_round, follow, forget_answers, open_to, steps

from pyspider_zk.core.records import MemberId

ROUNDS = 16  # of everybody, within which a cluster without faults must serve all slots

Trail = tuple[str, "Trail"] | None


class Violated(AssertionError):
    """A state that must not be, with the shortest way to it."""

    def __init__(self, fault: str, trail: Trail) -> None:
        way = [f"{number:4} {step}" for number, step in enumerate(_way(trail), 1)]
        super().__init__("\n".join([fault, *way]))
        self.steps = len(way)


def _way(trail: Trail) -> list[str]:
    way: list[str] = []
    while trail is not None:
        step, trail = trail
        way.append(step)
    return way[::-1]


def explore(
    start: State, broken: str = "", depth: int = 99, faults: Sequence[str] = ALL
) -> Iterator[State]:
    """Yield every state that can be reached within so many steps, once, the nearest first.

    Raises:
        Violated: by a state or a step that breaks a rule.
    """
    forget_answers()
    seen, layer = {start}, [(start, None)]
    while layer and depth:
        depth -= 1
        coming: list[tuple[State, Trail]] = []
        for state, trail in layer:
            yield state
            for label, after in steps(state, broken, faults):
                if after not in seen:
                    seen.add(after)
                    way = (label, trail)
                    fault = fault_of(after) or fault_between(state, after)
                    if fault:
                        raise Violated(fault, way)
                    coming.append((after, way))
        layer = coming


def settled(members: int, slots: int, faults: int, writes: int) -> State:
    """Return a cluster at rest: every slot is served, every lease was just renewed."""
    state = birth(members, slots, 0, 0)
    for _ in range(4):
        state = a_round(state)
    return lead(follow(state))._replace(faults=faults, writes=writes)


def fault_of(state: State) -> str | None:
    """Tell what is wrong: a gate open to two, or to one that is not the owner any more."""
    holders: dict[int, MemberId] = {}
    for node in state.nodes:
        for slot, epoch in open_to(state, node):
            if slot in holders:
                return f"slot {slot} is open to {holders[slot]} and to {node.id}"
            holders[slot] = node.id
            row = state.tables[0][slot]
            if (row.owner, row.epoch) != (node.id, epoch):
                return f"slot {slot} is open to {node.id} at epoch {epoch}, its row is {row}"
    return None


def fault_between(before: State, after: State) -> str | None:
    """Tell what is wrong with a write: an epoch grows by one with each grant, and only then."""
    if before.tables[0] is after.tables[0]:
        return None
    for slot, (old, new) in enumerate(zip(before.tables[0], after.tables[0], strict=True)):
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
        """Raise ``AssertionError`` if some slot stays without an open gate."""
        way = []
        state = state._replace(faults=0, writes=0)
        while state not in self._good and not is_served(state):
            assert len(way) < ROUNDS, f"not served after {ROUNDS} rounds: {state}"
            way.append(state)
            state = a_round(state)._replace(writes=0)
        self.rounds = max(self.rounds, len(way))
        self._good.update(way)


def is_served(state: State) -> bool:
    """Tell whether every slot has an open gate, or there is nobody who could have it."""
    drains = dict(state.members)
    if all(drains.get(node.id, False) for node in state.nodes):
        return True
    served = {slot for node in state.nodes for slot, _ in open_to(state, node)}
    return len(served) == len(state.tables[0])
