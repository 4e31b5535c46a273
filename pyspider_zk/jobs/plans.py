"""Plans: what an operation would do to which projects, and why not. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from pyspider_zk.errors import BadRequest
from pyspider_zk.jobs.operations import STARTING, Operation
from pyspider_zk.projects.names import PROJECT_NAME_LIMIT, is_project_name
from pyspider_zk.projects.rows import ACTIVE
from pyspider_zk.projects.selection import Selection
from pyspider_zk.zookeeper.codec import plain

SHARE = 2000  # projects of a job; a znode must have room for the report on each of them
SHARE_SIZE = 128 * 1024  # bytes of their names: each may occur three times
CULPRITS = 5  # names in a message

Row = Mapping[str, Any]


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
    rest = len(names) - CULPRITS
    return ", ".join(names[:CULPRITS]) + (f" and {rest} more" if rest > 0 else "")
