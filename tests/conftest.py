"""Real services for the tests: one ZooKeeper and one Redis for a whole run."""

import gc
import itertools
import os
import re
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TypeVar

import hypothesis
import pytest
import redis

from pyspider_zk.config import Settings
from pyspider_zk.local.services import RedisServer, Server, ZooKeeperServer
from tests.support import waiting
from tests.support.database_servers import DatabaseServer, MariaServer, PostgresServer
from tests.support.needed import skip_without_needed
from tests.support.ports import own_port
from tests.support.seed import IS_NAMED
from tests.support.zookeeper import UnsyncedZooKeeper

pytest_plugins = ["tests.support.crew", "tests.support.skips", "tests.support.world"]

MARKER_OF = {
    "zookeeper": "zk",
    "redis_server": "redis",
    "postgresql": "postgresql",
    "mariadb": "mariadb",
    "chromium": "browser",
}
LONG = ("slow", "browser", "soak")
MOST_OPEN = 256  # descriptors; select() takes none above 1023

# Properties are judged by what they say, not by how fast a loaded machine is. Examples are the same
# in every run, so that a change fails by its own fault; make soak draws others.
hypothesis.settings.register_profile(
    "fixed", deadline=None, derandomize=not IS_NAMED, database=None, print_blob=True
)
hypothesis.settings.load_profile("fixed")

S = TypeVar("S", bound=DatabaseServer)

_numbers = itertools.count()


def pytest_configure() -> None:
    """Let Ctrl-C reach the processes that tests start: in the background shells have it ignored."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse a test that uses a service without its marker: unmarked tests need no service.

    The files that take long come first: at the end of a parallel run no worker waits for another.
    """
    for item in items:
        for fixture, marker in MARKER_OF.items():
            uses = fixture in getattr(item, "fixturenames", ())
            if uses and item.get_closest_marker(marker) is None:
                raise pytest.UsageError(f"{item.nodeid} uses {fixture}: mark it {marker}")
    long = {item.path for item in items if any(map(item.get_closest_marker, LONG))}
    items.sort(key=lambda item: item.path not in long)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    """Close the files that are open in cycles: a large process collects them rarely."""
    if len(os.listdir("/dev/fd")) > MOST_OPEN:
        gc.collect()


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    """Run a ZooKeeper."""
    server = UnsyncedZooKeeper(tmp_path_factory.mktemp("zookeeper"), own_port())
    _start(server)
    yield server
    server.stop()


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """Run a Redis."""
    server = RedisServer(tmp_path_factory.mktemp("redis"), own_port())
    _start(server)
    yield server
    server.stop()


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgresServer]:
    """Run a PostgreSQL."""
    yield from _serving(PostgresServer())


@pytest.fixture(scope="session")
def mariadb() -> Iterator[MariaServer]:
    """Run a MariaDB."""
    yield from _serving(MariaServer())


@pytest.fixture
def redis_url(redis_server: RedisServer) -> str:
    """Give the URL of an empty Redis."""
    with redis.Redis.from_url(redis_server.url) as client:
        client.flushall()
    return redis_server.url


@pytest.fixture
def zk_root() -> str:
    """Give a root that no other test uses."""
    return f"/test-{next(_numbers)}"


@pytest.fixture
def cluster_settings(zookeeper: ZooKeeperServer, zk_root: str) -> Settings:
    """Give the settings of an own cluster.

    A starved machine may stand still for seconds, which must cost nobody a lease or a session. Who
    is to die or hang in a test gets shorter times.
    """
    return Settings(
        hosts=zookeeper.address,
        root=zk_root,
        renewal=0.2,
        lease=20.0,
        hang=20.0,
        session=30.0,
        drain=20.0,
        secret="the secret of the tests",  # noqa: S106
    )


@pytest.fixture
def zookeeper_writes(zookeeper: ZooKeeperServer) -> Callable[[], int]:
    """Give ZooKeeper's own count of writes so far."""

    def count() -> int:
        host, _, port = zookeeper.address.partition(":")
        with socket.create_connection((host, int(port))) as link:
            link.sendall(b"srvr")
            answer = b"".join(iter(lambda: link.recv(4096), b"")).decode()
        found = re.search(r"^Zxid: 0x([0-9a-f]+)$", answer, re.MULTILINE)
        assert found, answer
        return int(found[1], 16) & 0xFFFFFFFF

    return count


class Faults:
    """What can happen to a process of ours."""

    def kill(self, pid: int) -> None:
        """End it at once; it cannot say good-bye."""
        os.kill(pid, signal.SIGKILL)

    def suspend(self, pid: int) -> None:
        """Stop it where it stands."""
        os.kill(pid, signal.SIGSTOP)

    def resume(self, pid: int) -> None:
        """Let it go on."""
        os.kill(pid, signal.SIGCONT)


@pytest.fixture
def faults() -> Faults:
    """Give the faults that a test may cause."""
    return Faults()


@pytest.fixture
def eventually() -> Callable[..., None]:
    """Give a function that waits until a condition holds, with a limit that fails the test."""
    return waiting.eventually


def _serving(server: S) -> Iterator[S]:
    with ExitStack() as stack:
        stack.callback(server.remove)
        _start(server)
        stack.callback(server.stop)
        yield server


def _start(server: Server) -> None:
    """Start the server; without its program the test skips."""
    with skip_without_needed():
        server.start()


@pytest.fixture
def as_nobody() -> Iterator[None]:
    """Be a user to whom permissions mean something; tmp_path is closed to them."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(65534)
    yield
    os.seteuid(before)
