"""A slot has one owner at a time, and nobody else acts for it."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from tests.chaos.history import Effect, History, Hit
from tests.chaos.recorder import Commit


class Overlap(NamedTuple):
    """Two effects on one slot by different owners, in the wrong order or at once."""

    before: Effect
    after: Effect


def overlaps(effects: Iterable[Effect]) -> list[Overlap]:
    """On a slot, no effect begins before those of all former owners have ended.

    Effects that the fence refused never happened; for one without an epoch see `unowned`.
    """
    by_slot: dict[int, list[Effect]] = defaultdict(list)
    for effect in effects:
        if effect.outcome != "refused" and effect.epoch is not None:
            by_slot[effect.slot].append(effect)
    return [each for mine in by_slot.values() for each in _overlaps_of_slot(mine)]


def _overlaps_of_slot(effects: list[Effect]) -> list[Overlap]:
    """Compare each effect with the latest ending and the newest epoch of the others before it."""
    found = []
    latest: dict[tuple[str, int | None], Effect] = {}
    for effect in sorted(effects, key=lambda one: one.start):
        for owner, other in latest.items():
            late = other.end > effect.start or (other.epoch or 0) > (effect.epoch or 0)
            if owner != effect.owner and late:
                found.append(Overlap(other, effect))
        known = latest.get(effect.owner)
        if known is None or effect.end >= known.end:
            latest[effect.owner] = effect
    return found


def late(history: History) -> list[Effect]:
    """No effect of an owner ends after a newer owner has taken the slot, whatever that one did."""
    taken: dict[int, list[tuple[float, int]]] = defaultdict(list)
    newest = 0
    for tenure in sorted(history.tenures, key=lambda one: (one.slot, one.taken)):
        mine = taken[tenure.slot]
        newest = max(mine[-1][1] if mine else 0, tenure.epoch)
        mine.append((tenure.taken, newest))
    return [
        effect
        for effect in without_paused(history.effects, history.hits)
        if effect.outcome != "refused" and effect.epoch is not None
        if _newest(taken[effect.slot], effect.end) > effect.epoch
    ]


def _newest(taken: list[tuple[float, int]], at: float) -> int:
    """Return the newest epoch of those that took the slot before a time."""
    place = bisect_right(taken, (at, -1))
    return taken[place - 1][1] if place else 0


def late_writes(history: History) -> list[Commit]:
    """The task database commits nothing for a slot of an older epoch than it knows.

    No fault excuses it, not even a stop of the writer: the database itself keeps the order.
    """
    newest: dict[int, int] = {}
    found = []
    for commit in history.commits:
        if commit.epoch < newest.get(commit.slot, 0):
            found.append(commit)
        newest[commit.slot] = max(newest.get(commit.slot, 0), commit.epoch)
    return found


def unowned(effects: Iterable[Effect]) -> list[Effect]:
    """No effect is without an epoch, that is, on a slot that the member did not hold.

    But what was asked for by hand, over XML-RPC: pyspider's ``send_task`` asks nobody.
    """
    return [
        effect
        for effect in effects
        if effect.epoch is None and effect.outcome != "refused" and not effect.by_hand
    ]


def without_paused(effects: Iterable[Effect], hits: Iterable[Hit]) -> list[Effect]:
    """Leave out the effects that a stop of their process fell into.

    A dispatch may happen after the lease: the documented exception, for no queue knows epochs. A
    write into which a stop fell is committed before or after the stop, which its times do not tell:
    see ``late_writes``.
    """
    stops = defaultdict(list)
    for hit in hits:
        if hit.kind == "stop":
            stops[hit.target].append((hit.start, hit.start if hit.still is None else hit.still))
    return [
        effect
        for effect in effects
        if not any(
            effect.start <= still and begun <= effect.end for begun, still in stops[effect.member]
        )
    ]
