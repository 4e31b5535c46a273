"""The servers that docs/how-to/fail-over.md configures: its files are used as they stand there."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from pyspider_zk.errors import Unavailable
from pyspider_zk.listening import LOOPBACK
from pyspider_zk.local import programs
from pyspider_zk.local.services import RedisServer, Server
from pyspider_zk.queues.connect import connect
from tests.docs.pages import blocks, read
from tests.queues.ways_in import works

pytestmark = [pytest.mark.redis, pytest.mark.slow]

OF_REDIS, OF_SENTINEL = (
    each.text for each in blocks(read("docs/how-to/fail-over.md")) if each.language == ""
)
OF_SENTINELS = "PASSWORD4"


class ConfiguredServer(Server):
    """A Redis or a sentinel with a file of its own.

    Args:
        folder: as of every server.
        text: what the file holds beside port and folder.
        options: after the file, such as ``--sentinel``.
    """

    name = "ConfiguredServer"
    start_patience = 60.0
    stop_patience = 10.0

    def __init__(self, folder: Path, text: str, *options: str) -> None:
        super().__init__(folder)
        self._text = text
        self._options = options

    def client(self, port: int, password: str = "") -> "redis.Redis[bytes]":
        """Return a client, to be closed."""
        retry = Retry(NoBackoff(), 0)
        return redis.Redis(port=port, password=password or None, protocol=2, retry=retry)

    def _command(self, port: int) -> list[str]:
        file = self.folder / "redis.conf"
        own = f"bind {LOOPBACK}\nport {port}\ndir {self.folder}\n"
        file.write_text(self._text.replace("port 26379\n", "") + own, encoding="utf-8")
        return [programs.redis_server(os.environ), str(file), *self._options]

    def _answers(self, port: int, pid: int) -> bool:  # noqa: ARG002 - it tells strangers nothing
        with self.client(port) as client, suppress(redis.ConnectionError):
            try:
                return bool(client.ping())
            except redis.AuthenticationError:
                return True
        return False


@pytest.fixture
def servers(
    redis_server: RedisServer,  # noqa: ARG001 - without a Redis it skips the test, or fails it in CI
    tmp_path: Path,
) -> Iterator[list[ConfiguredServer]]:
    """Give the master, a replica and three sentinels of the page."""
    with ExitStack() as stack:
        master = stack.enter_context(ConfiguredServer(tmp_path / "redis-1", OF_REDIS))
        following = f"{OF_REDIS}replicaof {LOOPBACK} {master.port}\n"
        replica = stack.enter_context(ConfiguredServer(tmp_path / "redis-2", following))
        watching = OF_SENTINEL.replace("redis1 6379", f"{LOOPBACK} {master.port}")
        assert watching != OF_SENTINEL
        sentinels = [
            stack.enter_context(ConfiguredServer(tmp_path / f"s-{n}", watching, "--sentinel"))
            for n in range(3)
        ]
        yield [master, replica, *sentinels]


def test_they_let_the_cluster_in_and_fail_over(
    servers: list[ConfiguredServer], eventually: Callable[..., None]
) -> None:
    master, _, *sentinels = servers
    places = ",".join(each.address for each in sentinels)
    url = f"redis+sentinel://crawl:PASSWORD@{places}/crawl/0?sentinel_password={OF_SENTINELS}"

    def state() -> Any:
        with sentinels[0].client(sentinels[0].port, OF_SENTINELS) as client:
            return client.sentinel_masters()["crawl"]  # type: ignore[index]

    eventually(lambda: state()["num-other-sentinels"] == 2, "sentinels that know of each other")
    eventually(lambda: _is_writable(url), "a master with a replica")
    assert works(url)

    with sentinels[0].client(sentinels[0].port, OF_SENTINELS) as client:
        eventually(lambda: _begun(client), "a failover that begins")
    eventually(lambda: state()["port"] != master.port, "another master")
    eventually(lambda: _is_writable(url), "a new master with a replica")
    assert works(url)

    master.stop()  # the only replica by now
    with closing(connect(url, 0, 8)) as queues, pytest.raises(Unavailable, match="NOREPLICAS"):
        queues.records.save_many({3: {"a": 1}})


def _is_writable(url: str) -> bool:
    with closing(connect(url, 0, 8)) as queues, suppress(Unavailable):
        queues.records.save_many({3: {"a": 1}})
        return True
    return False


def _begun(client: "redis.Redis[bytes]") -> bool:
    with suppress(redis.ResponseError):  # no replica is good enough yet
        return bool(client.execute_command("SENTINEL FAILOVER", "crawl"))
    return False
