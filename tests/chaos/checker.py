"""What must hold of a history: pure functions, each with its rule in its first lines."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from tests.chaos.history import Effect, History, Hit, Tenure

ACTIVE, SUCCESS = 1, 2  # pyspider's numbers

START_PATIENCE = 15
"""Seconds after its start within which a project's first tick must come."""

SETTLE = 8.0
"""Seconds after the end of a fault within which its consequences are laid to it."""

UNPLANNED = frozenset(
    {
        "kill",
        "stop",
        "drop_both",
        "drop_in",
        "drop_out",
        "clock_jump",
        "leader_kill_in_rebalance",
    }
)
DEADLY = UNPLANNED - {"clock_jump"}
_HARMLESS = frozenset({"join", "drain"})


class Overlap(NamedTuple):
    """Two effects on one slot by different owners, in the wrong order or at once."""

    before: Effect
    after: Effect


class Move(NamedTuple):
    """A slot that went from one owner to the next; the first owner has no former one."""

    old: Tenure
    new: Tenure

    @property
    def clean(self) -> bool:
        """Whether the new owner got all from the old one, with nobody in between."""
        handed = self.old.left is not None and self.old.planned and self.old.clean
        return handed and self.new.epoch == self.old.epoch + 1


# -- lost, stranded -------------------------------------------------------------------------------


def lost_urls(history: History) -> list[str]:
    """Every page of every project's graph was requested by it and stands there as done.

    Its result, too: unless a Redis restarted, which loses what pyspider's result worker had
    taken from its queue (pyspider keeps no copy; the product promises nothing about it).
    """
    served = {(request.project, request.path) for request in history.requests}
    lossy = any(hit.kind == "redis_restart" for hit in history.hits)
    lost = []
    for project, path in wanted(history.final):
        done = _by_path(history.final["rows"][project]).get(path) == SUCCESS
        kept = lossy or path in map(_path, history.final["results"][project])
        if not (done and kept and (project, path) in served):
            lost.append(f"{project} {path}")
    return lost


def results_missing(history: History) -> int:
    """Count the pages without a result, for whatever reason."""
    results = {
        (project, _path(url)) for project, urls in history.final["results"].items() for url in urls
    }
    return len(set(wanted(history.final)) - results)


def wanted(final: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return all pages of all projects."""
    return [
        (project["name"], f"/{project['graph']}/{page}")
        for project in final["projects"]
        for page in range(final["pages"])
    ]


def stranded(final: Mapping[str, Any], ended: float) -> list[str]:
    """No row is left ACTIVE, but those of ticks that came due after the end of the faults."""
    return [
        f"{project} {url}"
        for project, rows in final["rows"].items()
        for url, status in rows.items()
        if status == ACTIVE and not _later_tick(url, ended)
    ]


# -- ownership ------------------------------------------------------------------------------------


def overlaps(effects: Iterable[Effect]) -> list[Overlap]:
    """On a slot, no effect begins before those of all former owners have ended.

    Effects that the gate refused never happened. One without an epoch was asked for by hand, over
    XML-RPC, from a member that did not hold the slot.
    """
    by_slot: dict[int, list[Effect]] = defaultdict(list)
    for effect in effects:
        if effect.outcome != "refused" and effect.epoch is not None:
            by_slot[effect.slot].append(effect)
    return [each for mine in by_slot.values() for each in _overlaps_of_slot(mine)]


def _overlaps_of_slot(effects: list[Effect]) -> list[Overlap]:
    """Compare each effect with the latest ending and the newest epoch of the others before it."""
    found = []
    latest: dict[tuple[str, int | None], Effect] = {}
    for effect in sorted(effects, key=lambda one: one.start):
        for owner, other in latest.items():
            late = other.end > effect.start or (other.epoch or 0) > (effect.epoch or 0)
            if owner != effect.owner and late:
                found.append(Overlap(other, effect))
        known = latest.get(effect.owner)
        if known is None or effect.end >= known.end:
            latest[effect.owner] = effect
    return found


def without_paused(effects: Iterable[Effect], hits: Iterable[Hit]) -> list[Effect]:
    """Leave out the effects that a stop of their process fell into.

    That one write may happen after the lease: the documented exception, for no task database
    offers a conditional write.
    """
    stops = defaultdict(list)
    for hit in hits:
        if hit.kind == "stop":
            stops[hit.target].append(hit.start)
    return [
        effect
        for effect in effects
        if not any(effect.start <= stop <= effect.end for stop in stops[effect.member])
    ]


def moves(tenures: Iterable[Tenure]) -> list[Move]:
    """Return each slot's changes of owner, in order."""
    by_slot: dict[int, list[Tenure]] = defaultdict(list)
    for tenure in tenures:
        by_slot[tenure.slot].append(tenure)
    return [
        Move(*pair)
        for mine in by_slot.values()
        for pair in pairwise(sorted(mine, key=lambda one: (one.epoch, one.taken)))
    ]


# -- ticks ----------------------------------------------------------------------------------------


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


# -- duplicates -----------------------------------------------------------------------------------


def duplicate_fetches(history: History) -> Counter[tuple[str, str]]:
    """Count, by project and path, the requests after the first."""
    counts = Counter((request.project, request.path) for request in history.requests)
    return Counter({key: count - 1 for key, count in counts.items() if count > 1})


def duplicates_planned(history: History) -> list[str]:
    """A page is fetched twice only if something unplanned happened to its project in between.

    *In between* is from its first dispatch to the next one. *Something unplanned*: the slot went
    to another owner without a clean handoff; or a kill, stop, drop or clock jump hit a member
    while it owned the slot, up to ``SETTLE`` seconds before; or Redis restarted, for then the
    fate of what was just sent is unknown. A handoff that is not clean counts as unplanned only if
    a fault of any kind was there to explain it. More requests than dispatches is what only a
    Redis restart explains.
    """
    context = _Context(history)
    dispatched: dict[tuple[str, str], list[Effect]] = defaultdict(list)
    for effect in history.effects:
        if effect.kind == "send" and effect.outcome != "refused":
            dispatched[effect.project, _path(effect.url)].append(effect)
    return [
        f"{project} {path}"
        for (project, path), extra in duplicate_fetches(history).items()
        for _ in range(min(extra, context.unexplained(dispatched[project, path], extra)))
    ]


class _Context:
    """What happened to slots and their owners, for looking up."""

    def __init__(self, history: History) -> None:
        self._hits = history.hits
        self._moves: dict[int, list[Move]] = defaultdict(list)
        self._tenures: dict[int, list[Tenure]] = defaultdict(list)
        for move in moves(history.tenures):
            self._moves[move.new.slot].append(move)
        for tenure in history.tenures:
            self._tenures[tenure.slot].append(tenure)

    def unexplained(self, sends: Sequence[Effect], extra: int) -> int:
        """Count the requests after the first that nothing unplanned explains."""
        ordered = sorted(sends, key=lambda one: one.start)
        again = sum(not self._disturbed(*pair) for pair in pairwise(ordered))
        redis = any(hit.kind == "redis_restart" for hit in self._hits)
        return again + (0 if redis else max(0, extra - len(ordered) + 1))

    def _disturbed(self, first: Effect, second: Effect) -> bool:
        since, until = first.start, second.end
        broken = any(
            since <= move.new.taken <= until and not move.clean and self._was_hit(move, since)
            for move in self._moves[first.slot]
        )
        return broken or self._owner_hit(first.slot, since, until)

    def _was_hit(self, move: Move, since: float) -> bool:
        """Tell whether any fault explains that a handoff was not clean."""
        near = (hit for hit in self._hits if hit.kind not in _HARMLESS)
        return any(_meets(hit, since, move.new.taken) for hit in near)

    def _owner_hit(self, slot: int, since: float, until: float) -> bool:
        owners = {
            one.member
            for one in self._tenures[slot]
            if one.taken <= until and (one.left is None or one.left >= since)
        }
        return any(
            _meets(hit, since, until)
            for hit in self._hits
            if hit.kind == "redis_restart" or (hit.kind in UNPLANNED and hit.target in owners)
        )


# -- jobs ----------------------------------------------------------------------------------------


def jobs_lost(history: History) -> list[str]:
    """Every batch that was accepted is done, and has started each of its projects."""
    started = {effect.project for effect in _started(history)}
    return [
        f"{batch} {project}"
        for batch, found in history.final["batches"].items()
        for project in found["projects"]
        if found["state"] != "done" or found["errors"] or project not in started
    ]


def jobs_twice(history: History) -> list[str]:
    """A project is started once by its batch, unless something unplanned happened in between.

    What *unplanned* is, see `duplicates_planned`.
    """
    context = _Context(history)
    by_project: dict[str, list[Effect]] = defaultdict(list)
    for effect in _started(history):
        by_project[effect.project].append(effect)
    return [
        project
        for found in history.final["batches"].values()
        for project in found["projects"]
        for sends in [by_project[project]]
        for _ in range(context.unexplained(sends, len(sends) - 1))
    ]


def _started(history: History) -> Iterator[Effect]:
    """Yield the dispatches of ``on_start``."""
    for effect in history.effects:
        if (effect.kind, effect.task) == ("send", "on_start") and effect.outcome != "refused":
            yield effect


# -- times ----------------------------------------------------------------------------------------


def pauses(history: History) -> list[tuple[float, bool]]:
    """Return the seconds from give-up to loaded of each planned move of a slot with projects.

    With each: whether any fault was there meanwhile (its settling included); a leader that dies
    in the middle, or a Redis that is away, makes a planned move as long as it likes.
    """
    slots = {effect.slot for effect in history.effects}
    faults = [hit for hit in history.hits if hit.kind not in _HARMLESS | {"clock_jump"}]
    return [
        (move.new.ready - move.old.left, _any_meets(faults, move.old.left, move.new.ready))
        for move in moves(history.tenures)
        if move.clean and move.new.slot in slots
        if move.old.left is not None and move.new.ready is not None
    ]


def takeovers(history: History) -> list[float]:
    """Return, for each slot with projects of a member that was hit, how long till another had it.

    All are in it, also those in which the next fault already hit the leader or ZooKeeper. Slots
    that the member kept, since it came back in time and went on, are left out.
    """
    last: dict[tuple[int, str, int | None], float] = {}
    for effect in history.effects:
        if effect.outcome == "done":
            key = effect.slot, effect.member, effect.epoch
            last[key] = max(effect.start, last.get(key, 0.0))
    slots = {slot for slot, _, _ in last}
    return [
        (move.new.ready or move.new.taken) - hit.start
        for hit in history.hits
        if hit.kind in DEADLY
        for move in moves(history.tenures)
        if move.old.member == hit.target and move.new.slot in slots
        if _lost_by(move, hit, last.get((move.new.slot, hit.target, move.old.epoch), 0.0))
    ]


def _lost_by(move: Move, hit: Hit, last_effect: float) -> bool:
    """Tell whether a move is what a fault led to."""
    old, new = move
    held = old.taken <= hit.start and (old.left is None or old.left > hit.start)
    kept = old.planned or last_effect > hit.end
    return held and not kept and new.member != old.member and new.taken > hit.start


def percentile(values: Iterable[float], share: float) -> float | None:
    """Return the least value that this share of them does not exceed; None of nothing."""
    ordered = sorted(values)
    if not ordered:
        return None
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def _meets(hit: Hit, since: float, until: float) -> bool:
    return hit.start <= until and hit.end + SETTLE >= since


def _any_meets(hits: Iterable[Hit], since: float, until: float) -> bool:
    return any(_meets(hit, since, until) for hit in hits)


def _by_path(rows: Mapping[str, int]) -> dict[str, int]:
    return {_path(url): status for url, status in rows.items()}


def _path(url: str) -> str:
    return urlsplit(url).path


def _later_tick(url: str, ended: float) -> bool:
    path = _path(url)
    return path.startswith("/tick/") and int(path.rpartition("/")[2]) > ended
