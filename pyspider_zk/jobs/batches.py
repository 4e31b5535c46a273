"""Batches of jobs: put, shown, cancelled and forgotten."""

from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from itertools import chain, islice
from typing import Any

from pyspider_zk.jobs.model import (
    NORMAL,
    NOTE_LIMIT,
    PUT_LIMIT,
    TRANSACTION_LIMIT,
    Batch,
    BatchRecord,
    Claim,
    Found,
    Job,
    JobName,
    JobRules,
    JobState,
    Junk,
    Outcome,
    check_batch_id,
    check_priority,
    check_size,
    name_prefix,
)
from pyspider_zk.jobs.rules import digest_of, ended, forgettable
from pyspider_zk.jobs.store import JobMove, JobStore, parts
from pyspider_zk.jobs.transactions import (
    cancel_pending_steps,
    cancel_record_steps,
    cancel_running_steps,
    close_steps,
    discard_steps,
    forget_moves,
    put_steps,
    together,
)
from pyspider_zk.projects.names import check_project_name
from pyspider_zk.zookeeper.connection import Watch
from pyspider_zk.zookeeper.steps import Create, Step

LOOKS = 3  # at a batch, because a look may miss jobs that are just moving back
READ_AT_ONCE = 64  # pending jobs that are to end
FORGOTTEN_AT_ONCE = 1024  # done jobs that one call of trim deletes, and some more

Entries = Sequence[tuple[str, Mapping[str, Any]]]


class Batches:
    """The batches of a job queue: what those ask for who take no jobs.

    Threads and errors as in ``JobQueue``.
    """

    def __init__(self, store: JobStore, rules: JobRules, clock: Callable[[], float]) -> None:
        self._store = store
        self._tree = store.tree
        self._rules = rules
        self._clock = clock

    def put(
        self,
        batch: str,
        entries: Entries,
        *,
        note: Mapping[str, Any] | None = None,
        priority: int = NORMAL,
        event: Create | None = None,
    ) -> bool:
        """Put a batch of jobs, once: a repetition with the same id adds the missing jobs.

        A batch too large for one transaction is put in several, so its first jobs may be claimed
        before the last is there.

        Args:
            batch: the id; 1 to 200 characters, any.
            entries: for each job a project and the work, as JSON values.
            note: stored with the batch.
            priority: 0 to 999; the highest comes first.
            event: written in the same transaction as the batch, once. Its end must then be
                recorded as well: see ``close``.

        Returns:
            Whether anything had to be put.

        Raises:
            BadMessage: the id, a project's name, the priority or a job's size is not allowed, or
                what stands under this id cannot be read.
            BatchTaken: the batch was put in part, with other jobs.
        """
        jobs = self._encoded(check_batch_id(batch), entries, check_priority(priority))
        fresh = BatchRecord(
            dict(note or {}),
            self._clock(),
            len(jobs),
            digest=digest_of([[project, dict(work)] for project, work in entries]),
            to_close=event is not None,
        )
        check_size(f"the note of batch {batch!r}", fresh, NOTE_LIMIT)
        has_put = False
        while True:
            self._store.ensure(event)
            found = self._store.batch(batch)
            steps = put_steps(self._tree, batch, fresh, found, jobs, event=event)
            if not steps:
                return has_put
            has_put |= self._store.do_if_current(steps)

    def batch(self, batch: str) -> Batch | None:
        """Return a batch with its jobs, None if there is none (any more)."""
        return self.shown([batch]).get(batch)

    def shown(self, batches: Sequence[str]) -> dict[str, Batch]:
        """Return those of these batches that are kept, with their jobs."""
        shown = self._look(batches)
        for _ in range(LOOKS - 1):
            partly = [batch for batch in shown if not shown[batch].is_whole]
            if not partly:
                break
            shown |= self._look(partly)
        return shown

    def batches(self) -> list[str]:
        """Return the ids of all batches that are kept, the newest first."""
        return list(self.records())

    def records(self) -> dict[str, BatchRecord]:
        """Return all batches that are kept, the newest first, without their jobs."""
        found = self._store.batches(self._store.batch_ids())
        records = {batch: record for batch, (record, _) in found.items()}
        order = sorted(records, key=lambda batch: (-records[batch].created, batch))
        return {batch: records[batch] for batch in order}

    def record(self, batch: str) -> BatchRecord | None:
        """Return a batch without its jobs, None if there is none (any more) or it is unreadable."""
        found = self._store.batches([batch]).get(batch)
        return found and found[0]

    def cancel(self, batch: str, event: Create | None = None) -> int:
        """Cancel a batch: pending jobs end at once, running ones are requested to stop.

        Jobs whose records cannot be read end as well, with other records.

        Args:
            event: written together with the mark in the batch, once.

        Returns:
            How many jobs were affected.

        Raises:
            BadMessage: the batch's own record cannot be read.
        """
        if not self._mark(batch, event):
            return 0
        # No claim succeeds after the mark, so a job that ran at that time is still running, or has
        # moved to where the second look finds it.
        self._store.catch_up()
        return self._mark_running(batch) + self._end_pending(batch) + self._discard(batch)

    def cancelled(self, batches: Iterable[str], watch: Watch | None = None) -> set[str]:
        """Return which of these batches were cancelled; those that cannot be read are left out.

        Args:
            watch: called once when one of them is written, such as by a cancellation.
        """
        found = self._store.batches(batches, watch)
        return {batch for batch, (record, _) in found.items() if record.cancelled}

    def unclosed(self, closed: set[str], watch: Watch | None = None) -> tuple[list[Batch], bool]:
        """Return the batches that have ended and are to be closed.

        Args:
            closed: the ids of those that are known to need no closing; it is updated.
            watch: called once when a batch is put or deleted; see ``Watch``.

        Returns:
            The batches, and whether others are still to be closed once they end.
        """
        self._store.ensure()  # nothing tells of the first child of a znode that is missing
        ids = set(self._store.batch_ids(watch))
        closed &= ids
        found = self._store.batches(ids - closed)
        records = {batch: record for batch, (record, _) in found.items()}
        closed |= {batch for batch, record in records.items() if not record.to_close}
        waiting = [batch for batch in records.keys() - closed if records[batch].settled]
        if not waiting:
            return [], bool(ids - closed)
        done = Counter(name.group for name in self._store.names(JobState.DONE))
        over = [batch for batch in waiting if done[batch] >= records[batch].put]
        return [batch for batch in self.shown(over).values() if batch.ended], True

    def close(self, batch: str, event: Create) -> None:
        """Write the event of a batch's end, unless that was done before."""
        while True:
            self._store.ensure(event)
            found = self._store.batches([batch]).get(batch)
            if found is None or not found[0].to_close:
                return
            if self._store.do_if_current(close_steps(self._tree, batch, *found, event)):
                return

    def trim(self) -> int:
        """Delete the oldest ended batches, with their jobs; bounded work per call.

        Returns:
            How many done jobs were deleted.
        """
        done = self._store.names(JobState.DONE)  # before the batches: each job's is in the list
        kept = len(self._store.batch_ids())
        if len(done) <= self._rules.keep_jobs and kept <= self._rules.keep_batches:
            return 0
        records, busy = self.records(), self._busy()
        jobs = _by_group(done)
        counts = {batch: len(names) for batch, names in jobs.items()}
        count = 0
        for batch in forgettable(records, counts, busy, self._clock(), self._rules):
            if count >= FORGOTTEN_AT_ONCE:
                break
            count += self._forget(batch, jobs.get(batch, []), batch in records)
        return count

    # --- putting ---

    def _encoded(self, batch: str, entries: Entries, priority: int) -> list[tuple[str, bytes]]:
        created = self._clock()
        jobs = []
        for project, work in entries:
            job = Job(work, created)
            data = check_size(f"the job of {project}", job, TRANSACTION_LIMIT, PUT_LIMIT)
            jobs.append((name_prefix(priority, batch, check_project_name(project)), data))
        return jobs

    # --- showing ---

    def _look(self, batches: Sequence[str]) -> dict[str, Batch]:
        found = self._store.batches(batches)
        jobs: dict[str, dict[JobState, dict[JobName, Job]]] = {
            batch: {state: {} for state in JobState} for batch in found
        }
        junk: dict[str, dict[JobName, str]] = {batch: {} for batch in found}
        for name, (state, one) in (self._jobs_of(found) if found else {}).items():
            if isinstance(one, Found):
                jobs[name.group][state][name] = one.job
            else:
                junk[name.group][name] = one.reason
        return {batch: Batch(batch, found[batch][0], jobs[batch], junk[batch]) for batch in found}

    def _jobs_of(self, batches: Container[str]) -> dict[JobName, tuple[JobState, Found | Junk]]:
        """Read the places in the direction in which jobs move; a job seen twice has moved on."""
        where: dict[JobName, tuple[JobState, Found | Junk]] = {}
        for state in JobState:
            for found in self._store.look(state, self._names_of(batches, state)):
                where[found.name] = (state, found)
        return where

    def _names_of(self, batches: Container[str], state: JobState) -> list[JobName]:
        return [name for name in self._store.names(state) if name.group in batches]

    # --- cancelling ---

    def _mark(self, batch: str, event: Create | None = None) -> bool:
        """Mark the batch; return whether there is one."""
        while True:
            self._store.ensure(event)
            found = self._store.batch(batch)
            if found is None or found[0].cancelled:
                return found is not None
            self._store.do_if_current(cancel_record_steps(self._tree, batch, *found, event))

    def _mark_running(self, batch: str) -> int:
        """Mark the running jobs, all at once; again those that were written meanwhile."""
        count, tried = 0, set[tuple[JobName, int, int]]()
        while found := [one for one in self._unmarked(batch) if _moment_of(one) not in tried]:
            moves = [
                JobMove(JobState.RUNNING, one.name, cancel_running_steps(self._tree, Claim(*one)))
                for one in found
            ]
            count += sum(self._store.move_all(moves))
            tried.update(map(_moment_of, found))
        return count

    def _unmarked(self, batch: str) -> list[Found]:
        """Return the running jobs that are not marked yet."""
        names = self._names_of([batch], JobState.RUNNING)
        found = self._store.read(JobState.RUNNING, names)
        return [one for one in found if not one.job.cancelled]

    def _end_pending(self, batch: str) -> int:
        names = self._names_of([batch], JobState.PENDING)
        return sum(map(self._end_some, parts(names, READ_AT_ONCE)))

    def _end_some(self, names: Sequence[JobName]) -> int:
        found, now = self._store.read(JobState.PENDING, names), self._clock()
        ending = [one for one in found if not one.job.needs_cleanup]
        moves = [
            JobMove(JobState.PENDING, one.name, cancel_pending_steps(self._tree, one, now))
            for one in ending
        ]
        return self._move_together(moves)

    def _discard(self, batch: str) -> int:
        """End the unreadable jobs, which nobody would end otherwise."""
        junk = [
            (state, one)
            for state in JobState
            for one in self._store.look(state, self._names_of([batch], state))
            if isinstance(one, Junk)
        ]
        return sum(self._discard_one(state, one) for state, one in junk)

    def _discard_one(self, state: JobState, junk: Junk) -> bool:
        now = self._clock()
        job = ended(Job({}, now, cancelled=True), Outcome.CANCELLED, now, junk.reason)
        below, _ = self._store.pruned(state, junk.name)
        steps = discard_steps(self._tree, state, junk, below, job)
        return self._store.do_if_current(steps)

    def _move_together(self, moves: Sequence[JobMove]) -> int:
        """Do these moves together; where one of them is refused, each for itself."""
        count, left = 0, iter(moves)
        for part in together(move.steps for move in moves):
            some = list(islice(left, len(part)))
            if self._store.do_if_current(chain.from_iterable(part)):
                count += len(some)
            else:
                count += sum(self._store.move_all(some))
        return count

    # --- forgetting ---

    def _busy(self) -> set[str]:
        """Return the batches with jobs that are not done; the first place is read twice."""
        states = (JobState.PENDING, JobState.RUNNING, JobState.PENDING)
        return {name.group for state in states for name in self._store.names(state)}

    def _forget(self, batch: str, names: Sequence[JobName], with_record: bool) -> int:
        """Delete done jobs and, in the last transaction, their batch; return how many jobs."""
        moves = forget_moves(self._tree, names, batch if with_record else "")
        deleted = [each for part in together(moves) for each in self._delete_together(part)]
        return sum(deleted[: len(names)])

    def _delete_together(self, moves: Sequence[Sequence[Step]]) -> list[bool]:
        """Delete these together, or if one is gone already each for itself; return which were."""
        if self._store.delete_if_current(chain.from_iterable(moves)):
            return [True] * len(moves)
        return list(map(self._store.delete_if_current, moves))


def _moment_of(found: Found) -> tuple[JobName, int, int]:
    """Return what is another as soon as a job was written or has moved."""
    return (found.name, found.job.claims, found.version)


def _by_group(names: Iterable[JobName]) -> dict[str, list[JobName]]:
    jobs: dict[str, list[JobName]] = {}
    for name in names:
        jobs.setdefault(name.group, []).append(name)
    return jobs
