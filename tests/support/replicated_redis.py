"""A Redis that fails over: a master, a replica and three sentinels, each a process on loopback."""

import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from pyspider_zk.listening import LOOPBACK
from pyspider_zk.local import programs
from pyspider_zk.local.services import RedisServer, Server
from tests.support.ports import own_port
from tests.support.secured_servers import NAME, Authority, SpecialRedis, tls_options
from tests.support.waiting import eventually

MASTER_NAME = "crawl"
SENTINELS = 3
QUORUM = 2
DOWN_AFTER = 500  # milliseconds until a sentinel counts a server as down, while one is to be
NEVER = 600_000  # otherwise: on a busy machine a server may be silent for seconds


class SentinelServer(Server):
    """A sentinel, which keeps what it learns in its file.

    Args:
        folder: as of every server.
        master: host and port of the master when it starts for the first time.
        options: more lines of its file.
        password: what clients must know; empty: nothing.
    """

    name = "Sentinel"
    start_patience = 60.0
    stop_patience = 10.0

    def __init__(
        self, folder: Path, master: str, options: Mapping[str, object], password: str = ""
    ) -> None:
        super().__init__(folder)
        self._master = master
        self._options = options
        self._password = password

    def client(self) -> "redis.Redis[bytes]":
        """Return a client of this sentinel, to be closed."""
        return self._client(self.port)

    def _command(self, port: int) -> list[str]:
        file = self.folder / "sentinel.conf"
        if not file.exists():
            lines = {"bind": LOOPBACK, "port": port, "dir": self.folder, **self._watch()}
            text = "".join(f"{name} {value}\n" for name, value in lines.items())
            file.write_text(text, encoding="utf-8")
        return [programs.redis_server(os.environ), str(file), "--sentinel"]

    def _watch(self) -> dict[str, object]:
        host, _, port = self._master.rpartition(":")
        return {
            "sentinel resolve-hostnames": "yes",
            "sentinel announce-hostnames": "yes",
            f"sentinel monitor {MASTER_NAME}": f"{host} {port} {QUORUM}",
            f"sentinel down-after-milliseconds {MASTER_NAME}": NEVER,
            f"sentinel failover-timeout {MASTER_NAME}": 5000,
            **self._options,
        }

    def _answers(self, port: int, pid: int) -> bool:
        with self._client(port) as client, suppress(redis.RedisError):
            found: Any = client.info("server")
            return bool(found["process_id"] == pid)
        return False

    def _client(self, port: int) -> "redis.Redis[bytes]":
        retry = Retry(NoBackoff(), 0)
        return redis.Redis(port=port, password=self._password or None, protocol=2, retry=retry)


class ReplicatedRedis:
    """A master, its replica and its sentinels. Threads: one.

    Attributes:
        url: where clients find the master.
        servers: the one that is the master at first, then the replica.
        sentinels: all of them.
    """

    def __init__(
        self, url: str, servers: list[SpecialRedis], sentinels: list[SentinelServer]
    ) -> None:
        self.url = url
        self.servers = servers
        self.sentinels = sentinels

    def state(self) -> dict[str, Any]:
        """Return what a sentinel knows of the master."""
        running = next(each for each in self.sentinels if each.running)
        with running.client() as client:
            found: Any = client.sentinel_masters()
        state: dict[str, Any] = found[MASTER_NAME]
        return state

    def kill_master(self) -> SpecialRedis:
        """Kill the first master at once, and return it."""
        os.kill(self.servers[0].pid, signal.SIGKILL)
        return self.servers[0]

    def await_failover(self) -> None:
        """Let the sentinels fail over; block until they name another master than the first."""
        self._count_down_after(DOWN_AFTER)
        eventually(lambda: self.state()["port"] != self.servers[0].port, "another master")
        self._count_down_after(NEVER)

    def _count_down_after(self, milliseconds: int) -> None:
        for sentinel in self.sentinels:
            with sentinel.client() as client:
                client.sentinel_set(MASTER_NAME, "down-after-milliseconds", milliseconds)

    def knows_all(self) -> bool:
        """Return whether each sentinel knows the others, and sees the replica connected."""
        return all(map(_knows_all, self.sentinels))


@contextmanager
def replicated_redis(folder: Path) -> Iterator[ReplicatedRedis]:
    """Run a master, a replica and sentinels; wait until they know of each other."""
    with ExitStack() as stack:
        master = stack.enter_context(SpecialRedis(folder / "redis-1", {}))
        options = {"replicaof": f"{LOOPBACK} {master.port}"}
        replica = stack.enter_context(SpecialRedis(folder / "redis-2", options))
        eventually(lambda: _is_linked(replica), "a replica in step")
        sentinels = [
            stack.enter_context(SentinelServer(folder / f"sentinel-{n}", master.address, {}))
            for n in range(SENTINELS)
        ]
        places = ",".join(each.address for each in sentinels)
        url = f"redis+sentinel://{places}/{MASTER_NAME}/0"
        made = ReplicatedRedis(url, [master, replica], sentinels)
        eventually(made.knows_all, "sentinels that know of each other")
        yield made


@contextmanager
def secured_replicated_redis(
    folder: Path, files: Authority, of_redis: str, of_sentinels: str
) -> Iterator[ReplicatedRedis]:
    """Run the same with TLS and two passwords; the sentinels tell host names.

    Args:
        files: the authority that signed the certificate of all.
        of_redis, of_sentinels: the passwords.
    """
    ports = [own_port() for _ in range(2 + SENTINELS)]
    tls = [{**tls_options(port, files), "tls-replication": "yes"} for port in ports]
    first = f"{NAME}:{ports[0]}"
    with ExitStack() as stack:
        servers = []
        for number, more in enumerate(({}, {"replicaof": first.replace(":", " ")})):
            options = {**tls[number], "masterauth": of_redis, "replica-announce-ip": NAME, **more}
            server = SpecialRedis(folder / f"redis-{number}", options, of_redis)
            servers.append(stack.enter_context(server))
        eventually(lambda: _is_linked(servers[1]), "a replica in step")
        login = {
            f"sentinel auth-pass {MASTER_NAME}": of_redis,
            "sentinel sentinel-pass": of_sentinels,
            "sentinel announce-ip": NAME,
            "requirepass": of_sentinels,
        }
        sentinels = [
            stack.enter_context(
                SentinelServer(folder / f"sentinel-{n}", first, {**its, **login}, of_sentinels)
            )
            for n, its in enumerate(tls[2:])
        ]
        places = ",".join(f"{NAME}:{port}" for port in ports[2:])
        url = (
            f"rediss+sentinel://:{quote(of_redis, safe='')}@{places}/{MASTER_NAME}/0"
            f"?ssl_ca_certs={files.ca}&sentinel_password={quote(of_sentinels, safe='')}"
        )
        made = ReplicatedRedis(url, servers, sentinels)
        eventually(made.knows_all, "sentinels that know of each other")
        yield made


def _knows_all(sentinel: SentinelServer) -> bool:
    with sentinel.client() as client:
        found: Any = client.sentinel_masters()
        replicas: Any = client.sentinel_slaves(MASTER_NAME)
    linked = [each for each in replicas if each.get("master-link-status") == "ok"]
    return (found[MASTER_NAME]["num-other-sentinels"], len(linked)) == (SENTINELS - 1, 1)


def _is_linked(replica: RedisServer) -> bool:
    with redis.Redis.from_url(replica.url) as client:
        found: Any = client.info("replication")
    return bool(found["master_link_status"] == "up")
