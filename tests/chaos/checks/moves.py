"""How slots changed hands, and which fault explains that one was not handed over."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from tests.chaos.checks.faults import HITS_ALL, HITS_LEASE, LOCKED, SETTLE, meets
from tests.chaos.history import INFINITY, Effect, History, Hit, SlotTenure


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
