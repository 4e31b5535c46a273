"""Connections to ZooKeeper for tests that look on: they outlast what a busy machine does."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from pyspider_zk.cluster.directory import Directory
from pyspider_zk.config import Settings
from pyspider_zk.errors import ClusterError
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


def is_settled(settings: Settings, schedulers: int = 0, components: int = 0) -> bool:
    """Return whether all slots have running owners and none moves; False while nobody can tell.

    Args:
        schedulers: how many share them; 0: whoever does.
        components: how many others there are at least.
    """
    try:
        with Directory(settings) as directory:
            cluster = directory.read()
    except ClusterError:  # not yet
        return False
    slots = cluster.assignment.slots
    owners = {slot.owner for slot in slots}
    at_rest = owners <= set(cluster.members) and all(slot.next is None for slot in slots)
    shared = len(owners) == schedulers or not schedulers
    return at_rest and shared and sum(map(len, cluster.components.values())) >= components


def start_projects(rpc: Any, names: Iterable[str]) -> None:
    """Start projects by a scheduler's XML-RPC, as the web UI does."""
    rpc.update_project()
    for name in names:
        task = {"taskid": "on_start", "project": name, "url": "data:,on_start"}
        assert rpc.newtask({**task, "process": {"callback": "on_start"}})


def rpc_url(address: str, secret: str, user: str = "ann") -> str:
    """Return it, with the secret in it; without one it is the bare address."""
    login = f"{user}:{quote(secret, safe='')}@" if secret else ""
    return f"http://{login}{address}/"
