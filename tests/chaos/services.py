"""The processes of a run: a ZooKeeper ensemble, a Redis, schedulers, and the other components.

Everything is started from the main thread: the kernel ends a child with the thread that made it.
"""

import contextlib
import json
import os
import socket
import struct
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspider_zk.config import RENEWAL, Settings
from pyspider_zk.local import programs
from pyspider_zk.local.child import Child
from tests.support.database_servers import PostgresServer
from tests.support.network import HUB_ADDRESS, Network

DatabaseUrls = Callable[[str], str]
"""Tells pyspider's URL of a database: ``task``, ``project`` or ``result``."""

SECRET = "the secret of the chaos"  # noqa: S105 - of these schedulers
REPOSITORY = Path(__file__).parents[2]
ENSEMBLE = ("zk1", "zk2", "zk3")
SEATS = ("s0", "s1", "s2", "s3", "s4", "s5")
"""Where a scheduler can sit: more seats than schedulers, so that one can join while one drains."""

CLIENT_PORT = 2181
REDIS_PORT = 6379
_PROGRAM = str(Path(sys.executable).with_name("pyspider-zk"))

_CONFIG = """\
clientPort={port}
clientPortAddress={address}
dataDir={data}
tickTime=500
initLimit=20
syncLimit=6
maxSessionTimeout=40000
maxClientCnxns=0
4lw.commands.whitelist=ruok,srvr
"""


class ZooKeeperMember:
    """One server of the ensemble, in a namespace of its own."""

    def __init__(self, name: str, network: Network, folder: Path, logs: Path) -> None:
        self.name = name
        self._address = network.address(name)
        self._home = folder / name
        (self._home / "data").mkdir(parents=True)
        self._configure(network)
        self._java = [*network.inside(name), programs.java(os.environ), "-Xmx192m", *_JAVA]
        self._log = logs / f"{name}.log"
        self.child = self._child()

    def restart(self, *, throttled: bool) -> None:
        """Kill it, and start it anew; one that is throttled does next to nothing for clients."""
        self.child.kill()
        self.child = self._child(*(_THROTTLED if throttled else ()))
        self.child.start()

    def _child(self, *properties: str) -> Child:
        command = [*self._java, *properties, "-cp", programs.zookeeper_class_path(os.environ)]
        return Child(self.name, [*command, _PEER, str(self._home / "zoo.cfg")], self._log)

    def leads(self) -> bool:
        """Return whether this server leads the ensemble. Blocks half a second at most."""
        return "Mode: leader" in self._ask("srvr")

    def serves(self) -> bool:
        """Return whether this server is part of a quorum. Blocks half a second at most."""
        return "Mode: " in self._ask("srvr")

    def _ask(self, word: str) -> str:
        with contextlib.suppress(OSError):
            address = (self._address, CLIENT_PORT)
            with socket.create_connection(address, 0.5) as link:
                link.sendall(word.encode())
                return b"".join(iter(lambda: link.recv(65536), b"")).decode(errors="replace")
        return ""

    def _configure(self, network: Network) -> None:
        data = self._home / "data"
        text = _CONFIG.format(port=CLIENT_PORT, address=self._address, data=data)
        for number, name in enumerate(ENSEMBLE, 1):
            text += f"server.{number}={network.address(name)}:2888:3888\n"
        (self._home / "zoo.cfg").write_text(text, encoding="utf-8")
        number = ENSEMBLE.index(self.name) + 1
        (data / "myid").write_text(f"{number}\n", encoding="utf-8")


_JAVA = (
    "-Djava.awt.headless=true",
    "-Dzookeeper.admin.enableServer=false",
    "-Dzookeeper.enforceQuota=true",
    "-XX:TieredStopAtLevel=1",
)
_THROTTLED = (
    "-Dzookeeper.request_throttle_max_requests=1",
    "-Dzookeeper.request_throttle_stall_time=50",
    "-Dzookeeper.throttled_op_wait_time=1",
)
_PEER = "org.apache.zookeeper.server.quorum.QuorumPeerMain"


def redis_child(folder: Path, logs: Path) -> Child:
    """Return the Redis. What it acknowledged is in its file: a loss then is not Redis's."""
    folder.mkdir(parents=True)
    options = {
        "port": REDIS_PORT,
        "bind": HUB_ADDRESS,
        "protected-mode": "no",
        "dir": folder,
        "appendonly": "yes",
        "appendfsync": "always",
        "save": "",
    }
    command = [programs.redis_server(os.environ)]
    for option, value in options.items():
        command += [f"--{option}", str(value)]
    return Child("redis", command, logs / "redis.log")


class SeatedScheduler:
    """One scheduler process on a seat.

    Attributes:
        label: the name of its history; no two processes of a run share one.
        clock: the file that its wall clock is shifted by.

    Args:
        lease: seconds that its lease lasts, if not as long as by default.
    """

    def __init__(
        self,
        label: str,
        seat: str,
        network: Network,
        folder: Path,
        logs: Path,
        lease: float | None = None,
    ) -> None:
        self.label = label
        self.seat = seat
        self.clock = folder / "data" / f"{label}.clock"
        self.set_clock(0)
        self._history = folder / "history" / f"{label}.jsonl"
        command = [*network.inside(seat), *component(folder)]
        command += ["scheduler", "--xmlrpc-host", network.address(seat), "--xmlrpc-port", "0"]
        command += ["--scheduler-cls", "tests.chaos.scheduler.ChaosScheduler"]
        environ = _environ() | self._shim() | _lease(lease)
        self.child = Child(label, command, logs / f"{label}.log", environ, folder)
        self.child.start()

    @property
    def begun(self) -> bool:
        """Whether it has written anything down, which it does when it takes its first slots."""
        return self._history.exists() and self._history.stat().st_size > 0

    def set_clock(self, shift: float) -> None:
        """Shift the wall clock by so many seconds from the true time, at once."""
        with self.clock.open("r+b" if self.clock.exists() else "wb") as file:
            file.write(struct.pack("d", shift))

    def _shim(self) -> dict[str, str]:
        preload = Path(__file__).parent / "preload"
        return {
            "CHAOS_HISTORY": str(self._history),
            "CHAOS_CLOCK": str(self.clock),
            "PYTHONPATH": f"{preload}:{REPOSITORY}",
        }


def _lease(lease: float | None) -> dict[str, str]:
    """Return the settings of a lease that is not the default one: four renewals at least."""
    if lease is None:
        return {}
    renewal = min(lease / 4, RENEWAL)  # moves go by it
    return {"PYSPIDER_ZK_LEASE": f"{lease:g}", "PYSPIDER_ZK_RENEWAL": f"{renewal:g}"}


def component(folder: Path) -> list[str]:
    """Return the beginning of every component's command."""
    return [_PROGRAM, "-c", str(folder / "config.json")]


def component_child(name: str, command: str, folder: Path, logs: Path) -> Child:
    """Return a component that is no scheduler."""
    return Child(name, [*component(folder), command], logs / f"{name}.log", _environ(), folder)


def write_config(
    folder: Path, network: Network, urls: DatabaseUrls, leases: Sequence[float] = ()
) -> None:
    """Write what all components read; the cluster's times are the product's defaults.

    Args:
        leases: of the members, if not as long as by default; no session is shorter.
    """
    session = max([Settings.session, *leases])
    hosts = ",".join(f"{network.address(name)}:{CLIENT_PORT}" for name in ENSEMBLE)
    config: dict[str, Any] = {f"{kind}db": urls(kind) for kind in ("task", "project", "result")}
    config["message_queue"] = f"redis://{HUB_ADDRESS}:{REDIS_PORT}/0"
    config["zookeeper"] = {"hosts": hosts, "session": session}
    config["data_path"] = str(folder)
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")


def _environ() -> dict[str, str]:
    own = {key: value for key, value in os.environ.items() if "PYSPIDER_ZK_" not in key}
    ours = {"PYTHONPATH": str(REPOSITORY), "PYTHONUNBUFFERED": "1", "PYSPIDER_ZK_SECRET": SECRET}
    return own | ours


@contextmanager
def databases(at: str, folder: Path) -> Iterator[DatabaseUrls]:
    """Give files of sqlite, or databases of a PostgreSQL at the hub, which packets must reach.

    Args:
        at: ``sqlite`` or ``postgresql``.
        folder: for the files.
    """
    if at == "sqlite":
        yield lambda kind: f"sqlite+{kind}db:///{folder}/{kind}.db"
        return
    server = PostgresServer(host=HUB_ADDRESS)
    name = server.new_name()
    try:
        with server:
            yield lambda kind: server.url(kind, f"{name}_{kind}")
    finally:
        server.remove()
