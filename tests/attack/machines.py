"""A cluster as docs/how-to/several-machines.md has it: each machine is a network namespace.

ZooKeeper wants a certificate, a login, and gives its znodes to that login alone; Redis has one
user, and TLS with certificates; XML-RPC has the secret; the web UI has users with roles.
"""

import json
import os
import socket
import ssl
import sys
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xmlrpc.client import ServerProxy

import redis
import trustme
from kazoo.client import KazooClient

from pyspider_zk.cluster.events import EventKind
from pyspider_zk.config import Settings, settings_from
from pyspider_zk.local import programs
from pyspider_zk.local.child import Child, tail
from pyspider_zk.queues.names import DEAD_LETTERS
from pyspider_zk.webui.users import change_users, read_users
from tests.attack.doors import LISTENS, PORTS, REDIS_PORT, ZOOKEEPER_PORT, Who
from tests.attack.state import KEPT, URL_CANARY, State, plant, state
from tests.support.connected import is_settled, rpc_url
from tests.support.network import Network
from tests.support.processes import PROGRAM
from tests.support.running_cluster import STILL, listens
from tests.support.secured_servers import NETTY, private_key
from tests.support.waiting import eventually

REPOSITORY = Path(__file__).parents[2]
ATTACKER = "attacker"
NODES = (*LISTENS, ATTACKER)
PATIENCE = 300.0
COMPONENTS = {
    "processor": "processor",
    "fetcher": "fetcher",
    "results": "result-worker",
    "webui": "webui",
}
SCHEDULERS = ("scheduler1", "scheduler2")
SECRET = "canary-of-the-secret-0123456789"  # noqa: S105 - of this cluster
PASSWORDS = {
    "zookeeper": "canary-of-zookeeper",
    "redis": "canary-of-redis",
    Who.VIEWER: "canary-of-the-viewer",
    Who.OPERATOR: "canary-of-the-operator",
    Who.ADMIN: "canary-of-the-admin",
}
_JAVA = ("-Xmx192m", "-Djava.awt.headless=true", "-XX:TieredStopAtLevel=1")
_ZOOKEEPER = """\
dataDir={data}
tickTime=500
maxSessionTimeout=40000
admin.enableServer=false
secureClientPort={port}
secureClientPortAddress={address}
serverCnxnFactory={netty}
ssl.keyStore.location={own}
ssl.keyStore.type=PEM
ssl.trustStore.location={ca}
ssl.trustStore.type=PEM
"""


@dataclass(frozen=True)
class Papers:
    """Certificates: files of PEM, those of servers with their keys."""

    ca: Path
    zookeeper: Path
    redis: Path
    client: Path
    client_key: Path
    stranger: Path
    stranger_key: Path


class Machines:
    """The cluster, from the beginning to the end of the ``with`` block. Threads: one.

    This thread is in the cluster's network meanwhile, on a machine of its own.

    Args:
        folder: for data and logs.
        preload: a folder of Python's path for schedulers and web UI, to open doors with.
        guarded: whether ZooKeeper's znodes, Redis and the web UI have logins.
    """

    def __init__(self, folder: Path, preload: Path | None = None, guarded: bool = True) -> None:
        self.folder = folder
        self.network = Network(NODES, "atk")
        self._preload = preload
        self._guarded = guarded
        self._stack = ExitStack()
        self._children: dict[str, Child] = {}

    def __enter__(self) -> "Machines":
        with ExitStack() as stack:
            stack.enter_context(self.network)
            stack.callback(self._end)
            self._prepare()
            self._start()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    # --- where everything is ------------------------------------------------------------------

    @property
    def webui(self) -> str:
        """Host and port of the web UI."""
        return f"{self.network.address('webui')}:{PORTS['web UI']}"

    @property
    def schedulers(self) -> list[str]:
        """Host and port of each scheduler's XML-RPC."""
        port = PORTS["XML-RPC of a scheduler"]
        return [f"{self.network.address(name)}:{port}" for name in SCHEDULERS]

    @property
    def zookeeper(self) -> str:
        """Host and port of ZooKeeper."""
        return f"{self.network.address('zookeeper')}:{ZOOKEEPER_PORT}"

    @property
    def databases(self) -> dict[str, str]:
        """The URLs of the databases, by kind."""
        kinds = ("task", "project", "result")
        return {kind: f"sqlite+{kind}db:///{self.folder}/{kind}.db" for kind in kinds}

    @property
    def files(self) -> list[Path]:
        """Files that only a member may change."""
        return [self.folder / "users.json", self.folder / "secret", self.folder / "config.json"]

    @property
    def secrets(self) -> list[str]:
        """What nobody may be told, whatever their role."""
        users = read_users(self.folder / "users.json")
        hashes = [user.password for user in users.users.values()]
        return [SECRET, *PASSWORDS.values(), users.key, *hashes]

    @property
    def settings(self) -> Settings:
        """What a member is set to."""
        config = json.loads((self.folder / "config.json").read_text(encoding="utf-8"))
        return settings_from(config["zookeeper"])

    def authorization(self, who: Who) -> dict[str, str]:
        """Return the header by which somebody logs in to the web UI."""
        if who is Who.NOBODY:
            return {}
        login = b64encode(f"{who.name.lower()}:{PASSWORDS[who]}".encode()).decode()
        return {"Authorization": f"Basic {login}"}

    def pids(self) -> dict[str, int]:
        """Return the processes that run."""
        return {name: child.pid for name, child in self._children.items() if child.running}

    def state(self) -> State:
        """Return all that stands: rows, znodes with versions and ACLs, keys, files, processes."""
        with (
            self.zookeeper_client(login=True) as client,
            closing(self.redis_client(login=True)) as store,
        ):
            found = state(self.databases, client, self.settings.root, store, self.files)
        return {**found, **{f"process {name}": pid for name, pid in self.pids().items()}}

    # --- clients ------------------------------------------------------------------------------

    @contextmanager
    def zookeeper_client(self, *, login: bool, papers: bool = True) -> Iterator[KazooClient]:
        """Lend a connection to ZooKeeper: with the cluster's login or none, from where we are.

        Without it, whoever has a certificate of the authority, which is not the cluster's.
        """
        files = self._shown("", login) if papers else {}
        given = [("digest", f"crawl:{PASSWORDS['zookeeper']}")] if login else None
        client = KazooClient(
            self.zookeeper,
            timeout=30,
            auth_data=given,
            use_ssl=True,
            ca=str(self._papers.ca),
            **files,
        )
        client.start(60)
        try:
            yield client
        finally:
            client.stop()
            client.close()

    def redis_client(self, *, login: bool, papers: bool = True) -> "redis.Redis[bytes]":
        """Return a client of Redis: with the cluster's login or none."""
        files = self._shown("ssl_", login) if papers else {}
        given = {"username": "crawl", "password": PASSWORDS["redis"]} if login else {}
        address = self.network.address("redis")
        ours = {
            "ssl": True,
            "ssl_ca_certs": str(self._papers.ca),
            "retry": None,
            "socket_timeout": 60,
        }
        return redis.Redis(address, REDIS_PORT, **ours, **files, **given)

    def _shown(self, prefix: str, login: bool) -> dict[str, str]:
        """Return the options that name the certificate of a member, or of somebody else."""
        who = "client" if login else "stranger"
        names = {"certfile": who, "keyfile": f"{who}_key"}
        return {f"{prefix}{name}": str(getattr(self._papers, of)) for name, of in names.items()}

    def routes(self) -> list[str]:
        """Return the routes of the real web UI, as a second one tells them that serves nobody."""
        from tests.attack.told import BEGIN

        child = self._child("told", "webui", [sys.executable, "-m", "tests.attack.told"])
        child.start()
        assert child.wait(PATIENCE), "the web UI that tells its routes does not end"
        lines = child.log.read_text(encoding="utf-8").splitlines()
        (told,) = (line.removeprefix(BEGIN) for line in lines if line.startswith(BEGIN))
        return list(json.loads(told))

    # --- the start ----------------------------------------------------------------------------

    def _prepare(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._papers = _papers(self.folder, self.network)
        for name, text in (("secret", SECRET), ("password", PASSWORDS["zookeeper"])):
            _write(self.folder / name, text)
        for who in (Who.VIEWER, Who.OPERATOR, Who.ADMIN):
            assert who.role is not None
            change_users(self.folder / "users.json", who.role, who.name.lower(), PASSWORDS[who])
        _write(self.folder / "config.json", json.dumps(self._config(), indent=1))
        plant(self.databases)

    def _config(self) -> dict[str, Any]:
        mine = self._papers
        files = {"ca_certs": mine.ca, "certfile": mine.client, "keyfile": mine.client_key}
        options = "&".join(f"ssl_{name}={path}" for name, path in files.items())
        address = f"{self.network.address('redis')}:{REDIS_PORT}"
        zookeeper: dict[str, Any] = {"hosts": self.zookeeper, "root": "/crawl"}
        zookeeper |= STILL  # a slot that moves would look like an attack's work
        zookeeper |= {"tls": True, "tls_ca": str(mine.ca)}
        zookeeper |= {"tls_certificate": str(mine.client), "tls_key": str(mine.client_key)}
        zookeeper |= {"secret_file": str(self.folder / "secret")}
        zookeeper |= {"users": str(self.folder / "users.json"), "await_members": 2}
        if self._guarded:
            zookeeper |= {"username": "crawl", "password_file": str(self.folder / "password")}
        else:
            zookeeper |= {"insecure": True}
        return {
            **{f"{kind}db": url for kind, url in self.databases.items()},
            "message_queue": f"rediss://crawl:{PASSWORDS['redis']}@{address}/0?{options}",
            "zookeeper": zookeeper,
            "scheduler": {"xmlrpc_host": "0.0.0.0"},  # noqa: S104 - others must reach it
            "webui": {"host": "0.0.0.0", "need_auth": self._guarded},  # noqa: S104
            "data_path": str(self.folder),
        }

    def _start(self) -> None:
        self._run("zookeeper", self._zookeeper_command())
        self._run("redis", self._redis_command())
        self._await("Redis answers", self._redis_answers)
        self._await("ZooKeeper answers", self._zookeeper_answers)
        for name in (*SCHEDULERS, *COMPONENTS):
            self._children[name] = self._child(name, name, list(PROGRAM))
            self._children[name].start()
        self._await("all slots have owners", self._settled)
        self._leave_traces()

    def _leave_traces(self) -> None:
        """Have something done, so that there are a batch, an event and a dead letter to attack."""
        with ServerProxy(rpc_url(self.schedulers[0], SECRET), allow_none=True) as proxy:
            proxy.submit_operation("group", {"names": [KEPT]}, {"group": "of_ours"})
            call: Any = proxy.list_events
            self._await(
                "the end of the batch is recorded",
                lambda: any(each["kind"] == EventKind.ENDED for each in call()),
            )
        with closing(self.redis_client(login=True)) as client:
            client.rpush("newtask_queue", f"no task: {URL_CANARY}")
            self._await("there is a dead letter", lambda: bool(client.exists(DEAD_LETTERS)))

    def _run(self, node: str, command: list[str]) -> None:
        whole = [*self.network.inside(node), *command]
        self._children[node] = Child(node, whole, self.folder / "logs" / f"{node}.log")
        self._children[node].start()

    def _child(self, name: str, node: str, program: list[str]) -> Child:
        command = [*self.network.inside(node), *program, "-c", str(self.folder / "config.json")]
        command.append(COMPONENTS.get(node, "scheduler"))
        log = self.folder / "logs" / f"{name}.log"
        return Child(name, command, log, self._environ(), self.folder)

    def _environ(self) -> dict[str, str]:
        own = {key: value for key, value in os.environ.items() if "PYSPIDER_ZK_" not in key}
        path = [str(each) for each in (self._preload, REPOSITORY) if each]
        return own | {"PYTHONPATH": os.pathsep.join(path), "PYTHONUNBUFFERED": "1"}

    def _zookeeper_command(self) -> list[str]:
        home = self.folder / "zookeeper"
        (home / "data").mkdir(parents=True)
        text = _ZOOKEEPER.format(
            data=home / "data",
            port=ZOOKEEPER_PORT,
            address=self.network.address("zookeeper"),
            netty=NETTY,
            own=self._papers.zookeeper,
            ca=self._papers.ca,
        )
        (home / "zoo.cfg").write_text(text, encoding="utf-8")
        jars = [programs.zookeeper_class_path(os.environ)]
        jars += [str(programs.SYSTEM_JARS / f"netty-{part}.jar") for part in ("codec", "resolver")]
        peer = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        java = [programs.java(os.environ), *_JAVA, "-cp", os.pathsep.join(jars)]
        return [*java, peer, str(home / "zoo.cfg")]

    def _redis_command(self) -> list[str]:
        home = self.folder / "redis"
        home.mkdir()
        rights = "~* +@all -@admin -@dangerous"
        others = "off" if self._guarded else "on nopass ~* &* +@all"
        users = f"user crawl on >{PASSWORDS['redis']} {rights}\nuser default {others}\n"
        _write(home / "users.acl", users)
        own = str(self._papers.redis)
        options = {
            "port": 0,
            "tls-port": REDIS_PORT,
            "tls-cert-file": own,
            "tls-key-file": own,
            "tls-ca-cert-file": self._papers.ca,
            "bind": self.network.address("redis"),
            "dir": home,
            "aclfile": home / "users.acl",
            "appendonly": "yes",
            "protected-mode": "yes" if self._guarded else "no",
        }
        words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        return [programs.redis_server(os.environ), *words]

    def _redis_answers(self) -> bool:
        try:
            with closing(self.redis_client(login=True)) as client:
                return bool(client.ping())
        except (redis.ConnectionError, redis.TimeoutError):
            return False

    def _zookeeper_answers(self) -> bool:
        context = ssl.create_default_context(cafile=self._papers.ca)
        context.load_cert_chain(self._papers.client, self._papers.client_key)
        try:
            host = self.network.address("zookeeper")
            bare = socket.create_connection((host, ZOOKEEPER_PORT), timeout=5)
            link = context.wrap_socket(bare, server_hostname=host)
        except OSError:
            return False
        link.close()
        return True

    def _settled(self) -> bool:
        for name, child in self._children.items():
            assert child.running, f"{name} ended\n{tail(child.log, 30)}"
        settled = is_settled(self.settings, len(SCHEDULERS), len(COMPONENTS))
        return settled and listens(f"http://{self.webui}")

    def _await(self, what: str, holds: Callable[[], bool]) -> None:
        eventually(holds, what, within=PATIENCE, look=0.1, told=self._last_words)

    def _last_words(self) -> str:
        return "\n".join(f"--- {name}\n{tail(one.log)}" for name, one in self._children.items())

    def _end(self) -> None:
        for child in self._children.values():
            child.kill()  # nothing here is to be kept


def _papers(folder: Path, network: Network) -> Papers:
    """Make an authority, and certificates: of the servers, of the cluster, of somebody else."""
    authority = trustme.CA()
    files = Papers(*(folder / f"{name}.pem" for name in Papers.__dataclass_fields__))
    authority.cert_pem.write_to_path(str(files.ca))
    for name, path in (("zookeeper", files.zookeeper), ("redis", files.redis)):
        made = authority.issue_cert(network.address(name))
        _write(path, private_key(made) + made.cert_chain_pems[0].bytes().decode())
    for who, path, key in (
        ("crawl@example.org", files.client, files.client_key),
        ("stranger@example.org", files.stranger, files.stranger_key),
    ):
        made = authority.issue_cert(who)
        made.cert_chain_pems[0].write_to_path(str(path))
        _write(key, private_key(made))
    return files


def _write(path: Path, text: str) -> None:
    """Write a file that only its owner may read."""
    path.touch(mode=0o600)
    path.write_text(text, encoding="utf-8")
