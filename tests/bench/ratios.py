"""Ratios: what of the figures compares, measured in turn on one machine. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any

from tests.bench.figures import get, ratio
from tests.bench.size import MAIN

MEANING = (
    "How many times as good pyspider-zk is as the other: above 1 it is better, below 1 worse."
    " Compared with pyspider is the faster one of its two schedulers, as published; where the name"
    " ends with _patched, its Scheduler with this project's patches. With 10 projects, unless the"
    " name says otherwise. two_schedulers and four_schedulers: cycles/s over those of one."
)
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
        found |= _cycles(figures, database, word)
    found |= _scrapy(figures)
    found |= _latencies(figures)
    own, stock = (get(figures, "idle", name, "share") for name in (OURS, STOCK))
    return found | {"idle_cpu": ratio(stock, own)} | _start_up(figures)


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
