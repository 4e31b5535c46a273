"""Protection of a tree that was created without a login."""

import logging

from pyspider_zk.config import Settings
from pyspider_zk.errors import Refused
from pyspider_zk.zookeeper.connection import Connection, connected

logger = logging.getLogger(__name__)

_SYSTEM = "/zookeeper"  # ZooKeeper's own; everybody may read its `config`, and nobody change it


def protect(connection: Connection, root: str) -> int:
    """Give every znode of a tree to the login; return how many there are. Blocks for each.

    A znode comes before those below it: once it is protected, nobody without the login can add
    another one there, so none is missed while others keep writing.

    Raises:
        Refused: a znode belongs to another login; those before it are protected.
    """
    left, count = [root], 0
    while left:
        path = left.pop()
        if connection.protect(path):
            count += 1
            left += [f"{path}/{name}" for name in connection.children(path)]
    return count


def close_server(settings: Settings, *, empty: bool) -> int:
    """Give all znodes of a server of ours to the login; return how many that closed.

    Blocks for each znode; a server that is closed already costs one request. ZooKeeper's own
    znodes come last and show that everything was done. The root comes first: from then on nobody
    else can create a tree beside it.

    Args:
        settings: where the server is, and the login.
        empty: whether nobody had written to the server before it was started.

    Raises:
        Refused: the cluster belongs to another login, or somebody else wrote to the server though
            it was empty.
        Unavailable: the server does not answer.
    """
    with connected(settings) as connection:
        return _close(connection, settings.root, empty) if connection.is_open(_SYSTEM) else 0


def _close(connection: Connection, root: str, empty: bool) -> int:
    connection.protect("/")
    trees = sorted({f"/{name}" for name in connection.children("/")} - {_SYSTEM})
    if empty and trees:
        raise Refused(f"somebody else wrote {', '.join(trees)} while ZooKeeper was started")
    ours = {tree for tree in trees if f"{root}/".startswith(f"{tree}/")}
    count = sum(protect(connection, tree) for tree in ours)
    count += sum(_close_other(connection, tree) for tree in trees if tree not in ours)
    connection.protect(f"{_SYSTEM}/quota")
    connection.protect(_SYSTEM)
    return count


def _close_other(connection: Connection, tree: str) -> int:
    """Close a tree of other programs; one that has a login of its own is closed already."""
    try:
        return protect(connection, tree)
    except Refused:
        logger.warning("%s belongs to another login and is left to it", tree)
        return 0
