"""Connections to ZooKeeper for tests that look on: they outlast what a busy machine does."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from urllib.parse import quote

from pyspider_zk.cluster.directory import Directory
from pyspider_zk.config import Settings
from pyspider_zk.zookeeper.connection import Connection

HUNG = 30.0
"""Seconds for which ZooKeeper may stand still: no session ends, and no call gives up."""


def patient(settings: Settings, timeout: float = HUNG) -> Connection:
    """Return a connection that outlasts a ZooKeeper that stands still; to be started.

    Args:
        timeout: seconds until a call gives up.
    """
    return Connection(replace(settings, session=HUNG), timeout)


@contextmanager
def connected(settings: Settings, timeout: float = HUNG) -> Iterator[Connection]:
    """Connect while the block runs."""
    made = patient(settings, timeout)
    made.start()
    try:
        yield made
    finally:
        made.stop()


@contextmanager
def looking(settings: Settings) -> Iterator[Directory]:
    """Look at the cluster while the block runs."""
    with Directory(settings, patient(settings)) as made:
        yield made


def rpc_url(address: str, secret: str, user: str = "ann") -> str:
    """Return it, with the secret in it; without one it is the bare address."""
    login = f"{user}:{quote(secret, safe='')}@" if secret else ""
    return f"http://{login}{address}/"
