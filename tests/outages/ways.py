"""Ways in which a service is away, and how it returns."""

import os
import signal
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

from pyspider_zk.local.services import Server
from tests.support.crawling_cluster import CrawlingCluster

LOCK_PATIENCE = 30.0  # seconds until the lock is had: others write all the time
_BESIDE = ("-wal", "-shm", "-journal")

Away = Callable[[CrawlingCluster], AbstractContextManager[None]]
"""Takes something away from a cluster while the block runs."""


def locked(kind: str) -> Away:
    """Hold a database by an exclusive lock: whoever asks is told that it is locked.

    In write-ahead mode readers go on beside it, as sqlite promises.
    """
    return _held(kind, "BEGIN EXCLUSIVE")


def read_only(kind: str) -> Away:
    """Hold the one writer's place of a database: reading goes on, whoever writes is refused.

    A file that is made read-only stays writable for whoever has it open.
    """
    return _held(kind, "BEGIN IMMEDIATE")


def _held(kind: str, begin: str) -> Away:
    @contextmanager
    def away(cluster: CrawlingCluster) -> Iterator[None]:
        held = sqlite3.connect(cluster.file(kind), timeout=LOCK_PATIENCE, isolation_level=None)
        try:
            held.execute(begin)
            yield
            held.execute("ROLLBACK")
        finally:
            held.close()

    return away


def moved(kind: str) -> Away:
    """Move a database's files away; a folder stands in their place, so none is made anew.

    Whoever has it open goes on; whoever opens it anew cannot.
    """

    @contextmanager
    def away(cluster: CrawlingCluster) -> Iterator[None]:
        file = cluster.file(kind)
        aside = file.with_name("aside")
        aside.mkdir()
        found = [file, *(Path(f"{file}{end}") for end in _BESIDE)]
        for each in found:
            if each.exists():
                each.rename(aside / each.name)
        file.mkdir()
        try:
            yield
        finally:
            file.rmdir()
            for each in aside.iterdir():
                each.rename(file.with_name(each.name))
            aside.rmdir()

    return away


def frozen(server_of: Callable[[CrawlingCluster], Server]) -> Away:
    """Stop a server where it stands: connections hold, nothing answers."""

    @contextmanager
    def away(cluster: CrawlingCluster) -> Iterator[None]:
        pid = server_of(cluster).pid
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    return away


def killed(server_of: Callable[[CrawlingCluster], Server]) -> Away:
    """Kill a server; it comes back on its port, with what it had written."""

    @contextmanager
    def away(cluster: CrawlingCluster) -> Iterator[None]:
        server = server_of(cluster)
        os.kill(server.pid, signal.SIGKILL)
        server.stop()
        try:
            yield
        finally:
            server.start()

    return away


def cut(cluster: CrawlingCluster) -> AbstractContextManager[None]:
    """Cut the way to Redis: what is under way is lost, and nobody is told."""
    return cluster.relay.cut()


def _redis(cluster: CrawlingCluster) -> Server:
    return cluster.redis


def _zookeeper(cluster: CrawlingCluster) -> Server:
    return cluster.zookeeper


WAYS: Mapping[str, Mapping[str, Away]] = {
    **{
        f"{kind}db": {"locked": locked(kind), "moved": moved(kind), "read-only": read_only(kind)}
        for kind in ("task", "project", "result")
    },
    "redis": {"frozen": frozen(_redis), "killed": killed(_redis), "cut": cut},
    "zookeeper": {"killed": killed(_zookeeper), "frozen": frozen(_zookeeper)},
}
"""What can be away, and how; the first way is the usual one."""


@contextmanager
def all_away(parts: Mapping[str, str], cluster: CrawlingCluster) -> Iterator[None]:
    """Take several away at once, each in its way."""
    with ExitStack() as stack:
        for what, how in parts.items():
            stack.enter_context(WAYS[what][how](cluster))
        yield


def parse(text: str) -> dict[str, str]:
    """Read ``taskdb,redis=killed``: what is away, and how.

    Raises:
        ValueError: there is no such thing, or no such way.
    """
    parts = {}
    for part in text.split(","):
        what, _, how = part.strip().partition("=")
        if what not in WAYS or (how and how not in WAYS[what]):
            raise ValueError(f"{part!r} cannot be away; there are {listing()}")
        parts[what] = how or next(iter(WAYS[what]))
    return parts


def listing() -> str:
    """Return what can be away, for people."""
    return ", ".join(f"{what}={'|'.join(ways)}" for what, ways in WAYS.items())
