"""Reading jobs, and carrying out the transactions that move them."""

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError, NotEmptyError

from pyspider_zk.core import job_moves
from pyspider_zk.core.job_moves import Check, Create, Delete, JobTree, Write
from pyspider_zk.core.jobs import BatchRecord, Job, JobName, JobState, parse_names, unquoted
from pyspider_zk.errors import BadMessage
from pyspider_zk.zookeeper.connection import (
    Connection,
    Step,
    Watch,
    check,
    create,
    delete,
    write,
)

logger = logging.getLogger("pyspider_zk.jobs")

REFUSED = (BadVersionError, NoNodeError, NodeExistsError, NotEmptyError)
"""What ZooKeeper says to a move that was decided on an older state."""


class Found(NamedTuple):
    """A job as it was read."""

    name: JobName
    job: Job
    version: int


class JobStore:
    """The znodes of one job queue.

    Threads: any; calls block for some seconds at most and raise ``Unavailable``.
    """

    def __init__(self, connection: Connection, tree: JobTree) -> None:
        self._connection = connection
        self.tree = tree
        self._founded: set[str] = set()

    def ensure(self, event: Create | None = None) -> None:
        """Create what must stand before anything can be put, the event's parent included."""
        log = [event.path.rpartition("/")[0]] if event else []
        missing = [path for path in (*self.tree.all, *log) if path not in self._founded]
        self._connection.ensure(missing)
        self._founded.update(missing)

    def catch_up(self) -> None:
        """Let what was written before be seen by what is read from now on."""
        self._connection.sync(self.tree.root)

    def do(self, steps: Iterable[job_moves.Step]) -> None:
        """Do all steps or none.

        Raises:
            REFUSED: one of them was decided on an older state.
            Unavailable: nobody knows whether they were done.
        """
        try:
            self._connection.multi(*map(_in_kazoo, steps))
        except NoNodeError:
            self._founded = set()  # somebody may have cleared everything away
            raise

    def do_if_current(self, steps: Iterable[job_moves.Step]) -> bool:
        """Do all steps, or tell that they were decided on an older state.

        What is read after a refusal is not older than what it was refused for.
        """
        try:
            self.do(steps)
        except REFUSED:
            self.catch_up()
            return False
        return True

    def names(self, state: JobState, watch: Watch | None = None) -> list[JobName]:
        """Return the jobs in one place, by rank."""
        return parse_names(self._connection.children(self.tree.place(state), watch))

    def read(self, state: JobState, names: Sequence[JobName]) -> Iterator[Found]:
        """Yield those of these jobs that still stand in one place."""
        paths = [self.tree.job(state, name) for name in names]
        found = self._connection.find_all(paths)
        for name, record in zip(names, found, strict=True):
            if record is None:
                continue
            try:
                yield Found(name, Job.decode(record[0]), record[1])
            except BadMessage as error:
                logger.warning("job %s is passed over: %s", name, error)

    def find(self, state: JobState, name: JobName, watch: Watch | None = None) -> Found | None:
        """Return a job if it stands in one place."""
        record = self._connection.find(self.tree.job(state, name), watch)
        return Found(name, Job.decode(record[0]), record[1]) if record else None

    def batch(self, batch: str) -> tuple[BatchRecord, int] | None:
        """Return a batch's record and version."""
        found = self._connection.find(self.tree.batch(batch))
        return (BatchRecord.decode(found[0]), found[1]) if found else None

    def batch_ids(self) -> list[str]:
        """Return the ids of all batches, in no order."""
        return list(map(unquoted, self._connection.children(self.tree.batches)))

    def batches(self, batches: Iterable[str]) -> dict[str, tuple[BatchRecord, int]]:
        """Return those of these batches that stand, with their versions."""
        wanted = list(batches)
        found = self._connection.find_all(list(map(self.tree.batch, wanted)))
        known: dict[str, tuple[BatchRecord, int]] = {}
        for batch, record in zip(wanted, found, strict=True):
            try:
                if record is not None:
                    known[batch] = (BatchRecord.decode(record[0]), record[1])
            except BadMessage as error:
                logger.warning("batch %r is passed over: %s", batch, error)
        return known

    def standing(self, parents: Iterable[str], watch: Watch | None = None) -> set[str]:
        """Return the paths of the znodes that stand below these."""
        return {
            f"{parent}/{name}"
            for parent in sorted(set(parents))
            for name in self._connection.children(parent, watch)
        }

    def stands(self, path: str) -> bool:
        """Tell whether a znode stands."""
        return self._connection.find(path) is not None


def _in_kazoo(step: job_moves.Step) -> Step:
    match step:
        case Check(path, version):
            return check(path, version)
        case Create(path, data, sequence):
            return create(path, data, sequence=sequence)
        case Write(path, data, version):
            return write(path, data, version)
        case Delete(path, version):
            return delete(path, version)
