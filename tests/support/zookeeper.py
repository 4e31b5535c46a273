"""A ZooKeeper that waits for no disk."""

from pyspider_zk.local.services import ZooKeeperServer


class UnsyncedZooKeeper(ZooKeeperServer):
    """A ZooKeeper whose writes are not forced to the disk: no test cuts the power.

    On a busy machine such a write takes seconds, in which sessions and calls run out.
    """

    def _command(self, port: int) -> list[str]:
        java, *options = super()._command(port)
        return [java, "-Dzookeeper.forceSync=no", *options]
