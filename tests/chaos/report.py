"""The verdict on a run: its last line, and what is behind it."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.chaos import checker
from tests.chaos.history import History, load

_EXAMPLES = 5
_MUST_BE_NONE = (
    "lost",
    "overlaps",
    "stranded",
    "missed_ticks",
    "duplicates_planned",
    "jobs_lost",
    "jobs_twice",
)
_UNEXPECTED = {"fallen", "overdue"}  # a scheduler ended by itself, or did not when it was told to


def check(folder: Path) -> int:
    """Check a stored history; print the verdict as the last line; return the exit code."""
    history = load(folder)
    found = findings(history)
    _save(folder, history, found)
    line = verdict(history, found)
    for name in _MUST_BE_NONE:
        for example in found[name][:_EXAMPLES]:
            print(f"{name}: {example}")  # noqa: T201
    for remark in history.remarks:
        if remark["e"] in _UNEXPECTED:
            print(f"{remark['e']}: {remark['target']}, code {remark.get('code')}")  # noqa: T201
    failed = any(line[name] for name in _MUST_BE_NONE)
    if failed:
        print(f"history and logs: {folder}")  # noqa: T201
    print(json.dumps(line, separators=(",", ":")), flush=True)  # noqa: T201
    return int(failed)


def complete(folder: Path, left: Mapping[str, Any], ended: float) -> bool:
    """Tell whether a run in progress has nothing left to do.

    Args:
        left: what stands in the databases; it is also in the folder, with the rest.
    """
    if checker.stranded(left, ended):
        return False
    history = load(folder)
    if checker.lost_urls(history) or checker.jobs_lost(history):
        return False
    return not checker.missed_ticks(left["projects"], history.effects, ended, ended)


def findings(history: History) -> dict[str, list[Any]]:
    """Return everything that must not be."""
    final = history.final
    times = final["times"]
    awake = checker.without_paused(history.effects, history.hits)
    span = times["started"], times["ended"]
    return {
        "lost": checker.lost_urls(history),
        "overlaps": checker.overlaps(awake),
        "stranded": checker.stranded(final, times["ended"]),
        "missed_ticks": checker.missed_ticks(final["projects"], history.effects, *span),
        "duplicates_planned": checker.duplicates_planned(history),
        "jobs_lost": checker.jobs_lost(history),
        "jobs_twice": checker.jobs_twice(history),
    }


def verdict(history: History, found: dict[str, list[Any]]) -> dict[str, Any]:
    """Return the last line."""
    final = history.final
    pauses = checker.pauses(history)
    quiet = [seconds for seconds, disturbed in pauses if not disturbed]
    takeovers = checker.takeovers(history)
    return {
        "seconds": final["seconds"],
        "seed": final["seed"],
        "faults": final["faults"],
        "tasks": sum(map(len, final["rows"].values())),
        **{name: len(found[name]) for name in _MUST_BE_NONE},
        "duplicate_fetches": checker.duplicate_fetches(history).total(),
        "moves": len(pauses),
        "pause_ms": {"p50": _ms(quiet, 0.5), "p99": _ms(quiet, 0.99)},
        "takeover_s": {"p50": _s(takeovers, 0.5), "max": _s(takeovers, 1)},
    }


def _save(folder: Path, history: History, found: dict[str, list[Any]]) -> None:
    """Save the whole of it, also what the last line has no place for."""
    every = checker.overlaps(history.effects)
    pauses = checker.pauses(history)
    more = {
        "paused_effects_that_overlap": len(every) - len(found["overlaps"]),
        "results_missing": checker.results_missing(history),
        "pauses_ms_disturbed_too": sorted(round(seconds * 1000) for seconds, _ in pauses),
        "takeovers_s": sorted(round(seconds, 2) for seconds in checker.takeovers(history)),
        "remarks": history.remarks,
        "finished_in_time": history.final["finished_in_time"],
    }
    text = json.dumps({**found, **more}, indent=1, default=str)
    (folder / "report.json").write_text(text, encoding="utf-8")


def _ms(values: list[float], share: float) -> int | None:
    found = checker.percentile(values, share)
    return None if found is None else round(found * 1000)


def _s(values: list[float], share: float) -> float | None:
    found = checker.percentile(values, share)
    return None if found is None else round(found, 2)
