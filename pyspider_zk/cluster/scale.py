"""Scale node: how many schedulers the embedded cluster should run."""

from pyspider_zk.cluster.records import decode_scale
from pyspider_zk.cluster.tree import Tree
from pyspider_zk.config import Settings
from pyspider_zk.errors import BadMessage
from pyspider_zk.zookeeper.connection import Connection


class ScaleNode:
    """The znode through which ``pyspider-zk scale`` controls a running ``up``.

    Threads: any; calls block for some seconds at most and raise ``Unavailable``.
    """

    def __init__(self, settings: Settings) -> None:
        self._connection = Connection(settings)
        self._path = Tree(settings.root).scale

    def start(self) -> None:
        """Connect.

        Raises:
            Unavailable: nothing answers.
        """
        self._connection.start()

    def stop(self) -> None:
        """Disconnect."""
        self._connection.stop()

    def get(self) -> int | None:
        """Return the requested number, None without a readable request."""
        found = self._connection.find(self._path)
        try:
            number = None if found is None else decode_scale(found[0])
        except BadMessage as error:
            self._connection.unreadable.note(self._path, error)
            return None
        self._connection.unreadable.forget(self._path)
        return number

    def set(self, schedulers: int) -> None:
        """Request a number of schedulers."""
        data = str(schedulers).encode()
        self._connection.ensure([self._path], data)
        self._connection.set(self._path, data)
