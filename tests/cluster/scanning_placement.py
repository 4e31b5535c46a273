"""Placement that looks at all slots and members for each step: slow, and plain to see through."""

from collections.abc import Collection, Mapping

from pyspider_zk.cluster.placement import (
    EMPTY_TOLERANCE,
    RATE_TOLERANCE,
    TOLERANCE,
    UNRATED,
    Rated,
)
from pyspider_zk.groups.ids import MemberId


def place_by_scanning(
    owners: Mapping[int, MemberId | None],
    members: Collection[MemberId],
    projects: Mapping[int, int],
    moves: int,
    pins: Mapping[int, int],
    rated: Rated,
) -> dict[int, MemberId]:
    """Return the owner that each slot should have; see ``placement.place``."""
    target = {slot: owner for slot, owner in owners.items() if owner and owner in members}
    by_number = {member.number: member for member in members}
    pinned = {slot for slot, to in pins.items() if slot in owners and to in by_number}
    for slot in sorted(pinned):
        member = by_number[pins[slot]]
        is_move = target.get(slot, member) != member
        if not is_move or moves:
            target[slot] = member
            moves -= is_move
    counts = {slot: projects[slot] for slot in owners if projects.get(slot)}
    weights = {slot: count + rated.rates.get(slot, 0) for slot, count in counts.items()}
    count = sum(counts.values())
    tolerance = TOLERANCE * count + RATE_TOLERANCE * (sum(weights.values()) - count)
    empty = dict.fromkeys(owners.keys() - weights.keys(), 1)
    moves -= _even_out(weights, tolerance, target, sorted(members), moves, pinned, rated)
    tolerance = EMPTY_TOLERANCE * len(empty)
    _even_out(empty, tolerance, target, sorted(members), moves, pinned, UNRATED)
    return target


def _even_out(
    weights: Mapping[int, int],
    tolerance: float,
    target: dict[int, MemberId],
    members: list[MemberId],
    moves: int,
    pinned: Collection[int],
    rated: Rated,
) -> int:
    """Place a group of slots; return how many were taken from an owner."""
    for slot in sorted(weights.keys() - target.keys(), key=lambda slot: (-weights[slot], slot)):
        load = _loads(weights, target, members)
        target[slot] = min(members, key=load.__getitem__)
    for done in range(moves):
        load = _loads(weights, target, members)
        taker = min(members, key=load.__getitem__)
        for giver in sorted(members, key=lambda member: -load[member]):
            gap = load[giver] - load[taker]
            if gap <= max(1.0, tolerance / len(members)):
                return done
            fitting = [
                slot
                for slot, weight in weights.items()
                if target[slot] == giver
                and slot not in pinned
                and (slot not in rated.moved or taker not in rated.settled)
                and 2 * weight + rated.rates.get(slot, 0) < 2 * gap
            ]
            if fitting:
                best = min(fitting, key=lambda slot: (abs(gap - 2 * weights[slot]), slot))
                target[best] = taker
                break
        else:
            return done
    return moves


def _loads(
    weights: Mapping[int, int], target: Mapping[int, MemberId], members: list[MemberId]
) -> dict[MemberId, int]:
    load = dict.fromkeys(members, 0)
    for slot, weight in weights.items():
        if slot in target:
            load[target[slot]] += weight
    return load
