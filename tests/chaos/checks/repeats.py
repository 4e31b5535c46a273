"""What was done is not done again, unless something unplanned happened just then."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from tests.chaos.checks.losses import FAILED, SUCCESS
from tests.chaos.checks.moves import SlotMoves, meets, redis_was_down
from tests.chaos.checks.owners import without_paused
from tests.chaos.history import INFINITY, Effect, History, SlotTenure

HELD_UP = 3.0
"""Seconds that a busy machine may let pass between reading the clock and noting what was done."""

Key = tuple[str, str]
"""Project and path of a page."""


class Repeat(NamedTuple):
    """A page that was dispatched again, though nothing explains it.

    Attributes:
        rescued: the scheduler had waited for its status pack until the time-out.
    """

    first: Effect
    second: Effect
    rescued: bool


def duplicate_fetches(history: History) -> Counter[Key]:
    """Count, by project and path, the requests after the first."""
    counts = Counter((request.project, request.path) for request in history.requests)
    return Counter({key: count - 1 for key, count in counts.items() if count > 1})


def duplicates_planned(history: History) -> list[str]:
    """A page is dispatched once and requested once for it, unless something unplanned happened.

    What explains a second dispatch, see `repeats`. More requests than dispatches are what a Redis
    that restarted meanwhile explains, for what was put there may be there though it said no; and a
    fetcher that was killed between two of them, once.
    """
    again = [_name(one.second) for one in repeats(history) if not one.rescued]
    return again + _requested_again(history)


def rescued(history: History) -> list[str]:
    """No page waits for pyspider's time-out, unless something unplanned lost it."""
    return [_name(one.second) for one in repeats(history) if one.rescued]


def jobs_twice(history: History) -> list[str]:
    """A project is started once by its batch; for what explains a second start, see `repeats`."""
    asked = {
        project for found in history.final["batches"].values() for project in found["projects"]
    }
    starts = (one for one in history.effects if one.task == "on_start" and one.project in asked)
    by_project: dict[str, list[Effect]] = defaultdict(list)
    for effect in starts:
        if effect.kind == "send":
            by_project[effect.project].append(effect)
    judge = _Judge(history)
    return [
        project
        for project, sends in by_project.items()
        for _ in judge.repeats((project, "on_start"), sends)
    ]


def repeats(history: History) -> list[Repeat]:
    """Return the dispatches of pages that came again without an explanation.

    Once an owner has stored that a page is done, nothing explains another dispatch: not a death,
    not a Redis. But a write of that page into which a stop of its process fell, and which may
    have come after all others.
    Before, three things do. The slot went to another owner without a clean handoff, for a fault.
    Redis restarted while the page was with fetcher or processor. A clock jumped, of a member
    that owned the slot meanwhile: that is how the time-out is told.
    """
    judge = _Judge(history)
    sends: dict[Key, list[Effect]] = defaultdict(list)
    for effect in _dispatches(history):
        sends[effect.project, effect.path].append(effect)
    return [found for key, mine in sends.items() for found in judge.repeats(key, mine)]


class _Judge:
    """Knows what happened to slots, their owners and each page."""

    def __init__(self, history: History) -> None:
        self._time_out = history.time_out
        self._hits = history.hits
        self._moves = SlotMoves(history)
        self._tenures: dict[int, list[SlotTenure]] = defaultdict(list)
        for tenure in history.tenures:
            self._tenures[tenure.slot].append(tenure)
        self._done = _done(history)
        self._paused = _paused(history)

    def repeats(self, key: Key, sends: Sequence[Effect]) -> Iterator[Repeat]:
        """Yield what nothing explains of the dispatches of one page."""
        sent = sorted((one for one in sends if one.outcome != "refused"), key=lambda one: one.start)
        for first, second in pairwise(sent):
            done = self._done.get(key, INFINITY) <= second.start
            if not (self._rewritten(key, second) if done else self._explained(first, second)):
                waited = second.start - first.start >= self._time_out
                yield Repeat(first, second, rescued=waited and not done)

    def _rewritten(self, key: Key, second: Effect) -> bool:
        return any(write.start <= second.start for write in self._paused.get(key, ()))

    def _explained(self, first: Effect, second: Effect) -> bool:
        since, until = first.start, second.start
        return (
            first.outcome != "done"  # whether it went out is not known
            or self._moves.broken(first.slot, since, until)
            or any(
                meets(hit, since, until, 1.0) for hit in self._hits if hit.kind == "redis_restart"
            )
            or self._clock_jumped(first.slot, since, until)
        )

    def _clock_jumped(self, slot: int, since: float, until: float) -> bool:
        owners = {
            one.member
            for one in self._tenures[slot]
            if one.taken <= until and (one.left is None or one.left >= since)
        }
        jumps = (hit for hit in self._hits if hit.kind == "clock_jump" and hit.target in owners)
        return any(meets(hit, since, until, HELD_UP) for hit in jumps)


def _requested_again(history: History) -> list[str]:
    """Return the requests that are more than the dispatches."""
    sends: dict[Key, list[Effect]] = defaultdict(list)
    for effect in _dispatches(history):
        sends[effect.project, effect.path].append(effect)
    times: dict[Key, list[float]] = defaultdict(list)
    for request in history.requests:
        times[request.project, request.path].append(request.at)
    found = []
    for key, extra in duplicate_fetches(history).items():
        known = sends[key]
        lossy = any(redis_was_down(history.hits, one.start, one.end) for one in known)
        killed = _fetchers_killed(history, min(times[key]), max(times[key]))
        more = 0 if lossy else max(0, extra + 1 - max(1, len(known)) - killed)
        found += [" ".join(key)] * more
    return found


def _fetchers_killed(history: History, since: float, until: float) -> int:
    """Return how many fetchers were killed between two requests; a kill is noted before it."""
    return sum(
        hit.start + HELD_UP >= since and hit.start <= until
        for hit in history.hits
        if hit.kind == "worker_kill" and hit.target.startswith("fetcher")
    )


def _dispatches(history: History) -> Iterator[Effect]:
    """Yield what was sent of pages that are on the site."""
    for effect in history.effects:
        if effect.kind == "send" and effect.outcome != "refused" and _is_page(effect):
            yield effect


def _done(history: History) -> dict[Key, float]:
    """Return when each page was first stored as done."""
    done: dict[Key, float] = {}
    for effect in history.effects:
        ended = effect.kind == "update" and effect.status in (SUCCESS, FAILED)
        if ended and effect.outcome == "done":
            key = _key(effect)
            done[key] = min(effect.end, done.get(key, INFINITY))
    return done


def _paused(history: History) -> dict[Key, list[Effect]]:
    """Return the writes of each page that a stop of their process fell into."""
    awake = set(map(id, without_paused(history.effects, history.hits)))
    found: dict[Key, list[Effect]] = defaultdict(list)
    for effect in history.effects:
        if id(effect) not in awake and effect.kind != "send":
            found[_key(effect)].append(effect)
    return found


def _key(effect: Effect) -> Key:
    return effect.project, effect.path if _is_page(effect) else effect.task


def _name(effect: Effect) -> str:
    return f"{effect.project} {effect.path}"


def _is_page(effect: Effect) -> bool:
    return effect.url.startswith("http")
