"""Rules of the product taken away on purpose, to show that a run finds out."""

from collections.abc import Callable, Mapping
from typing import Any

from pyspider_zk.core.ownership import Rules


def _no_gate(scheduler: Any) -> None:
    """Do whatever is held in memory, however old the lease is."""
    gate = scheduler.gate
    gate.is_open = gate.holds
    gate.all_open = lambda: True


def _no_wait(_: Any) -> None:
    """As leader, give a member's slots away while its lease may still hold."""
    Rules.expiry = 1.2  # type: ignore[method-assign, assignment]


def _no_handoff(scheduler: Any) -> None:
    """Leave the next owner nothing but what the databases hold."""
    scheduler._holdings._save = lambda *_, **__: None


MUTATIONS: Mapping[str, Callable[[Any], None]] = {
    "gate": _no_gate,
    "wait": _no_wait,
    "handoff": _no_handoff,
}
