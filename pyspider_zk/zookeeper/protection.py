"""Protection of a tree that was made without a login."""

from pyspider_zk.zookeeper.connection import Connection


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
