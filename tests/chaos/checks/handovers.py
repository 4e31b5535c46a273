"""What an owner knows that no database holds goes to the next one."""

from collections.abc import Iterator, Mapping
from typing import Any

from tests.chaos.checks.moves import Move, SlotMoves, moves
from tests.chaos.history import History, SlotTenure

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
