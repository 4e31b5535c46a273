"""Model of jobs: their names, their records, and batches of them.

A job is a znode below ``pending``, ``running`` or ``done``, under the same name in each. The
transactions that move it are in ``jobs/transactions.py``, the decisions in ``jobs/rules.py``.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from hashlib import sha256
from typing import Any, NamedTuple, Self
from urllib.parse import quote, unquote

from pyspider_zk.errors import BadMessage
from pyspider_zk.limits import REFUSED_IN_PATHS
from pyspider_zk.projects.rows import is_text
from pyspider_zk.zookeeper.codec import decode, encode, plain

PRIORITIES = range(1000)
NORMAL = 500  # the priority of a batch that has no other
GROUP_LIMIT = 200  # characters
KEY_LIMIT = 64  # characters; pyspider's task ids in MySQL and PostgreSQL
KEY_MARK = 16  # hexadecimal digits
KNOWN_NAMES = 16384  # jobs whose names need not be parsed again at every look
NOTE_LIMIT = 128 * 1024  # bytes, once compressed; it goes with every part of a batch
NO_EPOCH = 1
"""The slot epoch of claimants where owners do not change: the lowest, and ``int(True)``."""

RECORD_LIMIT = 2 * 2**20  # bytes of a job or batch once inflated; many are read in one go
PUT_LIMIT = RECORD_LIMIT - 8 * 1024  # bytes of a job that is put; claims and ends make it longer
MOVED_LIMIT = 640 * 1024  # bytes of a job with its progress; a job that cannot be moved never ends
TRANSACTION_LIMIT = 512 * 1024  # bytes; ZooKeeper refuses requests of 1 MiB

_JOB_NAME = re.compile(r"entry-([0-9]{3})-(.+):([^:-]+)-(-?[0-9]{9,10})")
# What ZooKeeper does not allow in names, separators of names, and the quote itself.
_QUOTED = re.compile(f"[%/{REFUSED_IN_PATHS}]")
_PATH = re.compile(rf"(?:/(?!\.{{1,2}}(?:/|$))[^/{REFUSED_IN_PATHS}]+)+")
_WHOLE_NAMES = {".": "%2E", "..": "%2E%2E"}


class JobState(StrEnum):
    """The three places of a job; the values are the znodes' names."""

    PENDING = "pending"
    RUNNING = "running"
    DONE = "done"


class Outcome(StrEnum):
    """How a job ended."""

    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class JobName(NamedTuple):
    """The name of a job's znode: ``entry-<priority>-<group>:<project>-<sequence>``.

    It is parsed from both ends: a project's name contains neither ``:`` nor ``-``, the group may
    contain any character.

    Attributes:
        priority: 0 to 999; the highest comes first.
        group: the id of the batch that the job belongs to.
        project: the job's project, or the one that stands for several.
        sequence: ZooKeeper's signed 32-bit number; it overflows to negative.
    """

    priority: int
    group: str
    project: str
    sequence: int

    def __str__(self) -> str:
        return f"{name_prefix(self.priority, self.group, self.project)}{self.sequence:010d}"

    @classmethod
    @lru_cache(maxsize=KNOWN_NAMES)
    def parse(cls, text: str) -> Self:
        """Parse exactly the form that ``str`` writes; raise ``BadMessage`` at any other."""
        found = _JOB_NAME.fullmatch(text)
        if found:
            priority, group, project, sequence = found.groups()
            name = cls(int(priority), unquoted(group), unquoted(project), int(sequence))
            if str(name) == text:
                return name
        raise BadMessage(f"{text!r} is not the name of a job")

    @property
    def rank(self) -> tuple[int, int]:
        """Sort key: the highest priority first, then the oldest."""
        return (-self.priority, self.sequence % 2**32)

    @property
    def key(self) -> str:
        """Its key in databases that allow 64 characters.

        That is as much of the batch's id as fits, and what distinguishes its jobs.
        """
        mark = sha256(str(self).encode()).hexdigest()[:KEY_MARK]
        return f"{quoted(self.group)[: KEY_LIMIT - KEY_MARK - 1]}-{mark}"


def name_prefix(priority: int, group: str, project: str) -> str:
    """Return a job's name without the sequence, which ZooKeeper appends."""
    return f"entry-{priority:03d}-{quoted(group)}:{quoted(project)}-"


def quoted(text: str) -> str:
    """Return a text as part of a znode's name: percent-encoded where ZooKeeper would refuse it."""
    return _QUOTED.sub(lambda found: quote(found[0], safe="", errors="surrogatepass"), text)


def quoted_whole(text: str) -> str:
    """Return a text as a whole znode's name: ``.`` and ``..`` are not allowed either."""
    return _WHOLE_NAMES.get(text) or quoted(text)


def unquoted(text: str) -> str:
    """Parse what ``quoted`` and ``quoted_whole`` write; raise ``BadMessage`` if it is no text."""
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError as error:
        raise BadMessage(f"{text!r} is no name: {error}") from error


def batch_id_of(name: str) -> str:
    """Return the id of the batch that a znode is named after; raise ``BadMessage`` at others."""
    batch = unquoted(name)
    if quoted_whole(batch) != name:
        raise BadMessage(f"{name!r} is not the name of a batch")
    return batch


def check_batch_id(batch: object) -> str:
    """Return the id if it is allowed; raise ``BadMessage`` if not."""
    if not isinstance(batch, str) or not 1 <= len(batch) <= GROUP_LIMIT:
        raise BadMessage(f"batch id {batch!r} is not allowed: use 1 to {GROUP_LIMIT} characters")
    if not is_text(batch):  # no event could name it
        raise BadMessage(f"batch id {batch!r} is not allowed: it has half of a character")
    return batch


def check_priority(priority: object) -> int:
    """Return the priority if it is allowed; raise ``BadMessage`` if not."""
    if not isinstance(priority, int) or priority not in PRIORITIES:
        raise BadMessage(f"priority {priority!r} is not allowed: use a number from 0 to 999")
    return priority


def check_size(
    what: str, record: "Job | BatchRecord", limit: int, most: int = RECORD_LIMIT
) -> bytes:
    """Return a record's bytes, if they fit into a transaction and readers accept their size.

    Args:
        limit: bytes once compressed.
        most: bytes before.

    Raises:
        BadMessage: they do not, or it has none.
    """
    try:
        data, size = record.encode(), len(plain(record))
    except UnicodeEncodeError as error:
        culprit = error.object[: error.start + 1]
        raise BadMessage(f"{what} holds half of a character: {culprit[-80:]!r}") from None
    if len(data) > limit:
        raise BadMessage(f"{what} has {len(data)} bytes when compressed, the limit is {limit}")
    if size > most:
        raise BadMessage(f"{what} has {size} bytes, the limit is {most}")
    return data


@dataclass(frozen=True)
class JobRules:
    """How often a job is tried, how long it waits in between, and how much of it is kept.

    Attributes:
        tries: failures after which a job is failed.
        pauses: seconds to wait after the first failure, the second ...; the last one repeats.
        deaths: claimants that may die of a job before it is failed.
        keep_batches: ended batches kept.
        keep_jobs: done jobs kept; beyond that, whole batches are deleted, the oldest first.
        abandoned: seconds after which a batch that was put only in part, or that nobody closed,
            counts as ended.
    """

    tries: int = 5
    pauses: tuple[float, ...] = (1.0, 5.0, 15.0, 60.0)
    deaths: int = 10
    keep_batches: int = 200
    keep_jobs: int = 4096
    abandoned: float = 86400.0


@dataclass(frozen=True)
class Job:
    """Job: a durable piece of work, as recorded in its znode.

    Attributes:
        work: what to do; opaque to the queue.
        created: seconds since the epoch.
        attempts: how often it failed.
        deaths: how many claimants died before they ended it.
        claims: how often it was claimed; distinguishes the claims of one claimant.
        not_before: seconds since the epoch before which nobody may claim it.
        claimant: path of the claimant's ephemeral znode; of a done job, the last claimant's.
        slot_epoch: the epoch at which the claimant owned the job's slot; a claimant with a
            higher one may take the job over.
        cancelled: the claimant must stop.
        needs_cleanup: it has begun something that must be cleaned up, even if it is cancelled.
        progress: as last reported by a claimant.
        reason: why it failed last.
        outcome: how it ended; None before.
        ended: seconds since the epoch.
    """

    work: Mapping[str, Any]
    created: float
    attempts: int = 0
    deaths: int = 0
    claims: int = 0
    not_before: float = 0.0
    claimant: str = ""
    slot_epoch: int = NO_EPOCH
    cancelled: bool = False
    needs_cleanup: bool = False
    progress: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""
    outcome: Outcome | None = None
    ended: float = 0.0

    def encode(self) -> bytes:
        """Return the bytes for the znode, compressed if that makes them smaller."""
        return encode(self)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Parse the bytes of the znode; unknown keys of a newer version are ignored.

        Raises:
            BadMessage: they are not a job.
        """
        if len(data) > MOVED_LIMIT:
            raise BadMessage(f"a job has {MOVED_LIMIT} bytes at most, not {len(data)}")
        job = decode(cls, data, RECORD_LIMIT)
        if min(job.attempts, job.deaths, job.claims, job.slot_epoch) < 0:
            raise BadMessage("a job counts from 0 on")
        return job


@dataclass(frozen=True)
class BatchRecord:
    """Record of a batch, as its znode stores it.

    Attributes:
        note: describes the request; opaque to the queue.
        created: seconds since the epoch.
        expected: how many jobs it has when all are put.
        put: how many were put so far.
        cancelled: no job of it may be claimed, and no more may be put.
        digest: of the requested jobs: a batch is not completed with others.
        to_close: its end must be recorded; it is not deleted before.
    """

    note: Mapping[str, Any]
    created: float
    expected: int
    put: int = 0
    cancelled: bool = False
    digest: str = ""
    to_close: bool = False

    @property
    def settled(self) -> bool:
        """Whether no more jobs will be put."""
        return self.cancelled or self.put == self.expected

    def encode(self) -> bytes:
        """Return the bytes for the znode."""
        return encode(self)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Parse the bytes of the znode; raise ``BadMessage`` if they are no batch."""
        record = decode(cls, data, RECORD_LIMIT)
        if not 0 <= record.put <= record.expected:
            raise BadMessage(f"{record.put} of {record.expected} jobs cannot have been put")
        return record


@dataclass(frozen=True)
class Batch:
    """Batch with its jobs, at (nearly) one moment.

    Attributes:
        jobs: those that are still kept, by place.
        unreadable: what is wrong with the unreadable ones; they stay until the batch is
            cancelled.
    """

    id: str
    record: BatchRecord
    jobs: Mapping[JobState, Mapping[JobName, Job]]
    unreadable: Mapping[JobName, str] = field(default_factory=dict)

    @property
    def note(self) -> Mapping[str, Any]:
        """The description of the request."""
        return self.record.note

    @property
    def is_whole(self) -> bool:
        """Whether every job that was put was seen: a look may miss one that is just moving."""
        return sum(map(len, self.jobs.values())) + len(self.unreadable) >= self.record.put

    @property
    def ended(self) -> bool:
        """Whether all jobs are done, and all were put unless the batch was cancelled."""
        return self.record.settled and len(self.jobs[JobState.DONE]) >= self.record.put


@dataclass(frozen=True)
class Claimant:
    """Claimant of jobs.

    Attributes:
        path: its ephemeral znode, which is never created again once it is gone.
    """

    path: str

    @property
    def parent(self) -> str:
        """The parent znode of claimants like this one."""
        return self.path.rpartition("/")[0]

    @property
    def is_path(self) -> bool:
        """Whether it is a valid path in ZooKeeper; a record may contain anything."""
        return _PATH.fullmatch(self.path) is not None


class Found(NamedTuple):
    """A job as it was read, and the version of its znode."""

    name: JobName
    job: Job
    version: int


class Junk(NamedTuple):
    """A job's znode that cannot be read, why, and its version."""

    name: JobName
    reason: str
    version: int


@dataclass(frozen=True)
class Claim:
    """Claim: a running job that a claimant holds.

    Attributes:
        version: of the running job's znode.
    """

    name: JobName
    job: Job
    version: int


class Verdict(NamedTuple):
    """Result of a job that its claimant no longer carries out.

    Attributes:
        outcome: how it ended; None: it is given back.
        reason: why it failed, or why it is given back; empty: it did not fail.
    """

    outcome: Outcome | None
    reason: str = ""


@dataclass(frozen=True)
class Report:
    """Report of a claimant on its job: the progress, or the end.

    Attributes:
        progress: what the next claimant must know.
        needs_cleanup: something has begun that must be cleaned up; see ``JobQueue.report``.
        verdict: None: the claimant goes on.
        behind: a job that is given back waits for something: the queue object that it is given back
            by takes it again only after all others.
    """

    claim: Claim
    progress: Mapping[str, Any] = field(default_factory=dict)
    needs_cleanup: bool = False
    verdict: Verdict | None = None
    behind: bool = False
