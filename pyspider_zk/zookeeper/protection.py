"""Protection of a tree that was made without a login."""

from pyspider_zk.config import Settings
from pyspider_zk.errors import Refused
from pyspider_zk.zookeeper.connection import Connection

_SYSTEM = "/zookeeper"  # ZooKeeper's own; everybody may read its `config`, and nobody change it


def protect(connection: Connection, root: str) -> int:
    """Make every znode of a tree the login's; return how many there are. Blocks for each.

    A znode comes before what is below it: once it is protected, nobody without the login can put
    another one there, so none is missed while others go on writing.

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
    """Make all that a server of our own holds the login's; return how many znodes that closed.

    Blocks for each znode; a server that is closed already costs one question. What is ZooKeeper's
    own comes last and tells that all was done. The root comes first: from then on nobody else can
    put a tree beside it.

    Args:
        settings: where the server is, and the login.
        empty: whether nobody had written to the server before it was started.

    Raises:
        Refused: a znode belongs to another login, or is there though the server was empty.
        Unavailable: the server does not answer.
    """
    connection = Connection(settings)
    connection.start()
    try:
        return _close(connection, empty) if connection.is_open(_SYSTEM) else 0
    finally:
        connection.stop()


def _close(connection: Connection, empty: bool) -> int:
    connection.protect("/")
    trees = sorted({f"/{name}" for name in connection.children("/")} - {_SYSTEM})
    if empty and trees:
        raise Refused(f"somebody else wrote {', '.join(trees)} while ZooKeeper was started")
    count = sum(protect(connection, tree) for tree in trees)
    connection.protect(f"{_SYSTEM}/quota")
    connection.protect(_SYSTEM)
    return count
