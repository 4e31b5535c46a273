"""Lies about a run: each breaks one promise, in a place where that promise holds.

A lie is told to a recorded history, to see that the checker finds it. The places are chosen by
what the history says, not by what the checker would excuse: what was stored as done is done,
whatever faults there were; elsewhere no fault hit a member that owned the slot, nor a service.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from tests.chaos.checks.losses import ACTIVE, FAILED, SUCCESS
from tests.chaos.faults import HITS_ALL
from tests.chaos.history import INFINITY, Effect, History, Request, SlotTenure
from tests.chaos.recorder import Commit

QUIET = 10.0
"""Seconds without a fault that concerns it before a place that must be undisturbed."""

_SOON = 0.05  # seconds

Place = Any
"""Where a lie can be told; each lie has its own kind."""


@dataclass(frozen=True)
class Lie:
    """One kind of lie.

    Attributes:
        promise: the name of what must be found.
        places: where it can be told in a history.
        tell: tells it in one of these places.
    """

    promise: str
    places: Callable[[History], Iterable[Place]]
    tell: Callable[[History, Any], History]


# -- what a history says --------------------------------------------------------------------------


class _Owners:
    """Who owned which slot when."""

    def __init__(self, history: History) -> None:
        self._by_slot: dict[int, list[SlotTenure]] = defaultdict(list)
        for tenure in sorted(history.tenures, key=lambda one: one.epoch):
            self._by_slot[tenure.slot].append(tenure)

    def at(self, slot: int, when: float) -> SlotTenure | None:
        """Return who had loaded a slot then, and goes on for a while."""
        for tenure, end in self._spans(slot):
            if tenure.ready is not None and tenure.ready <= when and when + 1 < end:
                return tenure
        return None

    def successions(self) -> Iterator[tuple[SlotTenure, SlotTenure]]:
        """Yield each two owners of a slot, one after the other, if the second went on a while."""
        for slot, mine in self._by_slot.items():
            ends = {id(tenure): end for tenure, end in self._spans(slot)}
            for old, new in pairwise(mine):
                lasting = new.ready is not None and new.ready + 1 < ends[id(new)]
                if lasting and old.member != new.member:
                    yield old, new

    def planned(self) -> Iterator[tuple[SlotTenure, SlotTenure]]:
        """Yield those that handed over in order."""
        for old, new in self.successions():
            in_order = old.planned and old.clean and not old.uncommitted
            if old.left is not None and in_order and new.epoch == old.epoch + 1:
                yield old, new

    def _spans(self, slot: int) -> Iterator[tuple[SlotTenure, float]]:
        mine = self._by_slot[slot]
        followers = [tenure.taken for tenure in mine[1:]] + [INFINITY]
        for tenure, follower in zip(mine, followers, strict=True):
            yield tenure, follower if tenure.left is None else tenure.left


def _sends(history: History) -> dict[tuple[str, str], Effect]:
    """Return the first dispatch of each page."""
    found: dict[tuple[str, str], Effect] = {}
    for effect in sorted(history.effects, key=lambda one: one.start):
        if effect.kind == "send" and effect.outcome == "done" and effect.url.startswith("http"):
            found.setdefault((effect.project, effect.path), effect)
    return found


def _stored(history: History) -> dict[tuple[str, str], Effect]:
    """Return the write that stored each task as done, by project and task id."""
    found: dict[tuple[str, str], Effect] = {}
    for effect in sorted(history.effects, key=lambda one: one.start):
        ended = effect.kind == "update" and effect.status in (SUCCESS, FAILED)
        if ended and effect.outcome == "done":
            found.setdefault((effect.project, effect.task), effect)
    return found


def _quiet(history: History, members: Collection[str], since: float, until: float) -> bool:
    """Return whether these members and all services were left alone."""
    return not any(
        hit.start <= until and hit.end + QUIET >= since
        for hit in history.hits
        if hit.target in members or hit.kind in HITS_ALL
    )


def _ticks(history: History) -> list[Effect]:
    return [one for one in history.effects if one.tick is not None and one.outcome == "done"]


# -- what is told ---------------------------------------------------------------------------------


def _with_effect(history: History, effect: Effect) -> History:
    """Add an effect; a dispatch of a page is requested, too."""
    more = [Request(effect.end, effect.project, effect.path)] if effect.kind == "send" else []
    requests = [*history.requests, *more]
    return replace(history, effects=[*history.effects, effect], requests=requests)


def _by(effect: Effect, owner: SlotTenure, at: float) -> Effect:
    """Return the same effect, done by an owner at another time."""
    how = {"start": at, "end": at + 0.001, "outcome": "done"}
    return replace(effect, member=owner.member, epoch=owner.epoch, **how)


def _after_moves(history: History) -> Iterator[Effect]:
    """The next owner sends a page again after a planned move, though it was done before."""
    stored = _stored(history)
    by_slot: dict[int, list[Effect]] = defaultdict(list)
    for effect in _sends(history).values():
        by_slot[effect.slot].append(effect)
    for old, new in _Owners(history).planned():
        for effect in by_slot[old.slot]:
            write = stored.get((effect.project, effect.task))
            if write is not None and write.end < (old.left or 0):
                yield _by(effect, new, (new.ready or 0) + _SOON)


def _after_moves_under_way(history: History) -> Iterator[Effect]:
    """The same of a page that was under way when the slot moved."""
    stored = _stored(history)
    by_slot: dict[int, list[Effect]] = defaultdict(list)
    for effect in _sends(history).values():
        by_slot[effect.slot].append(effect)
    for old, new in _Owners(history).planned():
        again = (new.ready or 0) + 0.001
        for effect in by_slot[old.slot]:
            write = stored.get((effect.project, effect.task))
            mine = effect.owner == (old.member, old.epoch)
            away = mine and write is not None and write.start > again
            if away and _quiet(history, {old.member, new.member}, effect.start, again):
                yield _by(effect, new, again)


def _later(history: History) -> Iterator[Effect]:
    """Whoever owns the slot by then sends a page again after the time-out, though it is done."""
    owners, stored = _Owners(history), _stored(history)
    for effect in _sends(history).values():
        again = effect.start + history.time_out + _SOON
        write, owner = stored.get((effect.project, effect.task)), owners.at(effect.slot, again)
        if write is not None and write.end < again and owner is not None:
            yield _by(effect, owner, again)


def _rescues(history: History) -> Iterator[tuple[Effect, Effect]]:
    """A status pack is lost, and the page is sent again after the time-out."""
    stored = _stored(history)
    for again in _later(history):
        first = again.start - history.time_out - _SOON
        members = {tenure.member for tenure in history.tenures if tenure.slot == again.slot}
        if _quiet(history, members, first, again.start):
            yield stored[again.project, again.task], again


def _tell_rescue(history: History, place: tuple[Effect, Effect]) -> History:
    write, again = place
    kept = [effect for effect in history.effects if effect is not write]
    late = replace(write, start=again.start + 1, end=again.start + 1)
    late = replace(late, member=again.member, epoch=again.epoch)
    return replace(_with_effect(history, again), effects=[*kept, again, late])


def _starts(history: History) -> Iterator[Effect]:
    """A project of a batch is started a second time, though the first time is over."""
    owners, stored = _Owners(history), _stored(history)
    asked = {name for one in history.final["batches"].values() for name in one["projects"]}
    for effect in history.effects:
        first = (effect.kind, effect.task, effect.outcome) == ("send", "on_start", "done")
        write = stored.get((effect.project, "on_start"))
        if first and effect.project in asked and write is not None:
            owner = owners.at(effect.slot, write.end + _SOON)
            if owner is not None:
                yield _by(effect, owner, write.end + _SOON)


def _due(history: History) -> Iterator[tuple[str, int]]:
    """A tick inside the checked time is missing."""
    times, first = history.final["times"], dict[str, int]()
    for effect in _ticks(history):
        first[effect.project] = min(effect.tick or 0, first.get(effect.project, effect.tick or 0))
    names = {project["name"] for project in history.final["projects"]}
    for project, tick in sorted({(one.project, one.tick or 0) for one in _ticks(history)}):
        if project in names and first[project] < tick <= times["ended"]:
            yield project, tick


def _without_tick(history: History, place: tuple[str, int]) -> History:
    effects = [one for one in history.effects if (one.project, one.tick) != place]
    return replace(history, effects=effects)


def _tick_pages(history: History) -> Iterator[tuple[str, str]]:
    """The page that a tick asks for never appears."""
    ended = history.final["times"]["ended"]
    names = {project["name"] for project in history.final["projects"]}
    downs = [hit for hit in history.hits if hit.kind == "redis_restart"]
    for effect in _ticks(history):
        near = any(hit.start - QUIET <= effect.start <= hit.end + QUIET for hit in downs)
        if effect.project in names and (effect.tick or 0) <= ended and not near:
            yield effect.project, f"/tick/{effect.tick}"


def _graph_pages(history: History) -> Iterator[tuple[str, str]]:
    """A page of a graph is lost, as its task never was."""
    for project in history.final["projects"]:
        for page in range(history.final["pages"]):
            yield project["name"], f"/{project['graph']}/{page}"


def _without_page(history: History, place: tuple[str, str]) -> History:
    project, path = place

    def rest(urls: Any) -> Any:
        if isinstance(urls, dict):
            return {url: status for url, status in urls.items() if not url.endswith(path)}
        return [url for url in urls if not url.endswith(path)]

    final = dict(history.final)
    for kind in ("rows", "results"):
        final[kind] = {**final[kind], project: rest(final[kind][project])}
    return replace(
        history,
        effects=[one for one in history.effects if (one.project, one.path) != place],
        requests=[one for one in history.requests if (one.project, one.path) != place],
        final=final,
    )


def _left_active(history: History, place: tuple[str, str]) -> History:
    """A row is left ACTIVE, with everything else as it should be."""
    project, path = place
    rows = history.final["rows"][project]
    left = {url: ACTIVE if url.endswith(path) else status for url, status in rows.items()}
    return replace(
        history, final={**history.final, "rows": {**history.final["rows"], project: left}}
    )


def _without_result(history: History, place: tuple[str, str]) -> History:
    """A page's result is missing."""
    project, path = place
    results = [url for url in history.final["results"][project] if not url.endswith(path)]
    found = {**history.final["results"], project: results}
    return replace(history, final={**history.final, "results": found})


def _undisturbed_pages(history: History) -> Iterator[tuple[str, str]]:
    """No Redis restarted while the page was requested."""
    downs = [hit for hit in history.hits if hit.kind == "redis_restart"]
    requests = {(one.project, one.path): one.at for one in history.requests}
    for page in _graph_pages(history):
        at = requests[page]
        if not any(hit.start - QUIET <= at <= hit.end + QUIET for hit in downs):
            yield page


def _ticks_again(history: History) -> Iterator[Effect]:
    """The same owner sends a tick again, at once."""
    for effect in _ticks(history):
        yield replace(effect, start=effect.end + 0.001, end=effect.end + 0.002)


def _ticks_after_moves(history: History) -> Iterator[Effect]:
    """The next owner sends a tick again after a planned move."""
    by_slot: dict[int, list[Effect]] = defaultdict(list)
    for effect in _ticks(history):
        by_slot[effect.slot].append(effect)
    for old, new in _Owners(history).planned():
        for effect in by_slot[old.slot]:
            if effect.owner == (old.member, old.epoch):
                yield _by(effect, new, (new.ready or 0) + _SOON)


def _old_owners(history: History) -> Iterator[Effect]:
    """An owner inserts a page after the next one has loaded the slot."""
    some = next(one for one in history.effects if one.kind == "insert")
    for old, new in _Owners(history).successions():
        yield replace(_by(some, old, (new.ready or 0) + _SOON), slot=old.slot)


def _successions(history: History) -> Iterator[tuple[SlotTenure, SlotTenure]]:
    """An owner's write is committed once the next one has sealed the slot."""
    return _Owners(history).successions()


def _with_late_write(history: History, place: tuple[SlotTenure, SlotTenure]) -> History:
    old, new = place
    late = [Commit("seal", new.slot, new.epoch), Commit("write", old.slot, old.epoch, old.member)]
    return replace(history, commits=[*history.commits, *late])


def _second_owners(history: History) -> Iterator[Effect]:
    """Another member does what the owner does, at once, with an older epoch."""
    members = sorted({tenure.member for tenure in history.tenures})
    for effect in history.effects:
        if effect.outcome == "done" and effect.epoch is not None:
            other = next(name for name in members if name != effect.member)
            at = {"start": effect.end + 0.001, "end": effect.end + 0.002}
            yield replace(effect, member=other, epoch=effect.epoch - 1, **at)


def _strangers(history: History) -> Iterator[Effect]:
    """Another member acts on a slot that it does not hold."""
    return (replace(effect, epoch=None) for effect in _second_owners(history))


_Handover = tuple[SlotTenure, str]


def _given(worth: Callable[[Mapping[str, Any]], bool]) -> Callable[[History], Iterator[_Handover]]:
    """Return what yields the planned moves of projects whose state is worth something."""

    def places(history: History) -> Iterator[_Handover]:
        for old, new in _Owners(history).planned():
            for project, state in old.given.items():
                if worth(state):
                    yield new, project

    return places


def _forgets(key: str, value: Any) -> Callable[[History, _Handover], History]:
    def tell(history: History, place: _Handover) -> History:
        new, project = place
        found = {**new.found, project: {**new.found[project], key: value}}
        forgetful = replace(new, found=found)
        tenures = [forgetful if one is new else one for one in history.tenures]
        return replace(history, tenures=tenures)

    return tell


def _rates(history: History) -> Iterator[_Handover]:
    """The next owner begins with a full bucket; none is full again by then of itself."""
    for old, new in _Owners(history).planned():
        waited = (new.ready or 0) - (old.left or 0)
        for project, state in old.given.items():
            if state["bucket"] + state["rate"] * waited + 1 < state["burst"]:
                yield new, project


def _full_bucket(history: History, place: _Handover) -> History:
    new, project = place
    return _forgets("bucket", new.found[project]["burst"])(history, place)


_paused = _given(lambda state: state["paused"])
_counted = _given(lambda state: state["counted"] > 0)
_last_ticks = _given(lambda state: state["tick"] is not None)
_under_way = _given(lambda state: state["processing"] > 0)


def _planned(history: History) -> Iterator[tuple[SlotTenure, SlotTenure]]:
    """A slot is given up without what was applied being committed."""
    return _Owners(history).planned()


def _uncommitted(history: History, place: tuple[SlotTenure, SlotTenure]) -> History:
    old, _ = place
    told = replace(old, uncommitted=True)
    return replace(history, tenures=[told if one is old else one for one in history.tenures])


def _never_done(history: History, batch: str) -> History:
    all_of_them = history.final["batches"]
    found = {**all_of_them[batch], "state": "running"}
    return replace(history, final={**history.final, "batches": {**all_of_them, batch: found}})


def _members(history: History) -> Iterator[str]:
    """A scheduler ends by itself, or not when it is told to."""
    return iter(sorted({tenure.member for tenure in history.tenures}))


def _remarked(event: str) -> Callable[[History, str], History]:
    def tell(history: History, member: str) -> History:
        remark = {"t": 0.0, "e": event, "target": member, "code": 7}
        return replace(history, remarks=[*history.remarks, remark])

    return tell


def _drained(history: History) -> Iterator[int]:
    """A scheduler that was told to end says that something was wrong."""
    return (n for n, hit in enumerate(history.hits) if hit.kind == "drain")


def _with_code(history: History, number: int) -> History:
    hits = list(history.hits)
    hits[number] = replace(hits[number], code=7)
    return replace(history, hits=hits)


LIES: Mapping[str, Lie] = {
    "sent again after a planned move": Lie("duplicates_planned", _after_moves, _with_effect),
    "sent again while under way": Lie("duplicates_planned", _after_moves_under_way, _with_effect),
    "sent again after the time-out": Lie("duplicates_planned", _later, _with_effect),
    "rescued after the time-out": Lie("rescued", _rescues, _tell_rescue),
    "started twice": Lie("jobs_twice", _starts, _with_effect),
    "tick missing": Lie("missed_ticks", _due, _without_tick),
    "page of a tick missing": Lie("lost", _tick_pages, _without_page),
    "page missing": Lie("lost", _graph_pages, _without_page),
    "result missing": Lie("lost", _undisturbed_pages, _without_result),
    "left active": Lie("stranded", _graph_pages, _left_active),
    "tick sent twice": Lie("ticks_twice", _ticks_again, _with_effect),
    "tick sent by two owners": Lie("ticks_twice", _ticks_after_moves, _with_effect),
    "old owner inserts": Lie("late", _old_owners, _with_effect),
    "old owner commits": Lie("late_writes", _successions, _with_late_write),
    "second owner, older epoch": Lie("overlaps", _second_owners, _with_effect),
    "second owner, no epoch": Lie("unowned", _strangers, _with_effect),
    "rate not handed over": Lie("handovers", _rates, _full_bucket),
    "pause not handed over": Lie("handovers", _paused, _forgets("paused", False)),
    "counters not handed over": Lie("handovers", _counted, _forgets("counted", 0)),
    "tick not handed over": Lie("handovers", _last_ticks, _forgets("tick", None)),
    "tasks under way not handed over": Lie("handovers", _under_way, _forgets("processing", 0)),
    "given up with uncommitted tasks": Lie("handovers", _planned, _uncommitted),
    "batch never done": Lie("jobs_lost", lambda history: history.final["batches"], _never_done),
    "ended by itself": Lie("fallen", _members, _remarked("fallen")),
    "ended with a code": Lie("fallen", _drained, _with_code),
    "did not end": Lie("overdue", _members, _remarked("overdue")),
}
"""By what is told; the first ones are those that a run was once too noisy to hear."""
