"""How slots changed hands, what must go with them, and which fault explains that it did not.

How long it took is told, too; nothing of that can be wrong.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from tests.chaos.faults import HITS_ALL, HITS_LEASE
from tests.chaos.history import INFINITY, Effect, History, Hit, SlotTenure

SETTLE = 8.0
"""Seconds after the end of a fault of ZooKeeper or Redis until all members are well again."""

LOCKED = 5.0
"""Seconds after the end of a stop until a database that it left locked is asked again."""

REDIS_DELAY = 20.0
"""Seconds that a message may be on its way: so long before it went down, Redis may have lost it."""


def meets(hit: Hit, since: float, until: float, settle: float = 0.0) -> bool:
    """Return whether a fault, with its settling, was there between two times."""
    return hit.start <= until and hit.end + settle >= since


def redis_was_down(hits: Iterable[Hit], since: float, until: float) -> bool:
    """Return whether what was sent between two times may have got lost between two components."""
    downs = (hit for hit in hits if hit.kind == "redis_restart")
    return any(meets(hit, since, until + REDIS_DELAY, 1.0) for hit in downs)


class Move(NamedTuple):
    """A slot that went from one owner to the next; the first owner has no former one."""

    old: SlotTenure
    new: SlotTenure

    @property
    def asked(self) -> bool:
        """Whether the old owner gave up in order, able to hand over, before the new one took it."""
        was_first = self.old.gone is not None and self.old.gone <= self.new.taken
        return was_first and self.old.planned and self.old.clean and not self.old.uncommitted

    @property
    def clean(self) -> bool:
        """Whether the new owner got all from the old one."""
        return self.asked and (self.new.epoch == self.old.epoch + 1 or bool(self.new.received))


def moves(tenures: Iterable[SlotTenure]) -> list[Move]:
    """Return each slot's changes of owner, in order.

    Who was stopped and took a slot that a later owner had taken already never owned it.
    """
    by_slot: dict[int, list[SlotTenure]] = defaultdict(list)
    for tenure in tenures:
        by_slot[tenure.slot].append(tenure)
    return [
        Move(*pair)
        for mine in by_slot.values()
        for pair in pairwise(_in_time(sorted(mine, key=lambda one: (one.epoch, one.taken))))
    ]


def _in_time(tenures: Sequence[SlotTenure]) -> list[SlotTenure]:
    """Return the tenures, by epoch, that began before all later ones."""
    first = INFINITY
    found = []
    for tenure in reversed(tenures):
        if tenure.taken <= first:
            found.append(tenure)
        first = min(first, tenure.taken)
    return found[::-1]


class SlotMoves:
    """All moves of a history by slot, and the faults that explain those that were not clean."""

    def __init__(self, history: History) -> None:
        self._hits = history.hits
        self._skips = {(skip.slot, skip.epoch): skip for skip in history.skips}
        self._last_act = _last_acts(history.effects, history.tenures)
        self._by_slot: dict[int, list[Move]] = defaultdict(list)
        for move in moves(history.tenures):
            self._by_slot[move.new.slot].append(move)

    def between(self, slot: int, since: float, until: float) -> list[Move]:
        """Return the moves of a slot whose new owner took it between two times."""
        return [move for move in self._by_slot[slot] if since <= move.new.taken <= until]

    def broken(self, slot: int, since: float, until: float) -> bool:
        """Return whether a fault broke a slot's chain of owners between two times."""
        return any(
            not move.clean and self.explained(move) for move in self.between(slot, since, until)
        )

    def heir(self, move: Move, name: str) -> SlotTenure | None:
        """Return who first had a project in memory after a clean move; None if nobody could.

        Who has to wait for a database may have to pass on what it got before it could load it.
        """
        followers = {id(one.old): one for one in self._by_slot[move.new.slot]}
        while name not in move.new.found and id(move.new) in followers:
            move = followers[id(move.new)]
            if not move.clean:
                return None
        return move.new

    def explained(self, move: Move) -> bool:
        """Return whether a fault is there that can have kept a move from being clean.

        The old owner was hit while it owned the slot, and did not come back in time; or Redis
        or ZooKeeper was away from it. If it gave up in order, only what hit those in between
        counts, who were granted the slot and did not live to take it. If it could not commit
        what it had applied, somebody was stopped who may have locked the task database.
        """
        if move.asked:
            return self._died_between(move)
        if move.old.uncommitted:
            return self._was_locked(move.old.left or move.new.taken)
        struck = any(self._took(hit, move) for hit in self._hits if hit.kind in HITS_LEASE)
        lost = move.new.taken if move.old.left is None else move.old.left
        return struck or self._all_hit(lost - SETTLE, move.new.taken)

    def _was_locked(self, left: float) -> bool:
        stops = (hit for hit in self._hits if hit.kind == "stop")
        return any(meets(hit, left, left, LOCKED) for hit in stops)

    def _died_between(self, move: Move) -> bool:
        old, new = move
        since = new.taken if old.left is None else old.left
        if all(self._passed_on(move, epoch) for epoch in range(old.epoch + 1, new.epoch)):
            return False
        struck = (hit for hit in self._hits if hit.kind in HITS_LEASE)
        met = any(meets(hit, since, new.taken, SETTLE) for hit in struck)
        return met or self._all_hit(since, new.taken)

    def _passed_on(self, move: Move, epoch: int) -> bool:
        """Return whether who was granted a slot in between could hand on what it got."""
        skip = self._skips.get((move.old.slot, epoch))
        return skip is not None and skip.is_open and skip.at <= move.new.taken

    def _all_hit(self, since: float, until: float) -> bool:
        everybody = (hit for hit in self._hits if hit.kind in HITS_ALL)
        return any(meets(hit, since, until, SETTLE) for hit in everybody)

    def _took(self, hit: Hit, move: Move) -> bool:
        """Return whether a fault hit the old owner and cost it the slot."""
        held = move.old.taken <= hit.end and hit.start <= move.new.taken
        key = move.old.member, move.old.slot, move.old.epoch
        kept = self._last_act.get(key, -INFINITY) > hit.end
        return hit.target == move.old.member and held and not kept


def _last_acts(
    effects: Iterable[Effect], tenures: Iterable[SlotTenure]
) -> dict[tuple[str, int, int], float]:
    """Return when each owner last had an effect; what the fence refused is none."""
    known = {(tenure.member, tenure.slot, tenure.epoch) for tenure in tenures}
    last: dict[tuple[str, int, int], float] = {}
    for effect in effects:
        key = effect.member, effect.slot, effect.epoch
        if key in known and effect.outcome == "done":
            last[key] = max(effect.start, last.get(key, -INFINITY))
    return last


State = Mapping[str, Any]


def handovers(history: History) -> list[str]:
    """The next owner after a planned move knows of each project what the former one knew.

    That is: the rate's bucket, whether it is paused, its counters, its script's information, its
    last tick, the tasks under way. A slot that its owner gave up in order and that comes to the
    next one without all that was handed over badly, unless those who were granted it in between
    did not live to take it. Nor may it be given up with uncommitted tasks, unless the task database
    can have been locked.
    """
    known = SlotMoves(history)
    found = []
    for move in moves(history.tenures):
        if move.asked and move.old.given and move.new.ready is not None:
            if move.clean:
                found += _lost(move, known)
            elif not known.explained(move):
                found.append(f"slot {move.old.slot} epoch {move.old.epoch}: nothing")
        if move.old.uncommitted and not known.explained(move):
            found.append(f"slot {move.old.slot} epoch {move.old.epoch}: uncommitted")
    return found


def _lost(move: Move, known: SlotMoves) -> Iterator[str]:
    """Name what each project of a slot lost in a clean move."""
    for name in move.old.given:
        heir = known.heir(move, name)
        if heir is not None:
            yield from (f"{name} epoch {heir.epoch}: {each}" for each in _less(move, heir, name))


def _less(move: Move, heir: SlotTenure, name: str) -> list[str]:
    found = heir.found.get(name)
    if found is None:
        return ["all"]
    waited = (heir.ready or heir.taken) - (move.old.left or 0.0)
    return list(_forgotten(move.old.given[name], found, waited))


def _forgotten(given: State, found: State, waited: float) -> Iterator[str]:
    """Name what is less than it was; a bucket fills with the time, and one may have been due."""
    if found["bucket"] > given["bucket"] + given["rate"] * waited + 1:
        yield "rate"
    if given["paused"] and not found["paused"]:
        yield "pause"
    if found["counted"] < given["counted"]:
        yield "counters"
    if given["known"] and not found["known"]:
        yield "script information"
    if given["tick"] is not None and (found["tick"] is None or found["tick"] < given["tick"]):
        yield "tick"
    if found["processing"] < given["processing"]:
        yield "tasks under way"


def pauses(history: History) -> list[tuple[float, bool]]:
    """Return the seconds from give-up to loaded of each planned move of a slot with projects.

    With each: whether any fault was there meanwhile (its settling included); a leader that dies
    in the middle, or a Redis that is away, makes a planned move as long as it likes.
    """
    slots = {effect.slot for effect in history.effects}
    faults = [hit for hit in history.hits if hit.kind in HITS_LEASE | HITS_ALL]
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
        if hit.kind in HITS_LEASE
        for move in moves(history.tenures)
        if move.old.member == hit.target and move.new.slot in slots
        if _lost_by(move, hit, last.get((move.new.slot, hit.target, move.old.epoch), 0.0))
    ]


def _lost_by(move: Move, hit: Hit, last_effect: float) -> bool:
    """Return whether a move is what a fault led to."""
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


def _any_meets(hits: Iterable[Hit], since: float, until: float) -> bool:
    return any(meets(hit, since, until, SETTLE) for hit in hits)
