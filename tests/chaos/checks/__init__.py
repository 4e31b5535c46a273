"""What must hold of a history, by the names that the verdict gives to what breaks it.

Pure functions over values.
"""

from collections.abc import Callable, Mapping
from typing import Any

from tests.chaos.checks import losses, moves, owners, repeats
from tests.chaos.history import History


def _overlaps(history: History) -> list[Any]:
    return owners.overlaps(owners.without_paused(history.effects, history.hits))


def _unowned(history: History) -> list[Any]:
    return owners.unowned(history.effects)


def _missed_ticks(history: History) -> list[str]:
    times = history.final["times"]
    projects = history.final["projects"]
    return losses.missed_ticks(projects, history.effects, times["started"], times["ended"])


PROMISES: Mapping[str, Callable[[History], list[Any]]] = {
    "lost": losses.lost_urls,
    "overlaps": _overlaps,
    "late": owners.late,
    "late_writes": owners.late_writes,
    "unowned": _unowned,
    "stranded": losses.stranded,
    "missed_ticks": _missed_ticks,
    "ticks_twice": losses.ticks_twice,
    "duplicates_planned": repeats.duplicates_planned,
    "rescued": repeats.rescued,
    "handovers": moves.handovers,
    "jobs_lost": losses.jobs_lost,
    "jobs_twice": repeats.jobs_twice,
    "fallen": losses.fallen,
    "overdue": losses.overdue,
}
"""What each name means stands at its function. Nothing may be found of any."""


def findings(history: History) -> dict[str, list[Any]]:
    """Return everything that must not be."""
    return {name: find(history) for name, find in PROMISES.items()}
