"""Batch service: accepts requests for operations on projects, and reports their progress.

A plan says what an operation would do to which projects, and why not.
"""

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from hashlib import sha256
from typing import Any, TypeVar

from pyspider_zk.cluster.event_log import EventLog
from pyspider_zk.cluster.records import Cluster
from pyspider_zk.errors import BadMessage, BadRequest, BatchTaken, Conflict, NotFound
from pyspider_zk.jobs.answers import Plan, asked_event, batch_dict, batch_failures, cancelled_event
from pyspider_zk.jobs.batches import Entries
from pyspider_zk.jobs.model import (
    GROUP_LIMIT,
    NORMAL,
    Batch,
    BatchRecord,
    Job,
    JobName,
    JobState,
    check_batch_id,
    check_priority,
)
from pyspider_zk.jobs.operations import STARTING, Note, Operation, check_arguments, check_operation
from pyspider_zk.jobs.project_list import ProjectList, ResultPage, span
from pyspider_zk.jobs.queue import JobQueue
from pyspider_zk.jobs.rules import digest_of
from pyspider_zk.projects.names import PROJECT_NAME_LIMIT, is_project_name
from pyspider_zk.projects.rows import ACTIVE
from pyspider_zk.projects.selection import Selection
from pyspider_zk.zookeeper.codec import plain

PLAN_NAMES = 20  # projects that a plan names
SHARE = 2000  # projects of a job; a znode must have room for the report on each of them
SHARE_SIZE = 128 * 1024  # bytes of their names: each may occur three times
NAMED = 5  # names in a message, and of projects that were chosen by name in a batch

Row = Mapping[str, Any]

Told = dict[str, Any]
T = TypeVar("T")


class BatchService:
    """Service that turns a request into jobs: one per slot, or several if a slot has many projects.

    A request is carried out once per batch id, however often it is repeated.

    Threads: any. Calls block for some seconds at most. All raise ``Unavailable`` if ZooKeeper or
    the project database does not answer; the request may have been accepted by then, so repeat it
    with the same batch id. Whatever is about one batch raises ``NotFound`` if there is none of that
    id (any more).

    Attributes:
        projects: the projects that may be selected.
    """

    def __init__(
        self,
        projectdb: Any,
        jobs: JobQueue,
        events: EventLog,
        cluster: Callable[[], Cluster],
        slots: int,
    ) -> None:
        self.projects = ProjectList(projectdb, cluster, slots)
        self._jobs = jobs
        self._events = events
        self._ended: Mapping[str, Told] = {}

    # --- requests ---

    def plan(
        self,
        operation: str,
        selection: Selection,
        arguments: Mapping[str, Any] | None = None,
    ) -> Told:
        """Return what ``submit`` would do, without doing it.

        See ``Plan``. With its ``digest`` as ``plan``, ``submit`` refuses any other projects.

        Raises:
            BadRequest: there is no such operation, or its arguments are wrong.
        """
        name = check_operation(operation)
        checked = check_arguments(name, arguments or {})
        rows = self.projects.rows(with_owners=selection.owner is not None)
        chosen = selection.chosen(rows)
        return Plan(
            operation=name.value,
            arguments=checked,
            count=len(chosen),
            names=chosen[:PLAN_NAMES],
            jobs=len(shares(chosen, rows)),
            faults=faults(name, selection, rows),
            digest=digest_of(chosen),
            unknown=selection.unknown(rows),
        ).as_dict()

    def submit(
        self,
        operation: str,
        selection: Selection,
        arguments: Mapping[str, Any] | None = None,
        user: str = "",
        batch: str = "",
        priority: int = NORMAL,
        plan: str = "",
    ) -> Told:
        """Have an operation carried out for the projects that are meant; return the batch.

        It is durable when this returns; the owners of the slots carry it out.

        Args:
            user: who requests it, for the event log.
            batch: the batch's id, 1 to 200 characters; empty: a new one.
            priority: 0 to 999; the highest comes first.
            plan: the ``digest`` of the plan that was confirmed.

        Raises:
            BadRequest: the message names what is wrong and what to do.
            Conflict: the id belongs to another request, or the projects are not those of the
                plan.
        """
        name = check_operation(operation)
        checked = check_arguments(name, arguments or {})
        batch = _allowed(check_batch_id, batch or uuid.uuid4().hex)
        _allowed(check_priority, priority)
        chosen = {**selection.given, "names": sorted(selection.names)}
        asked = digest_of([name.value, checked, chosen])
        known = self._known(batch, asked)
        if known is not None and known.record.settled:
            return batch_dict(known)
        work = {"operation": name.value, "arguments": checked}
        entries, total = self._entries(work, selection, plan)
        given = selection.given
        if selection.names:
            given["names"] = chosen["names"][:NAMED]
        note = Note(name.value, checked, given, user, total, asked)
        return self._put(batch, entries, note, priority)

    def retry(self, batch: str, user: str = "") -> Told:
        """Repeat a batch for the projects that it failed for; return the new batch.

        A batch is retried once, however often this is called; to try again what fails again, retry
        the new batch.

        Raises:
            BadRequest: it has not ended, or no project that it failed for still exists.
        """
        former = self._find(batch)
        again = _retry_id(batch)
        known = self._jobs.batch(again)
        if known is not None and known.record.settled:
            return batch_dict(known)
        if not former.ended:
            raise BadRequest(f"batch {batch!r} is still at work: wait, or cancel it first")
        rows = self.projects.rows()
        names = [name for name in sorted(batch_failures(former)) if name in rows]
        if not names:
            raise BadRequest(f"batch {batch!r} failed for no project that is still there")
        note = Note.parse(former.note)
        selection, priority = Selection(tuple(names)), _priority_of(former)
        return self.submit(note.operation, selection, note.arguments, user, again, priority)

    def cancel(self, batch: str, user: str = "") -> Told:
        """Stop a batch before its next projects; what is done is not undone.

        Args:
            user: who cancels it, for the event log.
        """
        record = self._jobs.record(batch) if batch else None
        if record is None:
            raise _unknown(batch)
        event = cancelled_event(batch, Note.parse(record.note), user, time.time())
        self._jobs.cancel(batch, self._events.step(event))
        return self.batch(batch)

    # --- reports ---

    def batch(self, batch: str) -> Told:
        """Return the status of a batch."""
        return batch_dict(self._find(batch))

    def failed(self, batch: str) -> list[str]:
        """Return all projects that a batch failed for."""
        return sorted(batch_failures(self._find(batch)))

    def batches(self, offset: int = 0, limit: int | None = None) -> ResultPage:
        """Return the batches that are kept, the newest first."""
        records = self._jobs.records()
        told = self._told(records, list(records)[span(offset, limit)])
        return ResultPage(told, len(records), max(0, offset))

    def _told(self, records: Mapping[str, BatchRecord], wanted: Sequence[str]) -> list[Told]:
        """Return the status of batches; the jobs of one that has ended no longer change."""
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
            raise _unknown(batch)
        return found

    def _known(self, batch: str, asked: str) -> Batch | None:
        found = self._jobs.batch(batch)
        if found is not None and found.note.get("asked") != asked:
            raise Conflict(f"batch id {batch!r} stands for another request: choose another")
        return found

    def _entries(
        self, work: Mapping[str, Any], selection: Selection, plan: str
    ) -> tuple[Entries, int]:
        """Return the jobs and the number of projects in them."""
        rows = self.projects.rows(with_owners=selection.owner is not None)
        if refused := refusals(selection, rows):
            raise BadRequest("; ".join(refused))
        chosen = selection.chosen(rows)
        if plan and plan != digest_of(chosen):
            raise Conflict("other projects are meant than when you looked: look again")
        entries = [
            (self.projects.standing_for(slot, names), {**work, "projects": names})
            for slot, names in shares(chosen, rows)
        ]
        return entries, len(chosen)

    def _put(self, batch: str, entries: Entries, note: Note, priority: int) -> Told:
        names = sorted(name for _, work in entries for name in work["projects"])
        event = self._events.step(asked_event(batch, note, time.time(), names))
        try:
            is_new = self._jobs.put(
                batch, entries, note=asdict(note), priority=priority, event=event
            )
        except BatchTaken as error:
            raise Conflict(f"{error}, or choose another id") from error
        except BadMessage as error:
            raise BadRequest(str(error)) from error
        record = self._jobs.record(batch) if is_new else None
        if record is not None and record.note.get("asked") == note.asked:
            return batch_dict(_as_put(batch, record, entries, priority))
        found = self._known(batch, note.asked)
        return batch_dict(found) if found else self.batch(batch)


def _as_put(batch: str, record: BatchRecord, entries: Entries, priority: int) -> Batch:
    """Return a new batch without reading its jobs, which may have begun meanwhile."""
    jobs = {
        JobName(priority, batch, project, number): Job(work, record.created)
        for number, (project, work) in enumerate(entries)
    }
    places = {state: jobs if state is JobState.PENDING else {} for state in JobState}
    return Batch(batch, record, places)


def _priority_of(batch: Batch) -> int:
    return next((name.priority for jobs in batch.jobs.values() for name in jobs), NORMAL)


def _unknown(batch: str) -> NotFound:
    return NotFound(f"there is no batch {batch!r}; old ones are forgotten")


def _retry_id(batch: str) -> str:
    """Return the id under which a batch is retried, always the same."""
    again = f"{batch}+retry"
    return again if len(again) <= GROUP_LIMIT else f"{sha256(batch.encode()).hexdigest()}+retry"


def _allowed(check: Callable[[object], T], value: object) -> T:
    try:
        return check(value)
    except BadMessage as error:
        raise BadRequest(str(error)) from error


def refusals(selection: Selection, rows: Mapping[str, Row]) -> list[str]:
    """Return why a selection is refused."""
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


def shares(chosen: Sequence[str], rows: Mapping[str, Row]) -> list[tuple[int, list[str]]]:
    """Return the projects of each job with their slot."""
    slots: dict[int, list[str]] = {}
    for name in chosen:
        slots.setdefault(rows[name]["slot"], []).append(name)
    return [(slot, share) for slot, names in sorted(slots.items()) for share in _parts(names)]


def _parts(names: Sequence[str]) -> list[list[str]]:
    """Return the projects of one slot in parts that fit into one job each."""
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


def faults(operation: Operation, selection: Selection, rows: Mapping[str, Row]) -> list[str]:
    """Return why an operation would be refused, or fail for some of the projects."""
    found = refusals(selection, rows)
    chosen = selection.chosen(rows)
    off = [name for name in chosen if rows[name]["status"] not in ACTIVE]
    if operation in (Operation.RUN, Operation.REFETCH) and off:
        found.append(f"not RUNNING or DEBUG: {_some(off)}; start them instead")
    strange = [name for name in chosen if not is_project_name(name)]
    if operation in STARTING and strange:
        found.append(
            f"pyspider allows no such names: {_some(strange)};"
            f" make them anew with letters, digits and _, {PROJECT_NAME_LIMIT} at most"
        )
    return found


def _some(names: Sequence[str]) -> str:
    """Return a phrase with the first of many names, and how many more there are."""
    rest = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {rest} more" if rest > 0 else "")
