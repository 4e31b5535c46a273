"""Claimants that are no members: an ephemeral znode for whoever claims jobs."""

from pyspider_zk.jobs.model import Claimant
from pyspider_zk.zookeeper.connection import Connection
from pyspider_zk.zookeeper.ephemeral import Ephemeral


class Registration:
    """Registers a process as a claimant of jobs, anew in every session.

    A claimant is never made again: when its session ended, others may have its jobs.

    Threads: any; calls block for some seconds at most and raise ``Unavailable``.

    Args:
        parent: the znode below which the claimants of one queue stand.
    """

    def __init__(self, connection: Connection, parent: str) -> None:
        self._node = Ephemeral(connection, parent)

    def claimant(self) -> Claimant:
        """Return the claimant of the present session, registered.

        Raises:
            SessionLost: the session ended meanwhile; ask again.
        """
        return Claimant(self._node.stand())

    def leave(self) -> None:
        """Give up all jobs of the claimant: others may have them at once."""
        self._node.leave()
