"""Steps of a transaction on znodes, as values: all of one list are done, or none."""

from dataclasses import dataclass

ANY_VERSION = -1


@dataclass(frozen=True)
class Check:
    """The znode exists, with that version if one is given."""

    path: str
    version: int = ANY_VERSION


@dataclass(frozen=True)
class Create:
    """Create a znode; with ``sequence`` ZooKeeper appends the next number to the path.

    An ``ephemeral`` one exists as long as the session that created it.
    """

    path: str
    data: bytes
    sequence: bool = False
    ephemeral: bool = False


@dataclass(frozen=True)
class Write:
    """Write a znode, of that version if one is given."""

    path: str
    data: bytes
    version: int = ANY_VERSION


@dataclass(frozen=True)
class Delete:
    """Delete a znode, of that version if one is given."""

    path: str
    version: int = ANY_VERSION


Step = Check | Create | Write | Delete
