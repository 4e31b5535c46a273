"""No page is lost and none is left behind."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from tests.chaos.checks.faults import redis_was_down
from tests.chaos.history import History

ON_FINISHED = "data:,on_finished"
ACTIVE, SUCCESS, FAILED = 1, 2, 3  # pyspider's numbers


def lost_urls(history: History) -> list[str]:
    """Every wanted page was requested by its project and stands there as done, with its result.

    A result that is missing is laid to Redis if that restarted while the result was on its way:
    pyspider's result worker takes it from its queue, and no copy is kept.
    """
    served = _served(history)
    rows = {name: _by_path(found) for name, found in history.final["rows"].items()}
    results = _results(history)
    lost = []
    for project, path in wanted(history):
        key = project, path
        done = rows[project].get(path) == SUCCESS and key in served
        if not done or (key not in results and not _redis_took(history, served[key])):
            lost.append(f"{project} {path}")
    return lost


def results_missing(history: History) -> int:
    """Count the pages without a result, for whatever reason."""
    return len(set(wanted(history)) - _results(history))


def wanted(history: History) -> list[tuple[str, str]]:
    """Return all pages of all projects: those of their graphs and those of their ticks.

    The page of a tick is wanted if the tick was sent and was due before the faults ended. pyspider
    keeps no row of a tick, so one that was on its way when Redis restarted may be gone.
    """
    final = history.final
    graphs = [
        (project["name"], f"/{project['graph']}/{page}")
        for project in final["projects"]
        for page in range(final["pages"])
    ]
    return graphs + sorted(set(_ticked(history)))


def _ticked(history: History) -> Iterator[tuple[str, str]]:
    ended = history.final.get("times", {}).get("ended", 0)
    names = {project["name"] for project in history.final["projects"]}
    for effect in history.effects:
        if effect.tick is None or effect.outcome != "done" or effect.project not in names:
            continue
        if effect.tick <= ended and not redis_was_down(history.hits, effect.start, effect.end):
            yield effect.project, f"/tick/{effect.tick}"


def stranded(history: History) -> list[str]:
    """No row is left ACTIVE, but those of ticks that came due after the end of the faults.

    Nor does ``on_finished`` of a project that ticks count: each time a tick is done it comes again.
    """
    ended = history.final["times"]["ended"]
    ticking = {project["name"] for project in history.final["projects"] if project["every"]}
    return [
        f"{project} {url}"
        for project, rows in history.final["rows"].items()
        for url, status in rows.items()
        if status == ACTIVE and not _later_tick(url, ended)
        if not (url == ON_FINISHED and project in ticking)
    ]


def _redis_took(history: History, requests: list[float]) -> bool:
    return any(redis_was_down(history.hits, at, at) for at in requests)


def _served(history: History) -> dict[tuple[str, str], list[float]]:
    served = defaultdict(list)
    for request in history.requests:
        served[request.project, request.path].append(request.at)
    return served


def _results(history: History) -> set[tuple[str, str]]:
    found = history.final["results"].items()
    return {(project, urlsplit(url).path) for project, urls in found for url in urls}


def _by_path(rows: Mapping[str, int]) -> dict[str, Any]:
    return {urlsplit(url).path: status for url, status in rows.items()}


def _later_tick(url: str, ended: float) -> bool:
    path = urlsplit(url).path
    return path.startswith("/tick/") and int(path.rpartition("/")[2]) > ended
