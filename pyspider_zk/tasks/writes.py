"""Writes of tasks' rows, and the groups in which a transaction carries them out."""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from pyspider_zk.tasks.failures import FailedTry

T = TypeVar("T")

Row = tuple[Any, ...]

MOST_ROWS = 500
"""In one statement."""

MOST_BYTES = 2**19
"""In one statement of several rows: well below what servers take in one packet (MySQL's
``max_allowed_packet``), also when half of it must be escaped."""


STEP = 1e-6
"""Seconds between the times of two rows of one transaction, so that their order is not lost."""


class TaskWrite(Struct, frozen=True):
    """One change of one task's row.

    Attributes:
        columns: as ``TaskDatabase.encoded`` returned them.
        is_new: it is an insert, else an update of these columns.
        failure: what went wrong with the task; None: nothing is wrong any more.
    """

    project: str
    taskid: str
    columns: Mapping[str, Any]
    is_new: bool
    failure: FailedTry | UnsetType | None = UNSET


@dataclass(frozen=True, slots=True)
class RowGroup:
    """Rows of one project that one statement writes: with the same columns, one of each task.

    Attributes:
        names: of the columns, the task id first.
        rows: sorted by task id, so that two who write the same rows lock them in one order. Their
            times, in the last column, tell the order of the writes.
    """

    project: str
    is_new: bool
    names: tuple[str, ...]
    rows: list[Row]


def grouped(
    writes: Iterable[TaskWrite], now: float, compared: Callable[[str], str]
) -> Iterator[RowGroup]:
    """Yield groups that leave what the writes leave in their order.

    What follows a task's insert becomes part of that insert. So the updates that remain all come
    before an insert of the same task, if there is any, and go first.

    Args:
        now: the time of the first write, in seconds since the epoch.
        compared: returns what of a task id the database compares.
    """
    updates: dict[tuple[str, str], TaskWrite] = {}
    inserts: dict[tuple[str, str], TaskWrite] = {}
    for write in writes:
        key = write.project, compared(write.taskid)
        into = inserts if write.is_new or key in inserts else updates
        former = into.get(key)
        into[key] = write if former is None else merged(former, write)
    yield from _groups(updates.values(), False, now)
    yield from _groups(inserts.values(), True, now)


def merged(first: TaskWrite, second: TaskWrite) -> TaskWrite:
    """Return the write of one task that does what an insert or two updates do together."""
    return replace(first, columns={**first.columns, **second.columns})


def _groups(writes: Iterable[TaskWrite], is_new: bool, now: float) -> Iterator[RowGroup]:
    rows: dict[tuple[str, tuple[str, ...]], list[Row]] = {}
    for number, write in enumerate(writes):
        first = (write.taskid, write.project) if is_new else (write.taskid,)
        row = (*first, *write.columns.values(), now + number * STEP)
        rows.setdefault((write.project, tuple(write.columns)), []).append(row)
    begin = ("taskid", "project") if is_new else ("taskid",)
    for (project, names), alike in rows.items():
        alike.sort(key=lambda row: str(row[0]))
        yield RowGroup(project, is_new, (*begin, *names, "updatetime"), alike)


def projects_to_make(writes: Iterable[TaskWrite], known: Container[str]) -> list[str]:
    """Return the projects that need a table before the writes.

    Args:
        known: the projects that have one.

    Raises:
        LookupError: an update comes before any insert in a project without table.
    """
    made: dict[str, None] = {}
    for project, is_new in dict.fromkeys((write.project, write.is_new) for write in writes):
        if project not in made and project not in known:
            if not is_new:
                raise LookupError(f"project {project!r} has no tasks")
            made[project] = None
    return list(made)


def pieces(items: Sequence[T], most: int = MOST_ROWS) -> Iterator[Sequence[T]]:
    """Yield the items in pieces that one statement may have."""
    for begin in range(0, len(items), most):
        yield items[begin : begin + most]


def ids_last(rows: Iterable[Row]) -> list[Row]:
    """Return rows with the task id last, as an update of one row takes them."""
    return [(*row[1:], row[0]) for row in rows]


def statements(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """Yield rows in pieces that fit into a statement; one that is larger comes alone."""
    return batches(rows, _size_of, MOST_ROWS, MOST_BYTES)


def _size_of(row: Row) -> int:
    return sum(len(value) for value in row if isinstance(value, str | bytes))


def batches(
    things: Iterable[T], size_of: Callable[[T], int], most: int, limit: int
) -> Iterator[list[T]]:
    """Yield things in lists of ``most`` at most, of ``limit`` bytes if none is larger by itself."""
    batch: list[T] = []
    size = 0
    for each in things:
        more = size_of(each)
        if batch and (size + more > limit or len(batch) == most):
            yield batch
            batch, size = [], 0
        batch.append(each)
        size += more
    if batch:
        yield batch
