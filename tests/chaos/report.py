"""The verdict on a run: its last line, and what is behind it."""

import json
from pathlib import Path
from typing import Any

from tests.chaos.checks import PROMISES, findings, losses, moves, owners, repeats
from tests.chaos.history import History, load

_EXAMPLES = 5


def check(folder: Path) -> int:
    """Check a stored history; print the verdict as the last line; return the exit code."""
    history = load(folder)
    found = findings(history)
    _save(folder, history, found)
    line = verdict(history, found)
    for name in PROMISES:
        for example in found[name][:_EXAMPLES]:
            print(f"{name}: {example}")  # noqa: T201
    failed = any(found.values())
    if failed:
        print(f"history and logs: {folder}")  # noqa: T201
    print(json.dumps(line, separators=(",", ":")), flush=True)  # noqa: T201
    return int(failed)


def complete(folder: Path) -> bool:
    """Return whether a run in progress has nothing left to do; what stands is in its folder."""
    history = load(folder)
    ended = history.final["times"]["ended"]
    if losses.stranded(history) or losses.lost_urls(history) or losses.jobs_lost(history):
        return False
    return not losses.missed_ticks(history.final["projects"], history.effects, ended, ended)


def verdict(history: History, found: dict[str, list[Any]]) -> dict[str, Any]:
    """Return the last line."""
    final = history.final
    pauses = moves.pauses(history)
    quiet = [seconds for seconds, disturbed in pauses if not disturbed]
    takeovers = moves.takeovers(history)
    return {
        "seconds": final["seconds"],
        "seed": final["seed"],
        "faults": final["faults"],
        "tasks": sum(map(len, final["rows"].values())),
        **{name: len(found[name]) for name in PROMISES},
        "duplicate_fetches": repeats.duplicate_fetches(history).total(),
        "moves": len(pauses),
        "pause_ms": {"p50": _share(quiet, 0.5, 0, 1000), "p99": _share(quiet, 0.99, 0, 1000)},
        "takeover_s": {"p50": _share(takeovers, 0.5, 2), "max": _share(takeovers, 1, 2)},
    }


def _save(folder: Path, history: History, found: dict[str, list[Any]]) -> None:
    """Save the whole of it, also what the last line has no place for."""
    every = owners.overlaps(history.effects)
    pauses = moves.pauses(history)
    more = {
        "paused_effects_that_overlap": len(every) - len(found["overlaps"]),
        "results_missing": losses.results_missing(history),
        "pauses_ms_disturbed_too": sorted(round(seconds * 1000) for seconds, _ in pauses),
        "takeovers_s": sorted(round(seconds, 2) for seconds in moves.takeovers(history)),
        "remarks": history.remarks,
        "finished_in_time": history.final["finished_in_time"],
    }
    text = json.dumps({**found, **more}, indent=1, default=str)
    (folder / "report.json").write_text(text, encoding="utf-8")


def _share(values: list[float], share: float, digits: int, unit: float = 1.0) -> float | None:
    found = moves.percentile(values, share)
    return None if found is None else round(found * unit, digits or None)
