"""Ways in which a service is away, and how it returns."""

import os
import signal
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from operator import attrgetter
from pathlib import Path

import psycopg
from psycopg import sql

from pyspider_zk.local.services import Server
from tests.support.crawling_cluster import DATABASES, CrawlingCluster, children

LOCK_PATIENCE = 30.0  # seconds until the lock is had: others write all the time
_BESIDE = ("-wal", "-shm", "-journal")

Away = Callable[[CrawlingCluster], AbstractContextManager[None]]
"""Takes something away from a cluster while the block runs."""

Ways = Mapping[str, Mapping[str, Away]]
"""What can be away, and how."""


def held(kind: str, how: str) -> Away:
    """Hold a database of sqlite.

    Args:
        how: EXCLUSIVE: whoever asks is told that it is locked; in write-ahead mode only whoever
            writes. IMMEDIATE, the one writer's place: whoever writes is refused; a file that is
            made read-only would stay writable for whoever has it open.
    """

    @contextmanager
    def away(cluster: CrawlingCluster) -> Iterator[None]:
        link = sqlite3.connect(cluster.file(kind), timeout=LOCK_PATIENCE, isolation_level=None)
        with closing(link):
            link.execute(f"BEGIN {how}")
            yield
            link.execute("ROLLBACK")

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


def tables_locked(kind: str) -> Away:
    """Lock all tables of a server's database: whoever asks waits, until its patience ends."""

    @contextmanager
    def away(cluster: CrawlingCluster) -> Iterator[None]:
        name = cluster.server_database(kind)
        with psycopg.connect(cluster.server.login(name)) as link:
            link.execute(f"SET lock_timeout = '{LOCK_PATIENCE:g}s'")
            found = link.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
            tables = sql.SQL(", ").join(sql.Identifier(*row) for row in found.fetchall())
            link.execute(sql.SQL("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE").format(tables))
            yield
            link.rollback()

    return away


def frozen(server_of: Callable[[CrawlingCluster], Server]) -> Away:
    """Stop a server where it stands: connections hold, nothing answers."""

    @contextmanager
    def away(cluster: CrawlingCluster) -> Iterator[None]:
        pid = server_of(cluster).pid
        os.kill(pid, signal.SIGSTOP)  # first, so that it makes no more processes
        every = [pid, *children(pid)]
        for each in every:
            os.kill(each, signal.SIGSTOP)
        try:
            yield
        finally:
            for each in every:
                os.kill(each, signal.SIGCONT)

    return away


def killed(
    server_of: Callable[[CrawlingCluster], Server], how: signal.Signals = signal.SIGKILL
) -> Away:
    """Kill a server; it comes back on its port, with what it had written."""

    @contextmanager
    def away(cluster: CrawlingCluster) -> Iterator[None]:
        server = server_of(cluster)
        os.kill(server.pid, how)
        server.stop()
        try:
            yield
        finally:
            server.start()

    return away


_redis = attrgetter("redis")
_zookeeper = attrgetter("zookeeper")
_database = attrgetter("server")
_SERVICES: Ways = {
    "redis": {
        "frozen": frozen(_redis),
        "killed": killed(_redis),
        "cut": lambda cluster: cluster.relay.cut(),  # what is under way is lost, and nobody is told
    },
    "zookeeper": {"killed": killed(_zookeeper), "frozen": frozen(_zookeeper)},
}

WAYS: Ways = {
    **{
        f"{kind}db": {
            "locked": held(kind, "EXCLUSIVE"),
            "moved": moved(kind),
            "read-only": held(kind, "IMMEDIATE"),
        }
        for kind in ("task", "result")
    },
    # A crawl only reads it: held for reading, it would not be away.
    "projectdb": {"locked": held("project", "EXCLUSIVE"), "moved": moved("project")},
    **_SERVICES,
}
"""What can be away, and how; the first way is the usual one."""

WAYS_OF_A_SERVER: Ways = {
    **{f"{kind}db": {"locked": tables_locked(kind)} for kind in DATABASES},
    "databases": {
        "frozen": frozen(_database),
        # whose processes it ends, as a crash does; alone, it would leave them at work
        "killed": killed(_database, signal.SIGQUIT),
        "cut": lambda cluster: cluster.server_relay.cut(),
    },
    **_SERVICES,
}
"""The same if a PostgreSQL has the databases."""


@contextmanager
def all_away(parts: Mapping[str, str], cluster: CrawlingCluster, ways: Ways) -> Iterator[None]:
    """Take several away at once, each in its way."""
    with ExitStack() as stack:
        for what, how in parts.items():
            stack.enter_context(ways[what][how](cluster))
        yield


def parse(text: str, ways: Ways = WAYS) -> dict[str, str]:
    """Read ``taskdb,redis=killed``: what is away, and how.

    Raises:
        ValueError: there is no such thing, or no such way.
    """
    parts = {}
    for part in text.split(","):
        what, _, how = part.strip().partition("=")
        if what not in ways or (how and how not in ways[what]):
            raise ValueError(f"{part!r} cannot be away; there are {listing(ways)}")
        parts[what] = how or next(iter(ways[what]))
    return parts


def listing(ways: Ways = WAYS) -> str:
    """Return what can be away, for people."""
    return ", ".join(f"{what}={'|'.join(found)}" for what, found in ways.items())
