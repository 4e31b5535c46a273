"""Store of the cluster-wide settings, for those who change them."""

import time
from collections.abc import Callable

from pyspider_zk.cluster.cluster_settings import ClusterSettings
from pyspider_zk.cluster.event_log import EventLog
from pyspider_zk.cluster.events import Event, EventKind
from pyspider_zk.cluster.tree import Tree
from pyspider_zk.errors import BadMessage, Conflict, Mismatch
from pyspider_zk.zookeeper.connection import Connection
from pyspider_zk.zookeeper.errors import BadVersionError, NoNodeError
from pyspider_zk.zookeeper.steps import Write

Edit = Callable[[ClusterSettings], ClusterSettings]


class SettingsStore:
    """Reads and changes the cluster-wide settings; each change comes with its event, or not at all.

    Threads: any; calls block for some seconds at most and raise ``Unavailable``.
    """

    def __init__(self, connection: Connection, tree: Tree) -> None:
        self._connection = connection
        self._tree = tree
        self._path = tree.settings
        self._events = EventLog(connection, tree)

    def read(self) -> ClusterSettings:
        """Return the settings as they stand.

        Raises:
            Conflict: they are damaged.
            Mismatch: there is no cluster.
        """
        self._check_cluster()
        found = self._connection.find(self._path)
        return self._decoded(found[0]) if found else ClusterSettings()

    def change(self, edit: Edit, kind: EventKind, text: str, who: str) -> ClusterSettings:
        """Change the settings; return them. An edit that changes nothing writes nothing.

        Args:
            edit: returns the new settings; called again if somebody else wrote meanwhile.
            kind: of the event.
            text: of the event, one sentence.
            who: the user who asked for it.

        Raises:
            Conflict: they are damaged.
            Mismatch: there is no cluster.
        """
        while True:
            self._ensure()
            data, version = self._connection.get(self._path)
            after = edit(before := self._decoded(data))
            if after == before:
                return after
            event = Event(kind, text, time.time(), who)
            write = Write(self._path, after.encode(), version)
            try:
                self._connection.multi(write, self._events.step(event))
            except (BadVersionError, NoNodeError):
                continue
            return after

    def reset(self, who: str) -> ClusterSettings:
        """Write the defaults over whatever is there.

        Raises:
            Mismatch: there is no cluster.
        """
        self._ensure()
        event = Event(EventKind.SETTINGS, "the cluster-wide settings were reset", time.time(), who)
        write = Write(self._path, ClusterSettings().encode())
        self._connection.multi(write, self._events.step(event))
        return ClusterSettings()

    def _check_cluster(self) -> None:
        if self._connection.find(self._tree.meta) is None:
            raise Mismatch(f"there is no cluster at {self._tree.root}: start a scheduler first")

    def _ensure(self) -> None:
        self._check_cluster()
        self._connection.ensure([self._path], ClusterSettings().encode())
        self._connection.ensure([self._tree.events])

    def _decoded(self, data: bytes) -> ClusterSettings:
        try:
            return ClusterSettings.decode(data)
        except BadMessage as error:
            remedy = "the schedulers go by the last good ones; `pyspider-zk settings reset`"
            raise Conflict(f"{self._path} is damaged: {error}; {remedy} makes it anew") from error
