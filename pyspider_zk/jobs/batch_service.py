"""Batch service: takes in what is asked for any number of projects, and tells how far it is."""

import json
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Any, TypeVar

from pyspider_zk.cluster.event_log import EventLog
from pyspider_zk.cluster.records import Cluster
from pyspider_zk.errors import (
    BadMessage,
    BadRequest,
    BatchTaken,
    Conflict,
    NotFound,
    Unavailable,
)
from pyspider_zk.jobs import batch_events
from pyspider_zk.jobs.model import (
    GROUP_LIMIT,
    Batch,
    BatchRecord,
    check_batch_id,
    check_priority,
)
from pyspider_zk.jobs.operations import (
    STARTING,
    Operation,
    check_arguments,
    check_operation,
    is_locked,
)
from pyspider_zk.jobs.progress import batch_dict, failures
from pyspider_zk.jobs.queue import NORMAL, JobQueue
from pyspider_zk.jobs.requests import Note
from pyspider_zk.projects.names import PROJECT_NAME_LIMIT, is_project_name
from pyspider_zk.projects.rows import ACTIVE, shown
from pyspider_zk.projects.selection import Selection
from pyspider_zk.projects.slots import name_of, slot_of
from pyspider_zk.zookeeper.codec import plain

__all__ = ["BatchService", "ResultPage", "Selection"]

FIELDS = ["name", "group", "status", "rate", "burst", "updatetime"]
SORTS = (*FIELDS, "slot", "owner")
NAMED = 20  # projects that a plan names
SHARE = 2000  # projects of a job; a znode must have room for what may be told of each of them
SHARE_SIZE = 128 * 1024  # bytes of their names: each may stand there three times
CULPRITS = 5  # names in a message

Row = dict[str, Any]
T = TypeVar("T")


@dataclass(frozen=True)
class ResultPage:
    """Some of many.

    Attributes:
        items: those from ``offset`` on.
        total: how many there are in all.
    """

    items: list[dict[str, Any]]
    total: int
    offset: int = 0

    def as_dict(self) -> dict[str, Any]:
        """Return the form for XML-RPC and JSON."""
        return asdict(self)


class BatchService:
    """Makes jobs of what is asked for projects: one per slot, unless a slot has very many of them.

    What is asked for under a batch id is done once, however often it is asked for.

    Threads: any. Calls block for some seconds at most. All raise ``Unavailable`` if ZooKeeper or
    the project database does not answer; what was asked for may be known by then, so ask again
    with the same batch id.

    Args:
        projectdb: pyspider's; a copy of it is used.
        cluster: reads the cluster as it is.
        slots: how many the cluster has.
    """

    def __init__(
        self,
        projectdb: Any,
        jobs: JobQueue,
        events: EventLog,
        cluster: Callable[[], Cluster],
        slots: int,
    ) -> None:
        self._projects = _Projects(projectdb, cluster, slots)
        self._jobs = jobs
        self._events = events
        self._ended: Mapping[str, Row] = {}

    # --- projects ---

    def projects(
        self,
        selection: Selection,
        sort: str = "name",
        offset: int = 0,
        limit: int | None = None,
        with_owners: bool = True,
    ) -> ResultPage:
        """Return the projects that are meant, without their scripts.

        Each has ``name``, ``group``, ``status``, ``rate``, ``burst``, ``updatetime``, ``slot`` and
        ``owner``, the number of the member that schedules it (None: nobody just now).

        Args:
            sort: one of these; with ``-`` before it the other way round.
            with_owners: without, ``owner`` is None everywhere and ZooKeeper is not asked.

        Raises:
            BadRequest: there is no such order or status.
        """
        if selection == Selection():
            selection = Selection(all=True)
        selection.check()
        key, backwards = sort.removeprefix("-"), sort.startswith("-")
        if key not in SORTS:
            raise BadRequest(f"there is no order {sort!r}; known are {', '.join(SORTS)}")
        rows = self._projects.rows(with_owners=with_owners)
        chosen = [rows[name] for name in selection.chosen(rows)]
        chosen.sort(
            key=lambda row: (True, 0) if row[key] is None else (False, row[key]), reverse=backwards
        )
        start = max(0, offset)
        end = None if limit is None else start + max(0, limit)
        return ResultPage(chosen[start:end], len(chosen), start)

    def locked(self, selection: Selection) -> list[str]:
        """Return those of the projects that are meant that are in pyspider's group "lock"."""
        found = self.projects(selection, with_owners=selection.owner is not None).items
        return [row["name"] for row in found if is_locked(row["group"])]

    # --- asking ---

    def plan(
        self,
        operation: str,
        selection: Selection,
        arguments: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Return what ``submit`` would do, and do nothing.

        That is ``count``, the first ``names``, the number of ``jobs`` and, in words, the
        ``faults``: what would be refused, or fail for some of the projects. ``digest`` stands for
        all the names: give it to ``submit`` as ``plan``, and nothing else can be meant.

        Raises:
            BadRequest: there is no such operation, or its arguments are wrong.
        """
        name = check_operation(operation)
        checked = check_arguments(name, arguments or {})
        rows = self._projects.rows(with_owners=selection.owner is not None)
        chosen = selection.chosen(rows)
        return {
            "operation": name.value,
            "arguments": checked,
            "count": len(chosen),
            "names": chosen[:NAMED],
            "jobs": len(_shares(chosen, rows)),
            "faults": _faults(name, selection, rows),
            "digest": _digest(chosen),
        }

    def submit(
        self,
        operation: str,
        selection: Selection,
        arguments: Mapping[str, Any] | None = None,
        user: str = "",
        batch: str = "",
        priority: int = NORMAL,
        plan: str = "",
    ) -> dict[str, Any]:
        """Have an operation carried out for the projects that are meant; return the batch.

        It is durable when this returns; the slots' owners carry it out meanwhile.

        Args:
            user: who asks, for the event log.
            batch: the batch's id, 1 to 200 characters; empty: a new one.
            priority: 0 to 999; the highest comes first.
            plan: the ``digest`` of the plan that was agreed to.

        Raises:
            BadRequest: naming what is wrong and what to do.
            Conflict: the id stands for something else, or other projects are meant than in the
                plan.
        """
        name = check_operation(operation)
        checked = check_arguments(name, arguments or {})
        batch = _allowed(check_batch_id, batch or uuid.uuid4().hex)
        _allowed(check_priority, priority)
        chosen = {**selection.given, "names": sorted(selection.names)}
        asked = _digest([name.value, dict(checked), chosen])
        known = self._known(batch, asked)
        if known is not None and known.record.settled:
            return batch_dict(known)
        entries, total = self._entries(name, checked, selection, plan)
        note = {
            "operation": name.value,
            "arguments": checked,
            "selection": {} if selection.names else selection.given,
            "user": user,
            "total": total,
            "asked": asked,
        }
        return self._put(batch, entries, note, priority)

    def retry(self, batch: str, user: str = "") -> dict[str, Any]:
        """Ask again for the projects that a batch failed for; return the new batch.

        A batch is retried once, however often this is called; what fails again is asked for by
        retrying the new batch.

        Raises:
            NotFound: there is no such batch.
            BadRequest: it has not ended, or nothing failed that is still there.
        """
        former = self._find(batch)
        again = _retry_id(batch)
        known = self._jobs.batch(again)
        if known is not None and known.record.settled:
            return batch_dict(known)
        if not former.ended:
            raise BadRequest(f"batch {batch!r} is still at work: wait, or cancel it first")
        rows = self._projects.rows()
        names = [name for name in _failed(former) if name in rows]
        if not names:
            raise BadRequest(f"batch {batch!r} failed for no project that is still there")
        note = Note.parse(former.note)
        selection = Selection(tuple(names))
        return self.submit(note.operation, selection, note.arguments, user, again)

    def cancel(self, batch: str, user: str = "") -> dict[str, Any]:
        """Stop a batch before its next project; what is done stays done.

        Args:
            batch: the id.
            user: who asks, for the event log.

        Raises:
            NotFound: there is no such batch.
        """
        event = batch_events.cancelled(self._find(batch), user, time.time())
        self._jobs.cancel(batch, self._events.step(event))
        return self.batch(batch)

    # --- telling ---

    def batch(self, batch: str) -> dict[str, Any]:
        """Return what is known of a batch.

        Raises:
            NotFound: there is none of this id (any more).
        """
        return batch_dict(self._find(batch))

    def failed(self, batch: str) -> list[str]:
        """Return all projects that a batch failed for.

        Raises:
            NotFound: there is no such batch.
        """
        return _failed(self._find(batch))

    def batches(self, offset: int = 0, limit: int | None = None) -> ResultPage:
        """Return the batches that are kept, the newest first."""
        records = self._jobs.records()
        start = max(0, offset)
        end = None if limit is None else start + max(0, limit)
        told = self._told(records, list(records)[start:end])
        return ResultPage(told, len(records), start)

    def _told(self, records: Mapping[str, BatchRecord], wanted: Sequence[str]) -> list[Row]:
        """Tell of these batches; the jobs of one that has ended do not change any more."""
        ended = {
            batch: told
            for batch, told in self._ended.items()
            if batch in records and records[batch].created == told["created"]
        }
        found = self._jobs.shown([batch for batch in wanted if batch not in ended])
        told = ended | {batch: batch_dict(each) for batch, each in found.items()}
        self._ended = ended | {batch: told[batch] for batch in found if found[batch].ended}
        return [told[batch] for batch in wanted if batch in told]

    def _find(self, batch: str) -> Batch:
        found = self._jobs.batch(batch) if batch else None
        if found is None:
            raise NotFound(f"there is no batch {batch!r}; old ones are forgotten")
        return found

    def _known(self, batch: str, asked: str) -> Batch | None:
        found = self._jobs.batch(batch)
        if found is not None and found.note.get("asked") != asked:
            raise Conflict(f"batch id {batch!r} stands for another request: choose another")
        return found

    def _entries(
        self,
        operation: Operation,
        arguments: Mapping[str, Any],
        selection: Selection,
        plan: str,
    ) -> tuple[list[tuple[str, dict[str, Any]]], int]:
        """Return the jobs and the number of projects in them."""
        rows = self._projects.rows(with_owners=selection.owner is not None)
        faults = _refusals(selection, rows)
        if faults:
            raise BadRequest("; ".join(faults))
        chosen = selection.chosen(rows)
        if plan and plan != _digest(chosen):
            raise Conflict("other projects are meant than when you looked: look again")
        work = {"operation": operation.value, "arguments": dict(arguments)}
        entries = [
            (self._projects.standing_for(slot, names), {**work, "projects": names})
            for slot, names in _shares(chosen, rows)
        ]
        return entries, len(chosen)

    def _put(
        self,
        batch: str,
        entries: Sequence[tuple[str, Mapping[str, Any]]],
        note: Mapping[str, Any],
        priority: int,
    ) -> dict[str, Any]:
        names = sorted(name for _, work in entries for name in work["projects"])
        event = self._events.step(batch_events.asked(batch, note, time.time(), names))
        try:
            self._jobs.put(batch, entries, note=note, priority=priority, event=event)
        except BatchTaken as error:
            raise Conflict(f"{error}, or choose another id") from error
        except BadMessage as error:
            raise BadRequest(str(error)) from error
        found = self._known(batch, str(note["asked"]))
        return batch_dict(found) if found else self.batch(batch)


def _retry_id(batch: str) -> str:
    """Return the one id under which a batch is retried."""
    again = f"{batch}+retry"
    return again if len(again) <= GROUP_LIMIT else f"{sha256(batch.encode()).hexdigest()}+retry"


class _Projects:
    """All projects, read anew each time: the short columns only."""

    def __init__(self, projectdb: Any, cluster: Callable[[], Cluster], slots: int) -> None:
        self._original = projectdb
        self._cluster = cluster
        self._slots = slots
        self._lock = threading.Lock()
        self._copy: Any = None

    def rows(self, *, with_owners: bool = False) -> dict[str, Row]:
        """Return the rows by name, with ``slot`` and, if asked for, ``owner``."""
        owners = self._owners() if with_owners else [None] * self._slots
        rows: dict[str, Row] = {}
        for row in self._read():
            slot = slot_of(row["name"], self._slots)
            rows[row["name"]] = {**row, "slot": slot, "owner": owners[slot]}
        return rows

    def standing_for(self, slot: int, names: Iterable[str]) -> str:
        """Return what the job of these is called after: one of them, or another of their slot.

        A row that was written past pyspider's editor may have a name that no job can have.
        """
        allowed = filter(is_project_name, names)
        return next(allowed, None) or name_of(slot, self._slots)

    def _read(self) -> list[Row]:
        try:
            with self._lock:
                if self._copy is None:
                    self._copy = self._original.copy()
                return list(filter(None, map(shown, self._copy.get_all(fields=FIELDS))))
        except Exception as error:  # each database has errors of its own
            raise Unavailable(f"the project database does not answer: {error!r}") from error

    def _owners(self) -> list[int | None]:
        cluster = self._cluster()
        owners = map(cluster.owner, range(self._slots))
        return [owner.number if owner else None for owner in owners]


def _refusals(selection: Selection, rows: Mapping[str, Row]) -> list[str]:
    """Return why a selection cannot be worked on."""
    try:
        selection.check()
    except BadRequest as error:
        return [str(error)]
    unknown = selection.unknown(rows)
    if unknown:
        return [f"there is no project {_some(unknown)}: correct the names or leave them out"]
    if not selection.chosen(rows):
        return [f"no project is meant by {selection.given}"]
    return []


def _shares(chosen: Sequence[str], rows: Mapping[str, Row]) -> list[tuple[int, list[str]]]:
    """Return the projects of each job with their slot."""
    slots: dict[int, list[str]] = {}
    for name in chosen:
        slots.setdefault(rows[name]["slot"], []).append(name)
    return [(slot, share) for slot, names in sorted(slots.items()) for share in _parts(names)]


def _parts(names: Sequence[str]) -> list[list[str]]:
    """Return the projects of one slot, as many at a time as one job takes."""
    parts: list[list[str]] = []
    room = 0
    for name in names:
        size = len(plain(name))
        if not parts or len(parts[-1]) == SHARE or size > room:
            parts.append([])
            room = SHARE_SIZE
        parts[-1].append(name)
        room -= size
    return parts


def _faults(operation: Operation, selection: Selection, rows: Mapping[str, Row]) -> list[str]:
    """Return why an operation would be refused, or fail for some of the projects."""
    faults = _refusals(selection, rows)
    chosen = selection.chosen(rows)
    off = [name for name in chosen if rows[name]["status"] not in ACTIVE]
    if operation is Operation.RUN and off:
        faults.append(f"not RUNNING or DEBUG: {_some(off)}; start them instead")
    strange = [name for name in chosen if not is_project_name(name)]
    if operation in STARTING and strange:
        faults.append(
            f"pyspider allows no such names: {_some(strange)};"
            f" make them anew with letters, digits and _, {PROJECT_NAME_LIMIT} at most"
        )
    return faults


def _failed(batch: Batch) -> list[str]:
    jobs = [job for place in batch.jobs.values() for job in place.values()]
    return sorted(name for job in jobs for name in failures(job))


def _some(names: Sequence[str]) -> str:
    """Return the first of many names, and how many there are besides."""
    rest = len(names) - CULPRITS
    return ", ".join(names[:CULPRITS]) + (f" and {rest} more" if rest > 0 else "")


def _digest(value: object) -> str:
    """Return what tells one request, or one choice of projects, from another."""
    return sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def _allowed(check: Callable[[object], T], value: object) -> T:
    try:
        return check(value)
    except BadMessage as error:
        raise BadRequest(str(error)) from error
