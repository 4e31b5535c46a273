"""Placement of slots on members: sticky and weighted.

What can stay stays. Slots without an owner go to the lightest member, heaviest slot first. Then
slots move from heavy to light members as long as a move evens out the load by more than the
tolerance. Slots without projects have no weight; their number is evened out separately, so that
moving them never costs a busy slot its owner. A pinned slot counts as load where it is, and
stays there.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType

from pyspider_zk.groups.ids import MemberId

TOLERANCE = 0.02  # of the mean load; below it a move costs more than it gains
EMPTY_TOLERANCE = 0.05  # empty slots come and go with every project that starts or stops


def place(
    owners: Mapping[int, MemberId | None],
    members: Collection[MemberId],
    weights: Mapping[int, int],
    moves: int,
    pins: Mapping[int, int] = MappingProxyType({}),
) -> dict[int, MemberId]:
    """Return the owner that each slot should have.

    Args:
        owners: the current owner of each slot; one that is not a member counts as none.
        members: who may own slots; at least one.
        weights: active projects of the slots that have any.
        moves: how many slots may be taken from their current owners at once.
        pins: numbers of the members that shall have certain slots; while one is no member, or no
            move is left, its slots are where they would be anyway.

    Raises:
        ValueError: there is no member.
    """
    if not members:
        raise ValueError("slots cannot be placed without members")
    target = {slot: owner for slot, owner in owners.items() if owner and owner in members}
    pinned = _pinned(owners, members, pins)
    moves -= _follow_pins(target, pinned, moves)
    busy = {slot: weights[slot] for slot in owners if weights.get(slot)}
    empty = dict.fromkeys((slot for slot in owners if slot not in busy), 1)
    moves -= _even_out(target, members, busy, TOLERANCE, moves, pinned)
    _even_out(target, members, empty, EMPTY_TOLERANCE, moves, pinned)
    return target


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


def _even_out(
    target: dict[int, MemberId],
    members: Collection[MemberId],
    weights: Mapping[int, int],
    tolerance: float,
    moves: int,
    pinned: Collection[int],
) -> int:
    """Place one group of slots in ``target``; return how many were taken from an owner."""
    load = dict.fromkeys(sorted(members), 0)
    held: dict[MemberId, set[int]] = defaultdict(set)
    for slot, weight in weights.items():
        owner = target.get(slot)
        if owner is not None:
            load[owner] += weight
            if slot not in pinned:
                held[owner].add(slot)
    for slot in _heaviest_first((slot for slot in weights if slot not in target), weights):
        _give(slot, min(load, key=lambda member: load[member]), target, load, held, weights)
    allowed = max(1.0, tolerance * sum(load.values()) / len(load))
    for done in range(moves):
        move = _best_move(load, held, weights, allowed)
        if move is None:
            return done
        slot, giver, taker = move
        load[giver] -= weights[slot]
        held[giver].remove(slot)
        _give(slot, taker, target, load, held, weights)
    return max(moves, 0)


def _heaviest_first(slots: Iterable[int], weights: Mapping[int, int]) -> list[int]:
    return sorted(slots, key=lambda slot: (-weights[slot], slot))


def _give(
    slot: int,
    member: MemberId,
    target: dict[int, MemberId],
    load: dict[MemberId, int],
    held: dict[MemberId, set[int]],
    weights: Mapping[int, int],
) -> None:
    target[slot] = member
    load[member] += weights[slot]
    held[member].add(slot)


def _best_move(
    load: Mapping[MemberId, int],
    held: Mapping[MemberId, set[int]],
    weights: Mapping[int, int],
    allowed: float,
) -> tuple[int, MemberId, MemberId] | None:
    """Return slot, giver and taker of the best move, from the heaviest giver that has one."""
    taker = min(load, key=lambda member: load[member])
    for giver in sorted(load, key=lambda member: -load[member]):
        gap = load[giver] - load[taker]
        if gap <= allowed:
            return None
        fitting = [slot for slot in held.get(giver, ()) if weights[slot] < gap]
        if fitting:
            best = min(fitting, key=lambda slot: (abs(gap - 2 * weights[slot]), slot))
            return best, giver, taker
    return None
