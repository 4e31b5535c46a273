"""Ephemeral znodes that stand for as long as a session does, and never twice."""

import threading
import uuid
from collections.abc import Callable
from contextlib import suppress

from kazoo.exceptions import NodeExistsError

from pyspider_zk.errors import SessionLost
from pyspider_zk.zookeeper.connection import Connection


class Tenure:
    """Unique id within one session, for whatever is made in it and ends with it.

    A request whose reply was lost may have been carried out, so what it makes bears the id and is
    looked for before it is made again. One that was sent in a session may be carried out in the
    next, where nobody would take it away: so after the making comes ``settle``.

    Threads: any.
    """

    def __init__(self, connection: Connection, session: int | None) -> None:
        self._connection = connection
        self._session = session
        self.id = uuid.uuid4().hex[:12]

    @property
    def lost(self) -> bool:
        """Whether the session ended, or must be considered ended."""
        return self._session is None or self._connection.session != self._session

    def settle(self, path: str) -> None:
        """Make sure that what was made at that path belongs to this session. Blocks.

        Raises:
            SessionLost: it does not, and is deleted.
        """
        if self.lost:
            self._connection.delete(path)
            raise SessionLost("the ZooKeeper session ended while registering")


def begin(connection: Connection) -> Tenure:
    """Return a tenure in the present session, whose id may follow a moment after the connection."""
    if connection.session is None:
        connection.sync("/")  # not answered before the id is known
    return Tenure(connection, connection.session)


class Ephemeral:
    """Ephemeral znode that is recreated, under another name, in every session.

    So it is where somebody deleted it: whoever saw it gone was told that it ended.

    Threads: any; calls block for some seconds at most and raise ``Unavailable``.

    Args:
        parent: the znode below which it stands.
        before: called each time before it is made; what it raises keeps it from standing.
    """

    def __init__(
        self,
        connection: Connection,
        parent: str,
        data: bytes = b"",
        before: Callable[[], object] = lambda: None,
    ) -> None:
        self._connection = connection
        self._parent = parent
        self._data = data
        self._before = before
        self._written: bytes | None = None
        self._lock = threading.Lock()
        self._tenure: Tenure | None = None
        self._former: Tenure | None = None
        self._stands = False

    def stand(self) -> str:
        """Make it stand in the present session, unless it does; return its path.

        Raises:
            SessionLost: the session ended meanwhile; ask again.
        """
        with self._lock:
            self._clear()
            tenure = self._tenure
            if tenure is None or tenure.lost or self._is_gone(tenure):
                tenure = self._tenure = begin(self._connection)
                self._stands = False
            path = self._path(tenure)
            if not self._stands:
                self._written = None
                self._make(tenure, path)
                self._stands = True
            if self._written != (data := self._data):
                self._connection.set(path, data)
                self._written = data
            return path

    def say(self, data: bytes) -> None:
        """Have other data from when it is made to stand next. Does not block."""
        self._data = data

    def leave(self) -> None:
        """Delete it, if it was made; after ``Unavailable``, call again."""
        with self._lock:
            self._former, self._tenure = self._tenure or self._former, None
            self._clear()

    def _clear(self) -> None:
        """Delete the one that was left, as long as no reply has told that it is gone."""
        if self._former is not None:
            self._connection.delete(self._path(self._former))
            self._former = None

    def _is_gone(self, tenure: Tenure) -> bool:
        """Return whether somebody deleted it, though the session lives."""
        return self._stands and self._connection.find(self._path(tenure)) is None

    def _make(self, tenure: Tenure, path: str) -> None:
        self._before()
        data = self._data
        with suppress(NodeExistsError):  # by an attempt whose reply was lost
            self._connection.create(path, data, ephemeral=True)
            self._written = data
        tenure.settle(path)

    def _path(self, tenure: Tenure) -> str:
        return f"{self._parent}/{tenure.id}"
