"""Sending ZooKeeper the transactions that ``core/`` made."""

from collections.abc import Iterable

from pyspider_zk.core import steps as core
from pyspider_zk.zookeeper.connection import Connection, Step, check, create, delete, write


def do(connection: Connection, steps: Iterable[core.Step]) -> None:
    """Do all steps or none; see ``Connection.multi``. Blocks."""
    connection.multi(*map(in_kazoo, steps))


def in_kazoo(step: core.Step) -> Step:
    """Return a step as the connection takes it."""
    match step:
        case core.Check(path, version):
            return check(path, version)
        case core.Create(path, data, sequence, ephemeral):
            return create(path, data, ephemeral=ephemeral, sequence=sequence)
        case core.Write(path, data, version):
            return write(path, data, version)
        case core.Delete(path, version):
            return delete(path, version)
