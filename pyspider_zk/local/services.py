"""Real servers for one machine: a ZooKeeper and a Redis as child processes on loopback ports.

Each begins on the port it had the last time in its folder, if that is free, and stays on its port.
"""

import errno
import hashlib
import os
import random
import socket
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar, Self
from urllib.parse import quote

from pyspider_zk.errors import Unavailable
from pyspider_zk.listening import LOOPBACK
from pyspider_zk.local import programs
from pyspider_zk.local.child import Child, rotate, tail
from pyspider_zk.secret_files import private_file

PORTS_TO_TRY = 5
PROBE_PAUSE = 0.05  # seconds
PROBE_PATIENCE = 2.0  # seconds

_REDIS_LISTENS = "ready to accept connections"  # in its log, once the port is its own

# A few clients need no optimizing compiler or parallel collector: it starts sooner without.
_LEAN_JAVA = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")

_ZOOKEEPER_CONFIG = """\
# Written by pyspider-zk at every start; changes are lost.
clientPort={port}
clientPortAddress={address}
dataDir={data}
# Sessions may be from 2 to 80 ticks long; the server ends one up to a tick late.
tickTime=500
maxSessionTimeout=40000
maxClientCnxns=0
autopurge.snapRetainCount=3
autopurge.purgeInterval=1
4lw.commands.whitelist=conf,mntr,ruok,srvr
"""

LASTING = range(26_000, 32_768)
"""Ports above pyspider's own and below those that Linux gives to outgoing connections.

One of the latter may be gone before a server listens on it, or when the server comes back to it.
"""

_PROBES = 100


def is_free(port: int) -> bool:
    """Return whether a server could listen on the loopback port just now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError as error:
            if error.errno in (errno.EADDRINUSE, errno.EACCES):
                return False
            raise
    return True


def preferred_port(note: Path) -> int:
    """Return the remembered port, if it is free, or else any free one."""
    text = note.read_text(encoding="ascii").strip() if note.exists() else ""
    port = int(text) if text.isdecimal() else 0
    return port if 0 < port < 65536 and is_free(port) else any_free()


def remember_port(note: Path, port: int) -> None:
    """Store the port for the next start."""
    note.write_text(f"{port}\n", encoding="ascii")


class Server(ABC):
    """A server process with its data below one folder.

    Not thread-safe; start it from a thread that outlives it. Before, its port and process id raise
    RuntimeError.

    Args:
        folder: where its data, configuration and remembered port are; made if missing.
        port: the port to listen on, or else an error; None: the last one or any free one.
        log: the file that its output is added to; None: one in the folder.
    """

    name: ClassVar[str]
    start_patience: ClassVar[float]  # seconds
    stop_patience: ClassVar[float]  # seconds

    def __init__(self, folder: Path, port: int | None = None, log: Path | None = None) -> None:
        self.folder = folder.resolve()
        self.log = log or self.folder / f"{self.name.lower()}.log"
        self._port = port  # once it serves there, clients know no other
        self._child: Child | None = None

    @abstractmethod
    def _command(self, port: int) -> list[str]:
        """Prepare the folder; return the command that serves it on the port."""

    @abstractmethod
    def _answers(self, port: int, pid: int) -> bool:
        """Return whether the server with this process id answers on the port."""

    def start(self) -> None:
        """Start the server; blocks until it answers.

        Raises:
            MissingService: its program is not installed.
            RuntimeError: it runs already.
            Unavailable: it died, or it did not answer in time; with the end of its log.
        """
        if self.running:
            raise RuntimeError(f"{self.name} runs already")
        self.folder.mkdir(parents=True, exist_ok=True)
        rotate(self.log)
        for _ in range(PORTS_TO_TRY):
            port = self._port or preferred_port(self._note)
            if self._serve(port):
                return
            if self._port is not None:
                break
        raise Unavailable(f"{self.name}: the port {port} is taken by another program")

    def stop(self) -> None:
        """End the server, by force after a while; blocks until its process is gone."""
        if self._child is not None:
            self._child.stop(self.stop_patience)

    @property
    def port(self) -> int:
        """The port it listens on."""
        if self._child is None or self._port is None:
            raise RuntimeError(f"{self.name} was never started")
        return self._port

    @property
    def address(self) -> str:
        """Where clients reach it: ``host:port``."""
        return f"{LOOPBACK}:{self.port}"

    @property
    def pid(self) -> int:
        """The id of its process."""
        if self._child is None:
            raise RuntimeError(f"{self.name} was never started")
        return self._child.pid

    @property
    def running(self) -> bool:
        """Whether its process is there. Does not block."""
        return self._child is not None and self._child.running

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def _note(self) -> Path:
        return self.folder / "port"

    def _serve(self, port: int) -> bool:
        """Start on the port and wait for the answer; False if another program took the port."""
        self._child = Child(self.name, self._command(port), self.log)
        self._child.start()
        try:
            self._await_answer(self._child, port)
        except BaseException:
            self._child.kill()
            if "already in use" in tail(self.log):
                return False
            raise
        self._port = port
        remember_port(self._note, port)
        return True

    def _await_answer(self, child: Child, port: int) -> None:
        deadline = time.monotonic() + self.start_patience
        while not self._answers(port, child.pid):
            if child.wait(PROBE_PAUSE):
                raise self._failure(f"ended at its start with code {child.code}")
            if time.monotonic() > deadline:
                raise self._failure(f"did not answer within {self.start_patience:g} s")

    def _failure(self, what: str) -> Unavailable:
        return Unavailable(f"{self.name} {what}; the end of {self.log}:\n{tail(self.log)}")


class ZooKeeperServer(Server):
    """A standalone ZooKeeper.

    ``forceSync`` stays on: what it acknowledged survives a power cut, as in production.
    """

    name = "ZooKeeper"
    start_patience = 60.0
    stop_patience = 10.0

    @property
    def unused(self) -> bool:
        """Whether no ZooKeeper ever ran in this folder. Reads the disk."""
        return not (self._data / "version-2").exists()

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    def _command(self, port: int) -> list[str]:
        self._data.mkdir(exist_ok=True)
        config = self.folder / "zoo.cfg"
        settings = _ZOOKEEPER_CONFIG.format(port=port, address=LOOPBACK, data=_property(self._data))
        config.write_text(settings, encoding="ascii")
        return [
            programs.java(os.environ),
            "-Xmx256m",
            *_LEAN_JAVA,
            "-Djava.awt.headless=true",
            "-Dzookeeper.admin.enableServer=false",
            "-cp",
            programs.zookeeper_class_path(os.environ),
            "org.apache.zookeeper.server.quorum.QuorumPeerMain",
            str(config),
        ]

    def _answers(self, port: int, pid: int) -> bool:  # noqa: ARG002 - it reports its folder instead
        # Only a server that serves requests reports its folder, and only ours reports this one.
        return f"dataDir={self._data}/" in _ask(port, b"conf")


class RedisServer(Server):
    """A Redis that writes every change to an append-only file.

    Args:
        folder, port, log: as of every server.
        password: what clients must know; empty: nothing.
    """

    name = "Redis"
    start_patience = 60.0
    stop_patience = 10.0

    def __init__(
        self, folder: Path, port: int | None = None, log: Path | None = None, password: str = ""
    ) -> None:
        super().__init__(folder, port, log)
        self._password = password

    @property
    def url(self) -> str:
        """Where clients reach its first database; with the password, so not to be shown."""
        login = f":{quote(self._password, safe='')}@" if self._password else ""
        return f"redis://{login}{self.address}/0"

    def _command(self, port: int) -> list[str]:
        options = {
            "port": str(port),
            "bind": LOOPBACK,
            "dir": str(self.folder),
            "appendonly": "yes",
            "appendfsync": "everysec",
            "save": "",
            "daemonize": "no",
        }
        if self._password:
            options["aclfile"] = str(self._write_users())
        command = [programs.redis_server(os.environ)]
        for option, value in options.items():
            command += [f"--{option}", value]
        return command

    def _write_users(self) -> Path:
        """Write who may log in; of the password its hash, so that it stands in one place only."""
        file = self.folder / "users.acl"
        known = hashlib.sha256(self._password.encode()).hexdigest()
        with private_file(file, replace=True) as opened:
            opened.write(f"user default on #{known} ~* &* +@all\n".encode())
        return file

    def _answers(self, port: int, pid: int) -> bool:
        if self._password and _REDIS_LISTENS not in tail(self.log).lower():
            return False  # who answers may be somebody else, who would learn the password
        login = _request("AUTH", self._password) if self._password else b""
        answer = _ask(port, login + b"PING\r\nINFO server\r\nQUIT\r\n")
        return "+PONG" in answer and f"process_id:{pid}\r\n" in answer


def any_free() -> int:
    """Return a loopback port that is free just now; another process may take it first."""
    for port in random.sample(LASTING, _PROBES):
        if is_free(port):
            return port
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def _property(value: object) -> str:
    """Return a value as Java reads it from a file of properties, which is ISO 8859-1."""
    raw = str(value).replace("\\", "\\\\").encode("utf-16-be", "surrogatepass")
    units = [int.from_bytes(raw[at : at + 2], "big") for at in range(0, len(raw), 2)]
    return "".join(chr(unit) if 32 <= unit < 127 else f"\\u{unit:04x}" for unit in units)


def _request(*words: str) -> bytes:
    """Return a request as Redis reads it, whatever its words hold."""
    raw = [word.encode() for word in words]
    return b"*%d\r\n" % len(raw) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in raw)


def _ask(port: int, question: bytes) -> str:
    """Return everything a server says to one question; empty if it does not answer."""
    try:
        with socket.create_connection((LOOPBACK, port), PROBE_PATIENCE) as link:
            link.sendall(question)
            return b"".join(iter(lambda: link.recv(65536), b"")).decode("utf-8", "replace")
    except OSError:
        return ""
