"""Every tick comes, and comes once."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

from tests.chaos.checks.moves import SlotMoves
from tests.chaos.history import Effect, History

START_PATIENCE = 15
"""Seconds after its start within which a project's first tick must come."""


def missed_ticks(
    projects: Iterable[Mapping[str, Any]],
    effects: Iterable[Effect],
    started: float,
    ended: float,
) -> list[str]:
    """Every multiple of a project's interval was sent, from its first tick until the end."""
    sent: dict[str, set[int]] = defaultdict(set)
    for effect in effects:
        if effect.tick is not None and effect.outcome == "done":
            sent[effect.project].add(effect.tick)
    missed = []
    for project in projects:
        name, every = project["name"], project["every"]
        if every:
            latest = int(started + START_PATIENCE)
            first = min(min(sent[name], default=latest), latest)
            due = range(-(-first // every) * every, int(ended) + 1, every)
            missed += [f"{name} {tick}" for tick in due if tick not in sent[name]]
    return missed


def ticks_twice(history: History) -> list[str]:
    """A tick is sent once, unless a fault kept its first sender from telling the next owner.

    That is, the slot changed hands in between without a clean handoff, which a fault explains.
    Neither clocks that jump nor a Redis that restarts send a tick again.
    """
    known = SlotMoves(history)
    sent: dict[tuple[str, int], list[Effect]] = defaultdict(list)
    for effect in history.effects:
        if effect.tick is not None and effect.outcome == "done":
            sent[effect.project, effect.tick].append(effect)
    return [
        f"{project} {tick}"
        for (project, tick), sends in sent.items()
        for first, second in pairwise(sorted(sends, key=lambda one: one.start))
        if not known.broken(first.slot, first.start, second.start)
    ]
