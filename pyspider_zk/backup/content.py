"""Content of a backup: which znodes are durable, what a valid backup has, and how it is restored.

Pure. Paths are relative to the root of the cluster.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from pyspider_zk.cluster.events import PREFIX, age_order, sequence_of
from pyspider_zk.cluster.protocols import CLOSED, SPOKEN, is_spoken, text_of
from pyspider_zk.cluster.records import Assignment, Meta, Slot
from pyspider_zk.cluster.tree import Tree
from pyspider_zk.errors import BadMessage
from pyspider_zk.jobs.model import Job, JobName, JobState
from pyspider_zk.jobs.rules import after_return
from pyspider_zk.jobs.transactions import JobTree, arrive_steps
from pyspider_zk.zookeeper.steps import Create, Step

OTHERS = frozenset({"groups", "locks"})
"""What belongs to programs that use the worker controller below the same root."""

VOLATILE = OTHERS | {"members", "leases", "acks", "election", "components"}
"""What belongs to processes that run, and begins anew with them."""

META, ASSIGNMENT, JOBS, EVENTS = "meta", "assignment", "jobs", "events"
MOST_ZNODES = 200_000
LARGEST_ZNODE = 2**20  # bytes; ZooKeeper takes no larger one
DEEPEST = 8  # names in a path

_NAME = r"(?!\.{1,2}(?:/|$))[^/\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff]+"
_PATH = re.compile(rf"{_NAME}(?:/{_NAME}){{0,{DEEPEST - 1}}}")
_PLACES = tuple(f"{JOBS}/{state}" for state in JobState)
_NUMBERED = (*(f"{place}/" for place in _PLACES), f"{EVENTS}/")


@dataclass(frozen=True)
class Backup:
    """What a cluster keeps in ZooKeeper.

    Attributes:
        root: where it was.
        created: when it was read, seconds since the epoch.
        znodes: data by path, parents before their children.
    """

    root: str
    created: float
    znodes: Mapping[str, bytes]

    @property
    def meta(self) -> Meta:
        """The values that the cluster was created with.

        Raises:
            BadMessage: there are none.
        """
        return Meta.decode(self.znodes.get(META, b""))


def is_durable(path: str) -> bool:
    """Return whether a znode, which is not ephemeral, belongs into a backup."""
    return path.partition("/")[0] not in VOLATILE


def check_backup(backup: Backup) -> None:
    """Check everything before the first znode is written; a file may have been made by anybody.

    Raises:
        BadMessage: naming what is wrong.
    """
    if len(backup.znodes) > MOST_ZNODES:
        raise BadMessage(f"it has {len(backup.znodes)} znodes, the limit is {MOST_ZNODES}")
    seen = {""}
    for path, data in backup.znodes.items():
        _check_znode(path, data, path.rpartition("/")[0] in seen)
        seen.add(path)
    _check_cluster(backup)
    _check_jobs(backup)


def _check_znode(path: str, data: bytes, has_parent: bool) -> None:
    if not _PATH.fullmatch(path):
        raise BadMessage(f"{path!r:.200} is no path below a cluster's root")
    if not is_durable(path):
        raise BadMessage(f"{path!r:.200} belongs to a process, not into a backup")
    if not has_parent:
        raise BadMessage(f"{path!r:.200} comes before its parent")
    if len(data) > LARGEST_ZNODE:
        raise BadMessage(f"{path!r:.200} has {len(data)} bytes, the limit is {LARGEST_ZNODE}")


def _check_cluster(backup: Backup) -> None:
    meta = backup.meta
    if meta.protocol == CLOSED:
        raise BadMessage("it was made while the cluster was closed: a restore was not completed")
    if not is_spoken(meta.protocol, SPOKEN):
        raise BadMessage(
            f"it is of protocol {meta.protocol}, this version speaks {text_of(SPOKEN)}: use one"
            " that speaks it"
        )


def _check_jobs(backup: Backup) -> None:
    names = [path.rpartition("/")[2] for path in backup.znodes if _is_job(path)]
    if len(set(names)) != len(names):
        raise BadMessage("a job is in two places")


def highest_epoch(table: bytes) -> int:
    """Return the highest epoch in an assignment, 0 if it cannot be read."""
    try:
        found = Assignment.decode(table)
    except BadMessage:
        return 0
    return max((slot.epoch for slot in found.slots), default=0)


def vacant_at(slots: int, epoch: int, table: bytes) -> Assignment:
    """Return a table in which nobody owns anything, to be granted above an epoch.

    Args:
        table: the one that it follows; its own number goes on from there.
    """
    try:
        before = Assignment.decode(table).epoch
    except BadMessage:
        before = 0
    return Assignment(before + 1, (Slot(epoch=epoch),) * slots)


def restoring_steps(backup: Backup, tree: Tree) -> Iterator[list[Step]]:
    """Yield what creates everything but meta and assignment, each list in one transaction.

    Jobs that ran are given back, as if their claimants had died: they continue from the progress
    that they reported. Pending jobs and events get new numbers in their order, for those that come
    later are numbered by how many came before.
    """
    for path, data in backup.znodes.items():
        if path.partition("/")[0] not in (META, ASSIGNMENT) and not path.startswith(_NUMBERED):
            yield [Create(f"{tree.root}/{path}", data)]
    yield from _job_steps(backup, JobTree(tree.jobs))
    yield from _event_steps(backup, tree)


def _is_job(path: str) -> bool:
    return path.rpartition("/")[0] in _PLACES


def _job_steps(backup: Backup, tree: JobTree) -> Iterator[list[Step]]:
    waiting = 0
    for name, job in sorted(_jobs(backup), key=lambda pair: pair[0].sequence % 2**32):
        its = after_return(job, backup.created) if job.outcome is None else job
        if its.outcome is None:
            name = name._replace(sequence=waiting)
            waiting += 1
        yield arrive_steps(tree, name, replace(its, claimant=job.claimant if its.outcome else ""))


def _jobs(backup: Backup) -> Iterator[tuple[JobName, Job]]:
    """Yield the jobs; what no scheduler can read is no job."""
    for path, data in backup.znodes.items():
        if _is_job(path):
            try:
                yield JobName.parse(path.rpartition("/")[2]), Job.decode(data)
            except BadMessage:
                continue


def _event_steps(backup: Backup, tree: Tree) -> Iterator[list[Step]]:
    events = {
        sequence_of(path.rpartition("/")[2]): data
        for path, data in backup.znodes.items()
        if _is_event(path)
    }
    for _, data in sorted(events.items(), key=lambda item: age_order(item[0])):
        yield [Create(f"{tree.events}/{PREFIX}", data, sequence=True)]


def _is_event(path: str) -> bool:
    parent, _, name = path.rpartition("/")
    try:
        return parent == EVENTS and sequence_of(name) is not None
    except BadMessage:
        return False


def left_out(backup: Backup) -> list[str]:
    """Return the paths that nobody can read, of jobs and events; they are not restored.

    Nor is what somebody put below the two znodes that are written last.
    """
    readable = {str(name) for name, _ in _jobs(backup)}
    jobs = (path for path in backup.znodes if _is_job(path))
    events = (path for path in backup.znodes if path.startswith(f"{EVENTS}/"))
    return [
        *(path for path in jobs if path.rpartition("/")[2] not in readable),
        *(path for path in events if not _is_event(path)),
        *(path for path in backup.znodes if path.startswith((f"{META}/", f"{ASSIGNMENT}/"))),
    ]
