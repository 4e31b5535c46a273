"""Figures of several runs in one: medians, percentiles and ratios. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from math import ceil
from statistics import median
from typing import Any


def percentile(values: Iterable[float], share: float) -> float:
    """Return the smallest value that so large a share of all does not exceed."""
    ranked = sorted(values)
    if not ranked:
        raise ValueError("a percentile of nothing")
    return ranked[max(0, ceil(share * len(ranked)) - 1)]


def latency(seconds: Sequence[float]) -> dict[str, float]:
    """Return what is told of waiting times."""
    return {
        "p50_s": percentile(seconds, 0.5),
        "p99_s": percentile(seconds, 0.99),
        "samples": len(seconds),
    }


def ratio(better: float | None, worse: float | None) -> float | None:
    """Return how many times as large one figure is; None if one of them is missing."""
    if better is None or worse is None or worse == 0:
        return None
    return round(better / worse, 3)


def summary(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the median of each figure over several runs, and all values of it besides.

    What is no number, or is missing in a run, is as in the last run that has it.
    """
    names = dict.fromkeys(name for run in runs for name in run)
    found: dict[str, Any] = {}
    for name in names:
        values = [run[name] for run in runs if name in run]
        found[name] = median(values) if all(map(_is_figure, values)) else values[-1]
    return {**found, "runs": [dict(run) for run in runs]}


def _is_figure(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def get(figures: Any, *path: str) -> Any:
    """Return what stands at a path of nested mappings; None if something on the way is missing."""
    for name in path:
        if not isinstance(figures, Mapping) or name not in figures:
            return None
        figures = figures[name]
    return figures
