"""Nothing is lost: no page, no tick, no batch, no scheduler before its time."""

import signal
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any
from urllib.parse import urlsplit

from tests.chaos.checks.moves import SlotMoves, redis_was_down
from tests.chaos.history import Effect, History

ON_FINISHED = "data:,on_finished"
ACTIVE, SUCCESS, FAILED = 1, 2, 3  # pyspider's numbers


def lost_urls(history: History) -> list[str]:
    """Every wanted page was requested by its project and stands there as done, with its result.

    A result that is missing is laid to Redis if that restarted while the result was on its way:
    pyspider's result worker takes it from its queue, and no copy is kept.
    """
    served = _served(history)
    rows = {
        name: {urlsplit(url).path: status for url, status in found.items()}
        for name, found in history.final["rows"].items()
    }
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


def _later_tick(url: str, ended: float) -> bool:
    path = urlsplit(url).path
    return path.startswith("/tick/") and int(path.rpartition("/")[2]) > ended


START_PATIENCE = 35
"""Seconds after its start within which a project's first tick must come."""


def missed_ticks(
    projects: Iterable[Mapping[str, Any]],
    effects: Iterable[Effect],
    started: float,
    ended: float,
) -> list[str]:
    """Every multiple of a project's interval was sent, from its first tick until the end."""
    sent: dict[str, set[int]] = defaultdict(set)
    for effect in effects:
        if effect.tick is not None and effect.outcome == "done":
            sent[effect.project].add(effect.tick)
    missed = []
    for project in projects:
        name, every = project["name"], project["every"]
        if every:
            latest = int(started + START_PATIENCE)
            first = min(min(sent[name], default=latest), latest)
            due = range(-(-first // every) * every, int(ended) + 1, every)
            missed += [f"{name} {tick}" for tick in due if tick not in sent[name]]
    return missed


def ticks_twice(history: History) -> list[str]:
    """A tick is sent once, unless a fault kept its first sender from telling the next owner.

    That is, the slot changed hands in between without a clean handoff, which a fault explains.
    Neither clocks that jump nor a Redis that restarts send a tick again.
    """
    known = SlotMoves(history)
    sent: dict[tuple[str, int], list[Effect]] = defaultdict(list)
    for effect in history.effects:
        if effect.tick is not None and effect.outcome == "done":
            sent[effect.project, effect.tick].append(effect)
    return [
        f"{project} {tick}"
        for (project, tick), sends in sent.items()
        for first, second in pairwise(sorted(sends, key=lambda one: one.start))
        if not known.broken(first.slot, first.start, second.start)
    ]


def jobs_lost(history: History) -> list[str]:
    """Every batch that was accepted is done, and has started each of its projects."""
    started = {
        effect.project
        for effect in history.effects
        if (effect.kind, effect.task) == ("send", "on_start") and effect.outcome != "refused"
    }
    return [
        f"{batch} {project}"
        for batch, found in history.final["batches"].items()
        for project in found["projects"]
        if found["state"] != "done" or found["errors"] or project not in started
    ]


def fallen(history: History) -> list[str]:
    """No scheduler ends by itself, and one that is told to end says that all went well.

    One that never owned anything may have been told while it was starting: Python ends at once.
    """
    owners = {tenure.member for tenure in history.tenures}
    by_itself = [
        f"{remark['target']}, code {remark.get('code')}"
        for remark in history.remarks
        if remark["e"] == "fallen"
    ]
    told = [
        f"{hit.target}, code {hit.code}"
        for hit in history.hits
        if hit.code and not (hit.code == -signal.SIGTERM and hit.target not in owners)
    ]
    return by_itself + told


def overdue(history: History) -> list[str]:
    """A scheduler that is told to end does so within the time that is set for it."""
    return [remark["target"] for remark in history.remarks if remark["e"] == "overdue"]
