"""The comparison with other schedulers, from the figures of the last `make bench`."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

FIGURES = Path(__file__).parents[1] / "internals" / "performance.json"
CONTENDERS = ("pyspider Scheduler", "pyspider-zk", "scrapy-redis", "Scrapy disk queue")

Node = Mapping[str, Any]
"""A part of the figures."""


def lines() -> Iterator[str]:
    """Yield a table in Markdown: a row per question, a column per contender."""
    figures: Node = json.loads(FIGURES.read_text("utf-8"))["figures"]
    yield f"| | {' | '.join(CONTENDERS)} |"
    yield f"|---|{'---:|' * len(CONTENDERS)}"
    for question, found, unit, factor in _rows(figures):
        cells = (_cell(found.get(each), unit, factor) for each in CONTENDERS)
        yield f"| {question} | {' | '.join(cells)} |"


def _rows(figures: Node) -> Iterator[tuple[str, Node, str, float]]:
    """Yield each question with the figures by contender, the figure's name, and its factor."""
    cycles, known = figures["full_cycle"], figures["duplicates"]
    in_memory = cycles["sqlite in memory"]["10"] | cycles["scrapy"]
    links = known["sqlite in memory"]["logging on"] | known["scrapy"]
    yield "pages per second, tasks in sqlite on disk", cycles["sqlite"]["10"], "per_s", 1
    yield "pages per second, tasks in PostgreSQL", cycles["postgresql"]["10"], "per_s", 1
    yield "pages per second, tasks in memory", in_memory, "per_s", 1
    yield "processor time per page, tasks in memory, ms", in_memory, "cpu_s", 1000
    yield "pages with 20 links per second, 18 of them known", links, "per_s", 1
    yield "a new task is sent after, ms", figures["new_task_latency"]["idle"], "p50_s", 1000
    yield "a link is followed after, ms", figures["link_latency"]["idle"], "p50_s", 1000
    yield "processor of a scheduler with nothing to do, %", figures["idle"], "share", 100


def _cell(found: Node | None, unit: str, factor: float) -> str:
    if found is None:
        return "-"
    value = found[unit] * factor
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
