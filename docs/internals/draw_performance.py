"""Writes the tables of performance.md and draws its pictures from a run of ``make bench``.

Usage: ``python docs/internals/draw_performance.py [BENCH.JSON]``. A file that is named is kept as
performance.json, from which all is written when none is named.
"""

import json
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
FIGURES, PAGE = FOLDER / "performance.json", FOLDER / "performance.md"
OURS = "pyspider-zk"

WIDTH, BAR, GAP, LEFT, RIGHT = 860, 20, 6, 360, 90
COLOURS = {OURS: "#2f6fb0"}
OTHERS = "#b8c4d0"

Cell = str | float | int | None
Rows = list[tuple[Cell, ...]]


def main(arguments: list[str]) -> None:
    """Write page and pictures."""
    if arguments:
        FIGURES.write_text(Path(arguments[0]).read_text(encoding="utf-8"), encoding="utf-8")
    draw(json.loads(FIGURES.read_text(encoding="utf-8")), PAGE)


def draw(report: Mapping[str, Any], page: Path) -> None:
    """Write the page of a report, and its pictures beside it."""
    page.write_text(fill(PAGE.read_text(encoding="utf-8"), tables(report)), encoding="utf-8")
    for name, picture in pictures(report["figures"]).items():
        page.with_name(name).write_text(picture, encoding="utf-8")


def fill(page: str, found: Mapping[str, str]) -> str:
    """Return the page with each table in its place, ``<!-- name -->`` to ``<!-- end -->``."""

    def table(match: re.Match[str]) -> str:
        return f"<!-- {match[1]} -->\n\n{found[match[1]]}\n\n<!-- end -->"

    return re.sub(r"<!-- (\w+) -->.*?<!-- end -->", table, page, flags=re.DOTALL)


def tables(report: Mapping[str, Any]) -> dict[str, str]:
    """Return the tables by name."""
    figures = report["figures"]
    ratios = [(name, value) for name, value in report["ratio"].items() if value is not None]
    return {
        "machine": _machine(report),
        "ratio": _table(("ratio", "times as good"), ratios),
        "whole_crawl": _whole_crawl(figures),
        "full_cycle": _cycles(_full_cycles(figures), "database, projects"),
        "duplicates": _cycles(_duplicates(figures), "database, logging"),
        "schedulers": _cycles(_schedulers(figures), "database"),
        "latencies": _latencies(figures),
        "takeover": _takeover(figures),
        "start_up": _start_up(figures),
        "idle": _idle(figures),
        "endurance": _endurance(figures),
        "operations": _operations(figures),
        "parts": _parts(figures),
        "rest": _rest(figures),
    }


def _machine(report: Mapping[str, Any]) -> str:
    machine = report["machine"]
    loads = [each["machine_load"]["before"] for each in report["figures"].values()]
    out = "".join(f" Left out: {name}: {why}." for name, why in report["left_out"].items())
    return (
        f"{machine['processor']}, {machine['processors']} processors, {machine['memory_gib']} GiB;"
        f" {machine['system']}; Python {machine['python']}, sqlite {machine['sqlite']},"
        f" {machine['redis_server'].partition(' sha')[0]}. {_runs(report['figures'])} Before"
        f" each scenario between {min(loads):.1f} and {max(loads):.1f} processes wanted a processor"
        f" (load over a minute, with those of the scenario before).{out}"
    )


def _runs(figures: Mapping[str, Any]) -> str:
    """Return which scenarios are of which run."""
    found: dict[tuple[str, str, bool], list[str]] = {}
    for name, each in figures.items():
        run = each["run"]
        found.setdefault((run["commit"], run["time"], run["quick"]), []).append(name)
    return " ".join(
        f"Commit {commit}, {time}, the {'quick' if quick else 'full'} form: {', '.join(names)}."
        for (commit, time, quick), names in found.items()
    )


def _table(head: tuple[str, ...], rows: Iterable[tuple[Cell, ...]]) -> str:
    lines = [head, ("---",) + ("---:",) * (len(head) - 1), *rows]
    return "\n".join("| " + " | ".join(map(_text, line)) + " |" for line in lines)


def _text(cell: Cell) -> str:
    if cell is None:
        return "-"
    return cell if isinstance(cell, str) else f"{cell:,.3g}" if cell < 1000 else f"{cell:,.0f}"


CRAWLING = ("fetcher", "processor", "scheduler", "result worker", "Redis", "ZooKeeper")


def _whole_crawl(figures: Mapping[str, Any]) -> str:
    rows: Rows = [
        (
            f"{name}, {database}",
            each["per_s"],
            each["cpu_s"] * 1000,
            *(each["parts"][part] * 1000 if part in each["parts"] else None for part in CRAWLING),
        )
        for database, contenders in _mapping(figures, "whole_crawl")
        for name, each in contenders.items()
    ]
    return _table(("", "pages/s", "CPU ms per page", *CRAWLING), rows)


def _full_cycles(figures: Mapping[str, Any]) -> Rows:
    found: Rows = []
    for database, counts in _mapping(figures, "full_cycle"):
        if database == "scrapy":
            found += [("queue only", name, each) for name, each in counts.items()]
            continue
        for count, contenders in counts.items():
            found += [(f"{database}, {count}", name, each) for name, each in contenders.items()]
    return found


def _duplicates(figures: Mapping[str, Any]) -> Rows:
    found: Rows = []
    for database, loggings in _mapping(figures, "duplicates"):
        if database == "scrapy":
            found += [("queue only", name, each) for name, each in loggings.items()]
            continue
        for logging, contenders in loggings.items():
            found += [(f"{database}, {logging}", name, each) for name, each in contenders.items()]
    return found


def _schedulers(figures: Mapping[str, Any]) -> Rows:
    return [
        (database, f"{count} of {OURS}", each)
        for database, counts in _mapping(figures, "schedulers")
        for count, each in counts.items()
    ]


def _cycles(rows: Rows, what: str) -> str:
    head = (what, "scheduler", "per s", "CPU ms each", "CPU share", "CPU share of the load")
    return _table(
        head,
        (
            (
                where,
                name,
                each["per_s"],
                each["cpu_s"] * 1000,
                _percent(each["share"]),
                _percent(each.get("load_share")),
            )
            for where, name, each in rows
        ),
    )


def _latencies(figures: Mapping[str, Any]) -> str:
    rows: Rows = [
        (f"{title}, {load}", name, each["p50_s"] * 1000, each["p99_s"] * 1000, each["samples"])
        for scenario, title in (("new_task_latency", "new task"), ("link_latency", "link"))
        for load, contenders in _mapping(figures, scenario)
        for name, each in contenders.items()
    ]
    return _table(("what", "scheduler", "p50, ms", "p99, ms", "samples"), rows)


def _takeover(figures: Mapping[str, Any]) -> str:
    rows: Rows = [
        (
            f"{database}, {way}",
            each["shortest_pause_s"],
            each["longest_pause_s"],
            each["pause_before_s"],
        )
        for database, ways in _mapping(figures, "takeover")
        for way, each in ways.items()
    ]
    head = ("database, way", "first project served, s", "last one, s", "pause before, s")
    return _table(head, rows)


def _start_up(figures: Mapping[str, Any]) -> str:
    rows: Rows = [
        (
            f"{int(count):,} pending",
            name,
            each["first_dispatch_s"],
            each["last_first_dispatch_s"],
            each["longest_wait_of_others_s"],
            each["peak_bytes"] / 2**20,
        )
        for count, contenders in _mapping(figures, "start_up")
        for name, each in contenders.items()
    ]
    head = (
        "",
        "scheduler",
        "first dispatch, s",
        "all projects served, s",
        "longest wait of others, s",
        "peak, MiB",
    )
    return _table(head, rows)


def _idle(figures: Mapping[str, Any]) -> str:
    rows: Rows = [
        (
            name,
            _percent(each["share"]),
            each["redis_commands_per_s"],
            each["zookeeper_packets_per_s"],
            each["peak_bytes"] / 2**20,
        )
        for name, each in _mapping(figures, "idle")
    ]
    head = ("scheduler", "CPU share", "Redis commands/s", "ZooKeeper packets/s", "peak, MiB")
    return _table(head, rows)


def _endurance(figures: Mapping[str, Any]) -> str:
    rows: Rows = [
        (
            f"{each['until_s']:,.0f}",
            each["per_s"],
            each["cpu_s"] * 1000,
            _percent(each["share"]),
            each["resident_bytes"] / 2**20,
        )
        for each in figures.get("endurance", {}).get("parts", ())
    ]
    return _table(("until, s", "per s", "CPU ms each", "CPU share", "memory, MiB"), rows)


def _operations(figures: Mapping[str, Any]) -> str:
    found = figures.get("operations", {})
    rows: Rows = [
        (f"batch `{name}` of {found['projects']:,} projects", each["ended_s"], None)
        for name, each in found.get("batches", {}).items()
    ]
    pages = found.get("pages", {}).items()
    rows += [(f"page `{path}`", each["p50_s"], each["longest_s"]) for path, each in pages]
    return _table(("what", "s", "longest of 30, s"), rows)


def _parts(figures: Mapping[str, Any]) -> str:
    columns = {
        f"{name}, {database}": each["parts"]
        for database, contenders in _mapping(figures, "profile")
        for name, each in contenders.items()
    }
    parts = dict.fromkeys(part for each in reversed(columns.values()) for part in each)
    return _table(
        ("part", *columns),
        ((part, *(_percent(each.get(part, 0)) for each in columns.values())) for part in parts),
    )


def _rest(figures: Mapping[str, Any]) -> str:
    rows: Rows = [
        (f"decide(), 16,384 slots, 100 members: {name}", each["s"] * 1000)
        for name, each in _mapping(figures, "decide")
    ]
    for group, steps in _mapping(figures, "slot_queues"):
        rows += [
            (f"slot queues, {group}: {name}", seconds * 1000)
            for name, seconds in steps.items()
            if name != "runs"
        ]
    rows += [
        (f"batch over 10,000 projects accepted, {database}", each["accepted_s"] * 1000)
        for database, each in _mapping(figures, "accept")
    ]
    return _table(("what", "ms"), rows)


def _mapping(figures: Mapping[str, Any], name: str) -> list[tuple[str, Any]]:
    """Return a scenario's figures without what is said about them; none if it failed."""
    found = figures.get(name, {})
    about = ("taken_s", "machine_load", "run", "compared", "failed")
    return [(key, each) for key, each in found.items() if key not in about]


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}"


def pictures(figures: Mapping[str, Any]) -> dict[str, str]:
    """Return the pictures by file name."""
    cycles = [(f"{name} ({where})", each["per_s"]) for where, name, each in _full_cycles(figures)]
    price = [
        (f"{name} ({where})", each["cpu_s"] * 1000) for where, name, each in _full_cycles(figures)
    ]
    return {
        "performance-cycles.svg": bars("Cycles per second", cycles),
        "performance-price.svg": bars("Processor time per cycle, ms", price),
    }


def bars(title: str, rows: list[tuple[str, float]]) -> str:
    """Return a picture of one bar each."""
    height = 50 + len(rows) * (BAR + GAP)
    most = max((value for _, value in rows), default=1.0)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}"'
        f' font-family="sans-serif" font-size="12" role="img" aria-label="{title}">',
        "<!-- drawn by docs/internals/draw_performance.py; do not edit -->",
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        f'<text x="{LEFT}" y="24" font-size="15" font-weight="bold">{title}</text>',
    ]
    for number, (label, value) in enumerate(rows):
        top = 40 + number * (BAR + GAP)
        length = (WIDTH - LEFT - RIGHT) * value / most
        colour = COLOURS.get(label.partition(" (")[0], OTHERS)
        lines += [
            f'<text x="{LEFT - 8}" y="{top + 15}" text-anchor="end">{label}</text>',
            f'<rect x="{LEFT}" y="{top}" width="{length:.0f}" height="{BAR}" fill="{colour}"/>',
            f'<text x="{LEFT + length + 6:.0f}" y="{top + 15}">{value:,.3g}</text>',
        ]
    return "\n".join([*lines, "</svg>", ""])


if __name__ == "__main__":
    main(sys.argv[1:])
