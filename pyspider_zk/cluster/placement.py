"""Placement of slots on members: sticky and weighted.

A slot weighs one unit for each active project and one for each task per second. What can stay
stays. Slots without an owner go to the lightest member, heaviest slot first. Then slots move from
heavy to light members as long as a move evens out the load by more than the tolerance, and by more
than the slot's own rate: a move pauses it for a moment. Slots without projects have no weight;
their number is evened out separately, so that moving them never costs a busy slot its owner. A
pinned slot counts as load where it is, and stays there.

At rest the heaviest member therefore exceeds the lightest by no more than the tolerance, or by no
more than one and a half times the lightest slot that could be taken from it.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from pyspider_zk.groups.ids import MemberId

TOLERANCE = 0.02  # of a member's mean share; below it a move costs more than it gains
RATE_TOLERANCE = 0.1  # what is measured is less certain, and changes by itself
EMPTY_TOLERANCE = 0.05  # empty slots come and go with every project that starts or stops


class Rated(NamedTuple):
    """What was measured.

    Attributes:
        rates: tasks per second of the busy slots.
        moved: slots that were moved since these were looked at.
        settled: members that had slots all that time; none of them is given what was moved.
    """

    rates: Mapping[int, int] = MappingProxyType({})
    moved: Collection[int] = frozenset()
    settled: Collection[MemberId] = frozenset()


UNRATED = Rated()


def place(
    owners: Mapping[int, MemberId | None],
    members: Collection[MemberId],
    projects: Mapping[int, int],
    moves: int,
    pins: Mapping[int, int] = MappingProxyType({}),
    rated: Rated = UNRATED,
) -> dict[int, MemberId]:
    """Return the owner that each slot should have.

    Args:
        owners: the current owner of each slot; one that is not a member counts as none.
        members: who may own slots; at least one.
        projects: active projects of the slots that have any.
        moves: how many slots may be taken from their current owners at once.
        pins: numbers of the members that shall have certain slots; while one is no member, or no
            move is left, its slots are where they would be anyway.
        rated: what was measured; rates of slots without projects do not count.

    Raises:
        ValueError: there is no member.
    """
    if not members:
        raise ValueError("slots cannot be placed without members")
    target = {slot: owner for slot, owner in owners.items() if owner and owner in members}
    pinned = _pinned(owners, members, pins)
    moves -= _follow_pins(target, pinned, moves)
    busy = _busy(owners, projects, rated)
    free = dict.fromkeys((slot for slot in owners if slot not in busy.weights), 1)
    empty = _Group(free, UNRATED, EMPTY_TOLERANCE * len(free))
    moves -= _Shares(busy, target, members, pinned).even_out(moves)
    _Shares(empty, target, members, pinned).even_out(moves)
    return target


class _Group(NamedTuple):
    """Slots that are evened out together.

    Attributes:
        weights: of all of them, by slot.
        rated: what of these was measured.
        tolerance: the imbalance that is left as it is, in weight, of all members together.
    """

    weights: Mapping[int, int]
    rated: Rated
    tolerance: float

    def may_get(self, taker: MemberId, slot: int) -> bool:
        """Return whether a member may be given a slot so soon."""
        return slot not in self.rated.moved or taker not in self.rated.settled

    def is_worth(self, slot: int, gap: int) -> bool:
        """Return whether a move to a member that is lighter by ``gap`` gains more than the rate.

        It shrinks the gap by twice the lesser of what is moved and what is then left of it.
        """
        return 2 * self.weights[slot] + self.rated.rates.get(slot, 0) < 2 * gap


def _busy(slots: Collection[int], projects: Mapping[int, int], rated: Rated) -> _Group:
    """Return the slots that have projects."""
    counts = {slot: projects[slot] for slot in slots if projects.get(slot)}
    weights = {slot: count + rated.rates.get(slot, 0) for slot, count in counts.items()}
    projects_of_all, total = sum(counts.values()), sum(weights.values())
    tolerance = TOLERANCE * projects_of_all + RATE_TOLERANCE * (total - projects_of_all)
    return _Group(weights, rated, tolerance)


def _pinned(
    owners: Collection[int], members: Collection[MemberId], pins: Mapping[int, int]
) -> dict[int, MemberId]:
    """Return the pins that can be followed: the slot is to be placed, and its member is there."""
    by_number = {member.number: member for member in sorted(members)}
    return {
        slot: by_number[number]
        for slot, number in sorted(pins.items())
        if slot in owners and number in by_number
    }


def _follow_pins(target: dict[int, MemberId], pinned: Mapping[int, MemberId], moves: int) -> int:
    """Place slots where they are pinned; return how many were taken from an owner."""
    taken = 0
    for slot, member in pinned.items():
        is_move = target.get(slot, member) != member
        if is_move and taken >= moves:
            continue
        target[slot] = member
        taken += is_move
    return taken


class _Shares:
    """The members' shares of one group of slots, while these are placed in ``target``."""

    def __init__(
        self,
        group: _Group,
        target: dict[int, MemberId],
        members: Collection[MemberId],
        pinned: Collection[int],
    ) -> None:
        self._group = group
        self._target = target
        self._load = dict.fromkeys(sorted(members), 0)
        self._held: dict[MemberId, set[int]] = defaultdict(set)
        for slot in group.weights:
            if slot in target:
                self._give(slot, target[slot], is_free=slot not in pinned)

    def even_out(self, moves: int) -> int:
        """Place all slots; return how many were taken from an owner."""
        for slot in self._heaviest_first(set(self._group.weights) - self._target.keys()):
            self._give(slot, self._lightest())
        allowed = max(1.0, self._group.tolerance / len(self._load))
        for done in range(moves):
            move = self._best_move(allowed)
            if move is None:
                return done
            slot, taker = move
            self._take(slot)
            self._give(slot, taker)
        return max(moves, 0)

    def _heaviest_first(self, slots: Iterable[int]) -> list[int]:
        return sorted(slots, key=lambda slot: (-self._group.weights[slot], slot))

    def _lightest(self) -> MemberId:
        return min(self._load, key=lambda member: self._load[member])

    def _give(self, slot: int, member: MemberId, *, is_free: bool = True) -> None:
        self._target[slot] = member
        self._load[member] += self._group.weights[slot]
        if is_free:
            self._held[member].add(slot)

    def _take(self, slot: int) -> None:
        member = self._target[slot]
        self._load[member] -= self._group.weights[slot]
        self._held[member].remove(slot)

    def _best_move(self, allowed: float) -> tuple[int, MemberId] | None:
        """Return slot and taker of the best move, from the heaviest giver that has one."""
        group, taker = self._group, self._lightest()
        for giver in sorted(self._load, key=lambda member: -self._load[member]):
            gap = self._load[giver] - self._load[taker]
            if gap <= allowed:
                return None
            held = (slot for slot in self._held.get(giver, ()) if group.may_get(taker, slot))
            fitting = [slot for slot in held if group.is_worth(slot, gap)]
            if fitting:
                best = min(fitting, key=lambda slot: (abs(gap - 2 * group.weights[slot]), slot))
                return best, taker
        return None
