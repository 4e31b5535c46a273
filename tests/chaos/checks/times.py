"""How long moves and takeovers took; nothing of it can be wrong."""

from collections.abc import Iterable

from tests.chaos.checks.faults import HITS_ALL, HITS_LEASE, SETTLE, meets
from tests.chaos.checks.moves import Move, moves
from tests.chaos.history import History, Hit


def pauses(history: History) -> list[tuple[float, bool]]:
    """Return the seconds from give-up to loaded of each planned move of a slot with projects.

    With each: whether any fault was there meanwhile (its settling included); a leader that dies
    in the middle, or a Redis that is away, makes a planned move as long as it likes.
    """
    slots = {effect.slot for effect in history.effects}
    faults = [hit for hit in history.hits if hit.kind in HITS_LEASE | HITS_ALL]
    return [
        (move.new.ready - move.old.left, _any_meets(faults, move.old.left, move.new.ready))
        for move in moves(history.tenures)
        if move.clean and move.new.slot in slots
        if move.old.left is not None and move.new.ready is not None
    ]


def takeovers(history: History) -> list[float]:
    """Return, for each slot with projects of a member that was hit, how long till another had it.

    All are in it, also those in which the next fault already hit the leader or ZooKeeper. Slots
    that the member kept, since it came back in time and went on, are left out.
    """
    last: dict[tuple[int, str, int | None], float] = {}
    for effect in history.effects:
        if effect.outcome == "done":
            key = effect.slot, effect.member, effect.epoch
            last[key] = max(effect.start, last.get(key, 0.0))
    slots = {slot for slot, _, _ in last}
    return [
        (move.new.ready or move.new.taken) - hit.start
        for hit in history.hits
        if hit.kind in HITS_LEASE
        for move in moves(history.tenures)
        if move.old.member == hit.target and move.new.slot in slots
        if _lost_by(move, hit, last.get((move.new.slot, hit.target, move.old.epoch), 0.0))
    ]


def _lost_by(move: Move, hit: Hit, last_effect: float) -> bool:
    """Return whether a move is what a fault led to."""
    old, new = move
    held = old.taken <= hit.start and (old.left is None or old.left > hit.start)
    kept = old.planned or last_effect > hit.end
    return held and not kept and new.member != old.member and new.taken > hit.start


def percentile(values: Iterable[float], share: float) -> float | None:
    """Return the least value that this share of them does not exceed; None of nothing."""
    ordered = sorted(values)
    if not ordered:
        return None
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def _any_meets(hits: Iterable[Hit], since: float, until: float) -> bool:
    return any(meets(hit, since, until, SETTLE) for hit in hits)
