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

from bisect import bisect_left, insort
from collections.abc import Collection, Mapping, Sequence
from heapq import heapify, heappop, heappush, heapreplace
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
    for group in (busy, empty):
        load = _load_of(group, target, members)
        _fill(group, target, load)
        moves -= _Shares(group, target, load, pinned).even_out(moves)
    return target


_Held = tuple[int, int]
"""Weight and number of a slot that may be taken from its owner."""


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

    def is_worth(self, slot: int, gap: int) -> bool:
        """Return whether a move to a member that is lighter by ``gap`` gains more than the rate.

        It shrinks the gap by twice the lesser of what is moved and what is then left of it.
        """
        return 2 * self.weights[slot] + self.rated.rates.get(slot, 0) < 2 * gap

    def best_of(self, held: Sequence[_Held], gap: int) -> tuple[int, int] | None:
        """Return what the best move to a member that is lighter by ``gap`` leaves of that, and it.

        A slot up to half the gap is always worth it, as its weight exceeds its rate. Of heavier
        ones a member has about a hundred at most: with more, the gap is within the tolerance.

        Args:
            held: to choose from, in order.
        """
        middle = bisect_left(held, (gap // 2 + 1, 0))
        best = None
        if middle:
            weight = held[middle - 1][0]
            best = gap - 2 * weight, held[bisect_left(held, (weight, 0))][1]
        for weight, slot in map(held.__getitem__, range(middle, len(held))):
            found = 2 * weight - gap, slot
            if weight >= gap or (best and best < found):
                break
            if self.is_worth(slot, gap):
                return found
        return best


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


def _load_of(
    group: _Group, target: Mapping[int, MemberId], members: Collection[MemberId]
) -> dict[MemberId, int]:
    """Return what each member carries of a group of slots."""
    load = dict.fromkeys(members, 0)
    for slot, weight in group.weights.items():
        if slot in target:
            load[target[slot]] += weight
    return load


def _fill(group: _Group, target: dict[int, MemberId], load: dict[MemberId, int]) -> None:
    """Give each slot without an owner to the lightest member, heaviest slot first."""
    takers = [(carried, member) for member, carried in load.items()]
    heapify(takers)
    weights = group.weights
    for slot in sorted(
        weights.keys() - target.keys(), key=lambda number: (-weights[number], number)
    ):
        carried, member = takers[0]
        target[slot] = member
        load[member] = carried + weights[slot]
        heapreplace(takers, (load[member], member))


class _Shares:
    """The members' shares of one group of slots, while these are moved in ``target``.

    A move costs about the same however many slots there are: the leader decides on the thread that
    renews its own lease, and may move as many at once as there are slots.

    A member stands in a heap with each load that it has had there; only the current one counts. It
    is dropped from the givers when it has nothing for such takers. That stays so until its load
    changes, for the lightest member never gets lighter.
    """

    def __init__(
        self,
        group: _Group,
        target: dict[int, MemberId],
        load: dict[MemberId, int],
        pinned: Collection[int],
    ) -> None:
        self._group = group
        self._target = target
        self._load = load
        self._takers: list[tuple[int, MemberId]] = []
        self._givers: tuple[list[tuple[int, MemberId]], ...] = ([], [])  # to any, to settled ones
        self._held: dict[MemberId, tuple[list[_Held], list[_Held]]]  # not moved since, and moved
        self._held = {member: ([], []) for member in load}
        for member in load:
            self._rank(member)
        for weight, slot in sorted((weight, slot) for slot, weight in group.weights.items()):
            if slot not in pinned:
                self._kin(slot, target[slot]).append((weight, slot))

    def even_out(self, moves: int) -> int:
        """Move slots between members; return how many."""
        allowed = max(1.0, self._group.tolerance / len(self._load))
        for done in range(moves):
            move = self._best_move(allowed)
            if move is None:
                return done
            self._carry_out(*move)
        return moves

    def _kin(self, slot: int, member: MemberId) -> list[_Held]:
        """Return the slots of a member that may be given to the same takers as a slot."""
        return self._held[member][slot in self._group.rated.moved]

    def _rank(self, member: MemberId) -> None:
        heappush(self._takers, (self._load[member], member))
        for givers in self._givers:
            heappush(givers, (-self._load[member], member))

    def _lightest(self) -> MemberId:
        while self._takers[0][0] != self._load[self._takers[0][1]]:
            heappop(self._takers)
        return self._takers[0][1]

    def _best_move(self, allowed: float) -> tuple[int, MemberId] | None:
        """Return slot and taker of the best move, from the heaviest giver that has one."""
        taker = self._lightest()
        is_settled = taker in self._group.rated.settled
        givers = self._givers[is_settled]
        while givers:
            load, giver = -givers[0][0], givers[0][1]
            if load == self._load[giver]:
                gap = load - self._load[taker]
                if gap <= allowed:
                    return None
                held = self._held[giver][:1] if is_settled else self._held[giver]
                found = [best for each in held if (best := self._group.best_of(each, gap))]
                if found:
                    return min(found)[1], taker
            heappop(givers)
        return None

    def _carry_out(self, slot: int, taker: MemberId) -> None:
        giver, weight = self._target[slot], self._group.weights[slot]
        held = self._kin(slot, giver)
        del held[bisect_left(held, (weight, slot))]
        insort(self._kin(slot, taker), (weight, slot))
        self._target[slot] = taker
        self._load[giver] -= weight
        self._load[taker] += weight
        self._rank(giver)
        self._rank(taker)
