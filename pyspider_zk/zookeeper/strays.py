"""Strays: znodes that somebody put below one of ours; they are in the way of its deletion."""

import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from pyspider_zk.zookeeper.connection import Connection
from pyspider_zk.zookeeper.errors import NoNodeError, NotEmptyError
from pyspider_zk.zookeeper.steps import Delete, Step

logger = logging.getLogger(__name__)

AT_ONCE = 500  # znodes of which one request each is under way


def do_despite_strays(connection: Connection, *steps: Step) -> None:
    """Do all steps or none, as ``multi`` does, though strays stand below what they delete.

    Only for znodes that have no children of ours.
    """
    try:
        connection.multi(*steps)
    except NotEmptyError:
        delete_below(connection, deleted_by(steps))
        connection.multi(*steps)


def delete_despite_strays(connection: Connection, path: str) -> None:
    """Delete a znode that has no children of ours; no fault if it does not exist."""
    with suppress(NoNodeError):
        do_despite_strays(connection, Delete(path))


def deleted_by(steps: Iterable[Step]) -> list[str]:
    """Return the paths of the znodes that these steps delete."""
    return [step.path for step in steps if isinstance(step, Delete)]


def delete_below(
    connection: Connection, paths: Sequence[str], between: Callable[[], object] = lambda: None
) -> bool:
    """Delete everything below these znodes, but not them; return whether there was anything.

    What comes meanwhile may stay.

    Args:
        between: called after each round trip; there may be any number of them.
    """
    strays: list[str] = []
    level = list(paths)
    while level := children_of(connection, level, between):
        strays += level
    deepest_first = strays[::-1]
    for start in range(0, len(strays), AT_ONCE):
        some = deepest_first[start : start + AT_ONCE]
        connection.multi_all([[Delete(path)] for path in some])
        between()
    if strays:
        logger.warning(
            "%s does not belong there and was deleted, and so were %d other znodes",
            *(strays[0], len(strays) - 1),
        )
    return bool(strays)


def children_of(
    connection: Connection, parents: Sequence[str], between: Callable[[], object] = lambda: None
) -> list[str]:
    """Return the paths of all children of these znodes; see ``delete_below``."""
    paths: list[str] = []
    for start in range(0, len(parents), AT_ONCE):
        some = parents[start : start + AT_ONCE]
        names = connection.look([], [(path, None) for path in some]).names
        paths += [f"{path}/{name}" for path, its in zip(some, names, strict=True) for name in its]
        between()
    return paths
