"""Contenders in turn: whatever else the machine does, it does to all of them."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tests.bench.figures import summary


def in_turn(
    runs: int, contenders: Iterable[str], measure: Callable[[str], Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Return the medians of so many runs of each contender, one after the other each time."""
    found: dict[str, list[Mapping[str, Any]]] = {name: [] for name in contenders}
    for _ in range(runs):
        for name, each in found.items():
            each.append(measure(name))
    return {name: summary(each) for name, each in found.items()}
