"""What happened in a run, as values: read from its folder, or made by hand in a test."""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.chaos.recorder import PROCESSING_TIMEOUT, Commit, read_lines

EFFECTS = frozenset({"insert", "update", "send"})
INFINITY = float("inf")

States = Mapping[str, Mapping[str, Any]]
"""What no database holds of each project of a slot; see ``scheduler.py``."""


@dataclass(frozen=True)
class Effect:
    """Something a member did for a slot: from before it asked its fence until it was done.

    Attributes:
        member: the label of a scheduler process.
        end: when it was done; its start, if the process was killed before.
        outcome: done, refused (by the fence), failed, or unknown: killed before the end.
        status: of an insert or update: the state that the task's row was given.
        by_hand: asked for over XML-RPC, not by the scheduling loop.
    """

    member: str
    kind: str
    slot: int
    epoch: int | None
    project: str
    task: str
    start: float
    end: float
    outcome: str = "done"
    tick: int | None = None
    url: str = ""
    status: int | None = None
    by_hand: bool = False

    @property
    def path(self) -> str:
        """The page, as the site knows it."""
        return urlsplit(self.url).path

    @property
    def owner(self) -> tuple[str, int | None]:
        """Who did it, as which owner."""
        return self.member, self.epoch


@dataclass(frozen=True)
class SlotTenure:
    """A member's time with a slot.

    Attributes:
        ready: when the slot's projects were loaded; None: never.
        left: when it was begun to be given up; None: never, the process ended or is the last.
        gone: when it had been given up to the end; None: never, something came between.
        planned: the leader had asked for it, or the process ended in order.
        clean: its fence was open from then until it had been given up, so the next owner could be
            left what no database holds.
        uncommitted: the task database did not take what was applied by then, so the next owner
            begins as after a death.
        received: it got all of that from the one before; None: the slot had no projects.
        found: the state of each project once the slot was loaded.
        given: the same when the slot was begun to be given up.
    """

    member: str
    slot: int
    epoch: int
    taken: float
    ready: float | None = None
    left: float | None = None
    gone: float | None = None
    planned: bool = False
    clean: bool = False
    uncommitted: bool = False
    received: bool | None = None
    found: States = field(default_factory=dict)
    given: States = field(default_factory=dict)


@dataclass(frozen=True)
class Skip:
    """A slot that a member was asked to release before it had taken it.

    Attributes:
        is_open: whether its fence was open then, so that it could hand on what it got.
    """

    member: str
    slot: int
    epoch: int
    at: float
    is_open: bool = True


@dataclass(frozen=True)
class Hit:
    """A fault that happened: to whom, from when until it was undone.

    Attributes:
        code: how a scheduler ended that was told to; None of others.
        still: when a process that was stopped surely stood still, which is after ``start``.
    """

    kind: str
    target: str
    start: float
    end: float
    code: int | None = None
    still: float | None = None


@dataclass(frozen=True)
class Request:
    """A request that the site served."""

    at: float
    project: str
    path: str


@dataclass(frozen=True)
class History:
    """All of it.

    Attributes:
        remarks: other events of the harness, such as a scheduler that ended by itself.
        time_out: seconds after which its schedulers sent again what nothing came back of.
        final: what stood in the databases at the end, and the run's times.
        commits: of the task database, in order.
    """

    effects: list[Effect] = field(default_factory=list)
    tenures: list[SlotTenure] = field(default_factory=list)
    hits: list[Hit] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    skips: list[Skip] = field(default_factory=list)
    remarks: list[Mapping[str, Any]] = field(default_factory=list)
    time_out: float = PROCESSING_TIMEOUT
    final: Mapping[str, Any] = field(default_factory=dict)
    commits: list[Commit] = field(default_factory=list)


def load(folder: Path) -> History:
    """Read what a run left in its folder."""
    effects: list[Effect] = []
    tenures: list[SlotTenure] = []
    skips: list[Skip] = []
    for path in sorted((folder / "history").glob("*.jsonl")):
        lines = read_lines(path)
        effects += effects_of(path.stem, lines)
        tenures += tenures_of(path.stem, lines)
        skips += skips_of(path.stem, lines)
    faults = read_lines(folder / "faults.jsonl")
    final = json.loads((folder / "final.json").read_text(encoding="utf-8"))
    return History(
        effects,
        tenures,
        hits_of(faults),
        [Request(x["t"], x["project"], x["path"]) for x in read_lines(folder / "requests.jsonl")],
        skips,
        [line for line in faults if line["e"] not in ("fault", "healed")],
        final["times"]["time_out"],
        final,
        [Commit(*line) for line in read_lines(folder / "commits.jsonl")],
    )


def effects_of(member: str, lines: Iterable[Mapping[str, Any]]) -> Iterator[Effect]:
    """Return the effects in one process's events."""
    lines = list(lines)
    ends = {line["n"]: line for line in lines if line["e"] == "end"}
    for line in lines:
        if line["e"] in EFFECTS:
            end = ends.get(line["n"], {"t": line["t"], "outcome": "unknown"})
            about = {key: line[key] for key in ("slot", "epoch", "project", "task", "tick")}
            times = {"start": line["t"], "end": end["t"]}
            more = {"status": line.get("status"), "by_hand": line.get("by_hand", False)}
            more |= {"url": line["url"] or "", "outcome": end["outcome"]}
            yield Effect(member, line["e"], **about, **times, **more)


def tenures_of(member: str, lines: Iterable[Mapping[str, Any]]) -> Iterator[SlotTenure]:
    """Return the tenures in one process's events."""
    lines = list(lines)
    ready = {(x["slot"], x["epoch"]): x for x in lines if x["e"] == "ready"}
    late: dict[tuple[int, int], dict[str, Any]] = defaultdict(dict)
    for line in lines:
        if line["e"] == "loaded":
            late[line["slot"], line["epoch"]] |= line["states"]
    begun, ended = _by_slot(lines, "give_up"), _by_slot(lines, "gave_up")
    for line in lines:
        if line["e"] == "take":
            slot, epoch = key = line["slot"], line["epoch"]
            loaded, left, gone = ready.get(key, {}), begun.get(key, {}), ended.get(key, {})
            yield SlotTenure(
                *(member, slot, epoch, line["t"], loaded.get("t"), left.get("t"), gone.get("t")),
                planned=left.get("planned", False),
                clean=left.get("clean", False) and gone.get("open", True),
                uncommitted=slot in gone.get("uncommitted", ()),
                received=line.get("clean"),
                found={**late[key], **loaded.get("states", {})},
                given=left.get("states", {}).get(str(slot), {}),
            )


def _by_slot(
    lines: Iterable[Mapping[str, Any]], event: str
) -> dict[tuple[int, int], Mapping[str, Any]]:
    """Return the events of a kind by the slots, with their epochs, that they are about."""
    return {
        (int(slot), epoch): line
        for line in lines
        if line["e"] == event
        for slot, epoch in line["slots"].items()
    }


def skips_of(member: str, lines: Iterable[Mapping[str, Any]]) -> Iterator[Skip]:
    """Return the slots in one process's events that it never took."""
    for line in lines:
        if line["e"] == "skip":
            yield Skip(member, line["slot"], line["epoch"], line["t"], line.get("open", True))


def hits_of(lines: Iterable[Mapping[str, Any]]) -> list[Hit]:
    """Return the faults in the harness's events."""
    lines = list(lines)
    healed = {line["n"]: line for line in lines if line["e"] == "healed"}
    hits = []
    for line in lines:
        if line["e"] == "fault":
            end = healed.get(line["n"], {})
            times = line["t"], end.get("t", INFINITY)
            more = end.get("code"), end.get("still")
            hits.append(Hit(line["kind"], line["target"], *times, *more))
    return hits
