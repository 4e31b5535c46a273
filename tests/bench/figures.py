"""Figures of several runs in one: medians of contenders in turn, percentiles, and ratios. Pure."""

from collections.abc import Callable, Iterable, Mapping, Sequence
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


def in_turn(
    runs: int, contenders: Iterable[str], measure: Callable[[str], Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Return the medians of so many runs of each contender, one after the other each time."""
    found: dict[str, list[Mapping[str, Any]]] = {name: [] for name in contenders}
    for _ in range(runs):
        for name, each in found.items():
            each.append(measure(name))
    return {name: summary(each) for name, each in found.items()}


MEANING = (
    "How many times as good pyspider-zk is as the other: above 1 it is better, below 1 worse."
    " Compared with pyspider is the faster one of its two schedulers, as published; where the name"
    " ends with _patched, its Scheduler with this project's patches. With 10 projects, unless the"
    " name says otherwise. two_schedulers and four_schedulers: cycles/s over those of one."
)
MAIN = 10
"""The number of projects that ratios are about."""

OURS = "pyspider-zk"
STOCK = "pyspider Scheduler"
THREADED = "pyspider ThreadBaseScheduler"
PATCHED = "pyspider Scheduler, patched"
DATABASES = {"sqlite": "sqlite", "sqlite in memory": "memory", "postgresql": "postgresql"}
"""Which word stands for a database in the name of a ratio."""


def ratios(figures: Mapping[str, Any]) -> dict[str, float | None]:
    """Return the ratios; None where something was not measured."""
    found: dict[str, float | None] = {}
    for database, word in DATABASES.items():
        found |= _whole_crawl(get(figures, "whole_crawl", database) or {}, word)
    for database, word in DATABASES.items():
        found |= _cycles(figures, database, word)
    found |= _scrapy(figures)
    found |= _latencies(figures)
    own, stock = (get(figures, "idle", name, "share") for name in (OURS, STOCK))
    return found | {"idle_cpu": ratio(stock, own)} | _start_up(figures)


def _whole_crawl(contenders: Mapping[str, Any], word: str) -> dict[str, float | None]:
    ours, three = f"{OURS}, 1 scheduler", f"{OURS}, 3 schedulers"

    def beside(name: str, better: str, worse: str) -> float | None:
        return ratio(get(contenders, better, name), get(contenders, worse, name))

    return {
        f"whole_crawl_{word}": beside("per_s", ours, STOCK),
        f"whole_crawl_cpu_{word}": beside("cpu_s", STOCK, ours),
        f"whole_crawl_cpu_{word}_vs_scrapy": beside("cpu_s", "Scrapy", ours),
        f"whole_crawl_cpu_{word}_three_schedulers": beside("cpu_s", ours, three),
    }


def _cycles(figures: Mapping[str, Any], database: str, word: str) -> dict[str, float | None]:
    found: dict[str, float | None] = {}
    by_projects: Mapping[str, Any] = get(figures, "full_cycle", database) or {str(MAIN): {}}
    for count, each in by_projects.items():
        end = word if count == str(MAIN) else f"{word}_{count}"
        found[f"full_cycle_{end}"] = ratio(get(each, OURS, "per_s"), _best(each, "per_s"))
        found[f"cpu_per_cycle_{end}"] = ratio(_least(each, "cpu_s"), get(each, OURS, "cpu_s"))
        own, patched = get(each, OURS) or {}, get(each, PATCHED) or {}
        found[f"full_cycle_{end}_patched"] = ratio(own.get("per_s"), patched.get("per_s"))
        found[f"cpu_per_cycle_{end}_patched"] = ratio(patched.get("cpu_s"), own.get("cpu_s"))
    for logging in ("on", "off"):
        each = get(figures, "duplicates", database, f"logging {logging}")
        end = word if logging == "on" else f"{word}_quiet"
        found[f"duplicates_{end}"] = ratio(get(each, OURS, "per_s"), _best(each, "per_s"))
        found[f"duplicates_cpu_{end}"] = ratio(_least(each, "cpu_s"), get(each, OURS, "cpu_s"))
    one = get(figures, "schedulers", database, "1", "per_s")
    for name, count in (("two", "2"), ("four", "4")):
        several = get(figures, "schedulers", database, count, "per_s")
        found[f"{name}_schedulers_{word}"] = ratio(several, one)
    return found


def _scrapy(figures: Mapping[str, Any]) -> dict[str, float | None]:
    """Compare with Scrapy: our full cycle, stored in files of memory, with its queue alone."""
    own = get(figures, "full_cycle", "sqlite in memory", str(MAIN), OURS, "per_s")
    many = get(figures, "duplicates", "sqlite in memory", "logging off", OURS, "per_s")
    names = {"vs_scrapy_redis": "scrapy-redis", "vs_scrapy_disk": "Scrapy disk queue"}
    found = {}
    for name, other in names.items():
        found[name] = ratio(own, get(figures, "full_cycle", "scrapy", other, "per_s"))
        theirs = get(figures, "duplicates", "scrapy", other, "per_s")
        found[f"{name}_duplicates"] = ratio(many, theirs)
    return found


def _latencies(figures: Mapping[str, Any]) -> dict[str, float | None]:
    found = {}
    for name in ("new_task_latency", "link_latency"):
        for load, end in (("idle", ""), ("half load", "_half_load")):
            for which in ("p50", "p99"):
                own, stock = (
                    get(figures, name, load, each, f"{which}_s") for each in (OURS, STOCK)
                )
                suffix = "" if which == "p50" else "_p99"
                found[f"{name}{end}{suffix}"] = ratio(stock, own)
    return found


def _start_up(figures: Mapping[str, Any]) -> dict[str, float | None]:
    found = {}
    for count, each in (get(figures, "start_up") or {}).items():
        for name in ("first_dispatch_s", "longest_wait_of_others_s", "peak_bytes"):
            stock, own = (get(each, contender, name) for contender in (STOCK, OURS))
            if stock is not None:
                found[f"start_up_{count}_{name.rpartition('_')[0]}"] = ratio(stock, own)
    return found


def _best(each: Any, name: str) -> float | None:
    return max(_of_pyspider(each, name), default=None)


def _least(each: Any, name: str) -> float | None:
    return min(_of_pyspider(each, name), default=None)


def _of_pyspider(each: Any, name: str) -> Iterable[float]:
    found = (get(each, contender, name) for contender in (STOCK, THREADED))
    return [value for value in found if value is not None]
