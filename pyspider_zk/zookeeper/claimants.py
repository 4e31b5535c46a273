"""An ephemeral znode for whoever claims jobs and has none yet."""

import threading
import uuid
from contextlib import suppress

from kazoo.exceptions import NodeExistsError

from pyspider_zk.core.jobs import Claimant
from pyspider_zk.errors import SessionLost
from pyspider_zk.zookeeper.connection import Connection


class Registration:
    """Registers a process as a claimant of jobs, anew in every session.

    A claimant is never made again: when its session ended, others may have its jobs.

    Threads: any; calls block for some seconds at most and raise ``Unavailable``.

    Args:
        parent: the znode below which the claimants of one queue stand.
    """

    def __init__(self, connection: Connection, parent: str) -> None:
        self._connection = connection
        self._parent = parent
        self._lock = threading.Lock()
        self._session: int | None = None
        self._claimant: Claimant | None = None
        self._is_registered = False

    def claimant(self) -> Claimant:
        """Return the claimant of the present session, registered.

        Raises:
            SessionLost: the session ended meanwhile; ask again.
        """
        with self._lock:
            if self._claimant is None or self._session != self._connection.session:
                self._session = self._present_session()
                self._claimant = Claimant(f"{self._parent}/{uuid.uuid4().hex}")
                self._is_registered = False
            if not self._is_registered:
                self._register(self._claimant)
                self._is_registered = True
            return self._claimant

    def leave(self) -> None:
        """Give up all jobs of the claimant: others may have them at once."""
        with self._lock:
            claimant, self._claimant = self._claimant, None
            if claimant is not None:
                self._connection.delete(claimant.path)

    def _present_session(self) -> int | None:
        """Return the session's id, which may follow a moment after the connection."""
        if self._connection.session is None:
            self._connection.find(self._parent)  # not answered before the id is known
        return self._connection.session

    def _register(self, claimant: Claimant) -> None:
        """Create the znode; a request whose reply was lost may have done so before."""
        with suppress(NodeExistsError):
            self._connection.create(claimant.path, ephemeral=True)
        if self._connection.session != self._session:  # it may stand in the next session
            self._connection.delete(claimant.path)
            raise SessionLost("the ZooKeeper session ended while registering")
