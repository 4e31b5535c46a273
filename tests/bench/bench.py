"""How much a bench measures, its servers, and a fresh place on them for each run."""

import itertools
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import redis

from pyspider_zk.config import Settings
from pyspider_zk.errors import ClusterError
from pyspider_zk.local.services import RedisServer, ZooKeeperServer
from tests.bench.databases import OTHERS, Fresh, Urls, in_memory, postgresql, sqlite, why_not
from tests.support.database_servers import PostgresServer
from tests.support.processes import ROOT


@dataclass(frozen=True)
class Size:
    """How long a run of the whole bench takes, in the end.

    Attributes:
        runs: of each contender, in turn; the median counts.
        seconds: that one of them is looked at.
        projects: with how many projects the cycles are measured.
        samples: of a latency.
        pending: how many pending tasks a scheduler finds at its start.
        moving: how many pending tasks there are when an owner ends.
        stopped: projects of which only some run, while nothing is to do.
        crowd: projects of the batches and pages.
        accepted: projects of a batch that is only accepted.
        endurance: seconds that one scheduler is kept at its full rate.
        pages: of a whole crawl.
        databases: at most so many are used for what is not the full cycle.
    """

    runs: int = 5
    seconds: float = 3.0
    projects: tuple[int, ...] = (1, 10, 100)
    samples: int = 60
    pending: tuple[int, ...] = (1_000_000, 5_000_000)
    moving: int = 100_000
    stopped: int = 10_000
    crowd: int = 1000
    accepted: int = 10_000
    endurance: float = 3600.0
    pages: int = 10_000
    databases: int = 10


FULL = Size()
QUICK = Size(
    runs=1,
    seconds=2.0,
    projects=(10,),
    samples=30,
    pending=(100_000,),
    moving=100_000,
    crowd=100,
    endurance=24.0,
    pages=3000,
    databases=1,
)


MEMORY_NAME = "sqlite in memory"
MEMORY = Path("/dev/shm")  # noqa: S108 - for files that no disk is to slow down


@dataclass(frozen=True)
class BenchPlace:
    """Where one run finds everything; nothing has used it before.

    Attributes:
        folder: for data and logs.
        redis: URL of an empty Redis.
        zookeeper: ``host:port/root``.
        databases: URLs by kind.
    """

    folder: Path
    redis: str
    zookeeper: str
    databases: Urls

    @property
    def settings(self) -> Settings:
        """What looks at a cluster of this place."""
        hosts, _, root = self.zookeeper.partition("/")
        return Settings(hosts=hosts, root=f"/{root}")

    @property
    def environ(self) -> dict[str, str]:
        """What a process of this place runs in."""
        own = {key: value for key, value in os.environ.items() if "PYSPIDER_ZK_" not in key}
        urls = {kind.upper(): url for kind, url in self.databases.items()}
        return own | urls | {"AMQP_URL": self.redis, "PYTHONPATH": str(ROOT)}


@dataclass(frozen=True)
class Bench:
    """What scenarios share.

    Attributes:
        size: how much they measure.
        folder: on disk; gone afterwards.
        redis: the server.
        zookeeper: the server.
        databases: those that pyspider's backends can use here, by name.
        left_out: databases that they cannot, each with the reason.
    """

    size: Size
    folder: Path
    redis: RedisServer
    zookeeper: ZooKeeperServer
    databases: Mapping[str, Fresh]
    left_out: Mapping[str, str]
    _numbers: Iterator[int] = field(default_factory=itertools.count, repr=False)

    @property
    def some_databases(self) -> list[str]:
        """Those that the size allows for what is not the full cycle, the fastest first."""
        return sorted(self.databases, key=lambda name: name != MEMORY_NAME)[: self.size.databases]

    def place(self, database: str) -> BenchPlace:
        """Return a place of its own; empties Redis.

        Args:
            database: one of the bench's, or of ``OTHERS``.
        """
        name = f"run-{next(self._numbers)}"
        folder = self.folder / name
        folder.mkdir()
        with redis.Redis.from_url(self.redis.url) as client:
            client.flushall()
        urls = {**OTHERS, **self.databases}[database](folder)
        return BenchPlace(folder, self.redis.url, f"{self.zookeeper.address}/{name}", urls)


@contextmanager
def opened(size: Size, wanted: Sequence[str] | None = None) -> Iterator[Bench]:
    """Run a bench's servers while the block runs, all on free ports of loopback.

    Args:
        wanted: the databases to measure with; None: all that there are.
    """
    with ExitStack() as held:
        folder = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
        server = RedisServer(folder / "redis")
        zookeeper = ZooKeeperServer(folder / "zookeeper")
        held.enter_context(server)
        held.enter_context(zookeeper)
        databases, left_out = _databases(folder, held)
        used = {name: databases[name] for name in wanted or databases if name in databases}
        yield Bench(size, folder, server, zookeeper, used, left_out)


def _databases(folder: Path, held: ExitStack) -> tuple[dict[str, Fresh], dict[str, str]]:
    memory = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="bench-", dir=MEMORY)))
    found: dict[str, Fresh] = {"sqlite": sqlite, MEMORY_NAME: in_memory(memory)}
    server = PostgresServer(lasting=True)
    held.callback(server.remove)
    try:
        held.enter_context(server)
    except (ClusterError, OSError) as error:
        return found, {"postgresql": str(error)}
    fresh = postgresql(server)
    reason = why_not(fresh(folder / "probe"))
    if reason:
        server.stop()
        return found, {"postgresql": f"pyspider's backend cannot use it here: {reason}"}
    return found | {"postgresql": fresh}, {}
