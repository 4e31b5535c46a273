"""Watch over the cluster-wide settings: what this process knows of them."""

import threading

from pyspider_zk.cluster.cluster_settings import ClusterSettings
from pyspider_zk.cluster.reader import Reader
from pyspider_zk.cluster.tree import Tree
from pyspider_zk.zookeeper.connection import Connection, Watch


class SettingsWatch:
    """The last cluster-wide settings that could be read; the defaults before the first.

    Damaged ones are passed over with a warning, and the znode is made anew if it is gone: nobody
    who can only break it changes how the cluster runs.

    Threads: one thread calls ``refresh``; ``current`` may be read from any.

    Attributes:
        current: the settings to go by.
    """

    def __init__(self, connection: Connection, tree: Tree, reader: Reader, wake: Watch) -> None:
        self._connection = connection
        self._path = tree.settings
        self._reader = reader
        self._wake = wake
        self._stale = threading.Event()
        self._stale.set()
        self.current = ClusterSettings()

    def refresh(self) -> bool:
        """Read the settings if they may have changed; return whether they have.

        Raises:
            Unavailable: ZooKeeper does not answer; call again.
        """
        if not self._stale.is_set():
            return False
        self._stale.clear()  # before reading, so that no later change is lost
        before = self.current
        try:
            self._read()
        except BaseException:
            self._stale.set()
            raise
        return self.current != before

    def _read(self) -> None:
        found = self._connection.find(self._path, self._on_change)
        if found is None:  # and nobody would tell when it comes
            self._connection.ensure([self._path], self.current.encode())
            found = self._connection.get(self._path, self._on_change)
        self.current = self._reader.value(self._path, found, ClusterSettings.decode) or self.current

    def _on_change(self, event: object) -> None:
        self._stale.set()
        self._wake(event)
