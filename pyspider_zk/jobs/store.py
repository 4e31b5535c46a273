"""Store of jobs: reads them, and carries out the transactions that move them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from pyspider_zk.errors import BadMessage
from pyspider_zk.jobs import transactions
from pyspider_zk.jobs.model import BatchRecord, Found, Job, JobName, JobState, Junk, batch_id_of
from pyspider_zk.jobs.transactions import JobTree
from pyspider_zk.zookeeper.connection import Ask, Connection, Watch
from pyspider_zk.zookeeper.errors import OUTDATED, NoNodeError, NotEmptyError
from pyspider_zk.zookeeper.steps import Create, Delete, Step
from pyspider_zk.zookeeper.strays import delete_below, deleted_by

Name = TypeVar("Name")
T = TypeVar("T")
Versioned = tuple[BatchRecord, int]
"""A batch's record and the version of its znode."""

AT_ONCE = 64  # transactions that are sent without waiting for the first reply
DAMAGED = (NotEmptyError, NoNodeError)  # perhaps: a stray stands below a job, or no token


class JobMove(NamedTuple):
    """Move of a job out of a place, or a change of it there."""

    state: JobState
    name: JobName
    steps: Sequence[Step]


class JobStore:
    """The znodes of one job queue.

    An unreadable znode is skipped and recorded; the others are read nevertheless.

    Threads: any; calls block for some seconds at most and raise ``Unavailable``.
    """

    def __init__(self, connection: Connection, tree: JobTree) -> None:
        self._connection = connection
        self.tree = tree
        self.unreadable = connection.unreadable
        self._founded: set[str] = set()

    def ensure(self, event: Create | None = None) -> None:
        """Create the znodes that must exist before a put, including the event's parent."""
        log = [event.path.rpartition("/")[0]] if event else []
        missing = [path for path in (*self.tree.all, *log) if path not in self._founded]
        self._connection.ensure(missing)
        self._founded.update(missing)

    def catch_up(self) -> None:
        """Make sure that later reads see all earlier writes."""
        self._connection.sync(self.tree.root)

    def do_if_current(self, steps: Iterable[Step]) -> bool:
        """Do all steps or none; return False if they were decided on an older state.

        A read after a refusal sees at least the state that caused it. If ``Unavailable`` is
        raised, they may have been done or not.
        """
        return self._refusal_of(steps) is None

    def delete_if_current(self, steps: Iterable[Step]) -> bool:
        """Delete as ``do_if_current`` does, though foreign znodes may be below; none of ours is."""
        wanted = list(steps)
        refusal = self._refusal_of(wanted)
        if isinstance(refusal, NotEmptyError) and delete_below(
            self._connection, deleted_by(wanted)
        ):
            refusal = self._refusal_of(wanted)
        return refusal is None

    def move_all(self, moves: Sequence[JobMove]) -> list[bool]:
        """Do many moves, each for itself and all in one round trip; see ``move_if_current``."""
        return [done for part in parts(moves, AT_ONCE) for done in self._moved(part)]

    def _moved(self, moves: Sequence[JobMove]) -> list[bool]:
        refusals = self._connection.multi_all([move.steps for move in moves])
        if any(isinstance(refusal, NoNodeError) for refusal in refusals):
            self._founded = set()  # somebody may have deleted everything
        if any(refusals):
            self.catch_up()
        pairs = list(zip(moves, refusals, strict=True))
        damaged = {move.name for move, refusal in pairs if isinstance(refusal, NotEmptyError)}
        damaged |= self._without_token(
            [move for move, refusal in pairs if isinstance(refusal, NoNodeError)]
        )
        return [
            refusal is None or (move.name in damaged and self.move_if_current(*move))
            for move, refusal in pairs
        ]

    def _without_token(self, moves: Sequence[JobMove]) -> set[JobName]:
        """Return which of these jobs lack their fencing token; most were moved by another."""
        asks: list[Ask] = [(self.tree.job(move.state, move.name), None) for move in moves]
        found = self._connection.look(asks, asks)
        without = set()
        for (_, name, _), (path, _), record, below in zip(moves, asks, *found, strict=True):
            job = self._read(path, name, record) if record else None
            if isinstance(job, Found) and job.job.claims and str(job.job.claims) not in below:
                without.add(name)
        return without

    def move_if_current(self, state: JobState, name: JobName, steps: Sequence[Step]) -> bool:
        """Move a job as ``do_if_current`` does, though what stands below it may not be right."""
        refusal = self._refusal_of(steps)
        if isinstance(refusal, DAMAGED) and self._tidy(state, name):
            refusal = self._refusal_of(steps)
        return refusal is None

    def _refusal_of(self, steps: Iterable[Step]) -> Exception | None:
        try:
            self._connection.multi(*steps)
        except OUTDATED as error:
            if isinstance(error, NoNodeError):
                self._founded = set()  # somebody may have deleted everything
            self.catch_up()
            refusal: Exception = error
            return refusal
        return None

    def _tidy(self, state: JobState, name: JobName) -> bool:
        """Delete what does not belong below a job, make its token; return whether it was so."""
        below, was_deeper = self.pruned(state, name)
        found = self.find(state, name)
        if found is None:
            return False
        steps = transactions.tidy_steps(self.tree, state, found, below)
        for step in steps:
            if isinstance(step, Delete):
                self.unreadable.note(step.path, "it does not belong below a job and is deleted")
                self.unreadable.forget(step.path)
        return self.do_if_current(steps) if steps else was_deeper

    def names(self, state: JobState, watch: Watch | None = None) -> list[JobName]:
        """Return the jobs in one place, by rank."""
        place = self.tree.place(state)
        names = self._parsed(place, self._connection.children(place, watch), JobName.parse)
        return sorted(names, key=lambda name: name.rank)

    def _parsed(
        self, parent: str, children: Sequence[str], parse: Callable[[str], Name]
    ) -> list[Name]:
        """Return the names of children; record invalid ones, forget those that are gone."""
        return list(self.unreadable.parsed(parent, children, parse).values())

    def read(self, state: JobState, names: Sequence[JobName]) -> Iterator[Found]:
        """Yield those of these jobs that are still in one place, and can be read."""
        return (one for one in self.look(state, names) if isinstance(one, Found))

    def look(self, state: JobState, names: Sequence[JobName]) -> Iterator[Found | Junk]:
        """Yield those of these jobs that are still in one place, readable or not."""
        paths = [self.tree.job(state, name) for name in names]
        found = self._connection.find_all(paths)
        for name, path, record in zip(names, paths, found, strict=True):
            if record is not None:
                yield self._read(path, name, record)

    def find(self, state: JobState, name: JobName, watch: Watch | None = None) -> Found | None:
        """Return a job if it is in this place and can be read."""
        path = self.tree.job(state, name)
        record = self._connection.find(path, watch)
        found = self._read(path, name, record) if record else None
        return found if isinstance(found, Found) else None

    def pruned(self, state: JobState, name: JobName) -> tuple[list[str], bool]:
        """Return the names of a job's children, and whether anything stood below those.

        Nothing of ours does, so it is deleted.
        """
        path = self.tree.job(state, name)
        below = self._connection.children(path)
        return below, delete_below(self._connection, [f"{path}/{child}" for child in below])

    def _read(self, path: str, name: JobName, record: tuple[bytes, int]) -> Found | Junk:
        try:
            found = Found(name, Job.decode(record[0]), record[1])
        except BadMessage as error:
            self.unreadable.note(path, error)
            return Junk(name, str(error), record[1])
        self.unreadable.forget(path)
        return found

    def batch(self, batch: str) -> Versioned | None:
        """Return a batch's record and version.

        Raises:
            BadMessage: it cannot be read.
        """
        path = self.tree.batch(batch)
        found = self._connection.find(path)
        try:
            return (BatchRecord.decode(found[0]), found[1]) if found else None
        except BadMessage as error:
            raise BadMessage(f"{path}: {error}; delete it or write it anew") from error

    def batch_ids(self, watch: Watch | None = None) -> list[str]:
        """Return the ids of all batches, unordered."""
        parent = self.tree.batches
        return self._parsed(parent, self._connection.children(parent, watch), batch_id_of)

    def batches(self, batches: Iterable[str], watch: Watch | None = None) -> dict[str, Versioned]:
        """Return those of these batches that exist, with their versions."""
        wanted = list(batches)
        paths = list(map(self.tree.batch, wanted))
        found = self._connection.look([(path, watch) for path in paths]).data
        known: dict[str, Versioned] = {}
        for batch, path, data in zip(wanted, paths, found, strict=True):
            record = self.unreadable.decoded(path, data, BatchRecord.decode)
            if data is not None and record is not None:
                known[batch] = (record, data[1])
        return known

    def standing(self, parents: Iterable[str], watch: Watch | None = None) -> set[str]:
        """Return the paths of the children of these znodes."""
        return {
            f"{parent}/{name}"
            for parent in sorted(set(parents))
            for name in self._connection.children(parent, watch)
        }

    def stands(self, path: str) -> bool:
        """Return whether a znode exists."""
        return self._connection.find(path) is not None


def parts(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Yield a sequence in parts of some size, the last may be shorter."""
    return (items[start : start + size] for start in range(0, len(items), size))
