"""Reading and writing of a cluster's durable znodes."""

import time
from collections.abc import Callable, Iterable, Mapping

from pyspider_zk.backup.content import (
    ASSIGNMENT,
    OTHERS,
    Backup,
    highest_epoch,
    is_durable,
    restoring_steps,
    vacant_at,
)
from pyspider_zk.cluster.meta import Wait, close_cluster
from pyspider_zk.cluster.tree import Tree
from pyspider_zk.errors import Conflict, NotFound, Unavailable
from pyspider_zk.jobs.transactions import together
from pyspider_zk.zookeeper.connection import Connection, Details
from pyspider_zk.zookeeper.errors import NodeExistsError, NoNodeError, NotEmptyError
from pyspider_zk.zookeeper.steps import Create, Delete, Step, Write
from pyspider_zk.zookeeper.strays import AT_ONCE, children_of, delete_below

TRIES = 10


def read_cluster(
    connection: Connection, root: str, clock: Callable[[], float] = time.time
) -> Backup:
    """Return the durable znodes of a cluster, which may run meanwhile.

    They are read twice. If each is the same znode both times, then all of them existed together at
    the moment between; or else they are read again. Of one that was rewritten in that moment the
    later data count.

    Raises:
        NotFound: there is no cluster.
        Unavailable: ZooKeeper does not answer, or too much changes.
    """
    connection.sync(root)
    before = _durable(connection, root)
    if not before:
        raise NotFound(f"there is no cluster at {root}")
    for _ in range(TRIES):
        created, after = clock(), _durable(connection, root)
        if _origins(before) == _origins(after):
            return Backup(root, created, {path: after[path].data for path in sorted(after)})
        before = after
    raise Unavailable(
        f"the cluster at {root} changed each of {TRIES} times that it was read: try again when less"
        " is started or stopped, or stop the schedulers"
    )


def write_cluster(
    connection: Connection,
    root: str,
    backup: Backup,
    *,
    replace: bool,
    sealed: int = 0,
    wait: Wait = time.sleep,
    clock: Callable[[], float] = time.time,
) -> int:
    """Write a valid backup below a root, in place of what is there; return the epoch.

    Nobody can join before the last step, which is one transaction, so what was interrupted is
    simply done again.

    Args:
        replace: whether something may be there; nobody may run.
        sealed: the highest epoch that the task database knows.

    Raises:
        Conflict: something is there, or processes run.
        Unavailable: ZooKeeper does not answer; run it again, with ``replace``.
    """
    tree = Tree(root)
    moves = list(restoring_steps(backup, tree))  # before anything is cleared
    if not replace and connection.children(root):
        raise Conflict(
            f"there is a cluster at {root} already: stop its processes and say --replace, or"
            " choose another root"
        )
    version = close_cluster(connection, tree, wait)
    table = backup.znodes.get(ASSIGNMENT, b"")
    found = connection.find(tree.assignment)
    known = highest_epoch(found[0]) if found else 0
    epoch = max(sealed, known, highest_epoch(table), int(clock()))
    try:
        _clear(connection, tree)
        _write(connection, moves)
        _open(connection, tree, backup, epoch, version)
    except (NodeExistsError, NoNodeError, NotEmptyError) as error:
        raise Conflict(f"somebody else writes to {root}: stop that, and try again") from error
    return epoch


def _open(connection: Connection, tree: Tree, backup: Backup, epoch: int, version: int) -> None:
    """Write what lets processes join."""
    table = vacant_at(backup.meta.slots, epoch, backup.znodes.get(ASSIGNMENT, b""))
    connection.multi(
        Create(tree.assignment, table.encode()),
        Write(tree.meta, backup.meta.encode(), version),
    )


def _write(connection: Connection, moves: Iterable[list[Step]]) -> None:
    for part in together(moves):
        connection.multi(*(step for move in part for step in move))


def _clear(connection: Connection, tree: Tree) -> None:
    """Delete everything but the meta record and what other programs have below the root.

    The lowest come first, but before all the assignment: without one, it is clear that the rest
    is incomplete.
    """
    delete_below(connection, [tree.assignment])
    connection.delete(tree.assignment)
    kept = {tree.meta, *(f"{tree.root}/{name}" for name in OTHERS)}
    paths = sorted(_walk(connection, tree.root, lambda path: path not in kept), reverse=True)
    for start in range(0, len(paths), AT_ONCE):
        connection.multi(*map(Delete, paths[start : start + AT_ONCE]))


def _origins(znodes: Mapping[str, Details]) -> dict[str, int]:
    return {path: found.created for path, found in znodes.items()}


def _durable(connection: Connection, root: str) -> dict[str, Details]:
    """Return what is durable, by path relative to the root."""
    start = len(root) + 1
    found = _walk(connection, root, lambda path: is_durable(path[start:]))
    return {path[start:]: each for path, each in found.items() if not each.ephemeral}


def _walk(
    connection: Connection, root: str, is_wanted: Callable[[str], bool]
) -> dict[str, Details]:
    """Return all znodes below a root that are wanted, and below such, level by level."""
    found: dict[str, Details] = {}
    level = [root]
    while level:
        level = [path for path in children_of(connection, level) if is_wanted(path)]
        found.update(_details(connection, level))
    return found


def _details(connection: Connection, paths: list[str]) -> dict[str, Details]:
    found: dict[str, Details] = {}
    for start in range(0, len(paths), AT_ONCE):
        some = paths[start : start + AT_ONCE]
        pairs = zip(some, connection.details(some), strict=True)
        found.update({path: each for path, each in pairs if each is not None})
    return found
