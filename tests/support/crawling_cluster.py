"""A whole cluster under ``pyspider-zk up`` that crawls, with services that the test holds itself.

ZooKeeper and Redis are the test's, so that it can take them away; everything else is started as an
operator starts it. ``up`` starts what died anew, so a death is seen as another process id.
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any
from xmlrpc.client import ServerProxy

from pyspider_zk.cluster.records import Member
from pyspider_zk.cluster.tree import Tree
from pyspider_zk.config import Settings, settings_from
from pyspider_zk.errors import BadMessage
from pyspider_zk.local.child import Child, tail
from pyspider_zk.local.folder import Running, running_in
from pyspider_zk.local.services import RedisServer
from pyspider_zk.secret_files import read_cluster_secret
from tests.support.chain_site import ChainSite, chain_script
from tests.support.connected import connected, is_settled, rpc_url, start_projects
from tests.support.database_servers import DatabaseServer, lent
from tests.support.ports import own_port
from tests.support.relay import Relay
from tests.support.running_cluster import PROGRAM, ROOT, listens
from tests.support.waiting import eventually
from tests.support.zookeeper import UnsyncedZooKeeper

SCHEDULERS = 3
PATIENCE = 180.0  # seconds for everything to stand
DATABASES = ("task", "project", "result")


class CrawlingCluster:
    """Three schedulers with all components, and a site to crawl. Threads: one.

    Attributes:
        relay: what stands before Redis, if the cluster is made with one.
        server: what has the databases, if a server does.
        server_relay: what stands before that.

    Args:
        folder: for data and logs.
        times: settings that differ from the product's defaults, such as ``{"lease": 2}``.
        relayed: whether there is a relay before Redis, whose wire can be cut.
        preload: a folder whose ``sitecustomize.py`` all processes run at their start.
        databases: URLs of databases that are not files of ``up``'s, by ``task``, ``project`` and
            ``result``.
        server: what has the databases instead: one of its own, behind a relay.
    """

    relay: Relay
    server: DatabaseServer
    server_relay: Relay

    def __init__(
        self,
        folder: Path,
        times: Mapping[str, object] | None = None,
        *,
        relayed: bool = False,
        preload: Path | None = None,
        databases: Mapping[str, str] | None = None,
        server: type[DatabaseServer] | None = None,
    ) -> None:
        self.folder = folder.resolve()
        self.data = self.folder / "data"
        self.zookeeper = UnsyncedZooKeeper(self.folder / "zookeeper", own_port())
        self.redis = RedisServer(self.folder / "redis", own_port())
        self.site = ChainSite()
        self.projects: list[str] = []
        self._times = dict(times or {})
        self._databases = dict(databases or {})
        self._server_class = server
        self._path = os.pathsep.join(str(each) for each in (preload, ROOT) if each)
        self._relayed = relayed
        self._running: Running | None = None
        self._stack = ExitStack()
        self._up: Child | None = None
        self.born: dict[str, int] = {}

    def __enter__(self) -> "CrawlingCluster":
        with ExitStack() as stack:
            self.data.mkdir(0o700, parents=True)
            for part in (self.zookeeper, self.redis, self.site):
                stack.enter_context(part)
            if self._relayed:
                self.relay = stack.enter_context(Relay(self.redis.port))
            if self._server_class is not None:
                self.server = self._server_class()
                stack.callback(self.server.remove)
                stack.enter_context(self.server)
                self.server_relay = stack.enter_context(Relay(self.server.port))
                self._databases = {kind: self._url_of(kind) for kind in DATABASES}
            stack.enter_context(self._up_and_running())
            self.await_that("all slots have running owners", self._settled)
            self.await_that("the web UI listens", lambda: listens(self.running.webui))
            self.born = self.processes()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def settings(self) -> Settings:
        """What a process of this cluster is set to."""
        given = {f"PYSPIDER_ZK_{key.upper()}": str(value) for key, value in self._times.items()}
        return settings_from(environ=given, hosts=self.zookeeper.address)

    @property
    def has_server(self) -> bool:
        """Whether a server has the databases; else they are files."""
        return self._server_class is not None

    def server_database(self, kind: str) -> str:
        return f"crawl_{kind}"

    @property
    def tree(self) -> Tree:
        return Tree(self.settings.root)

    @property
    def running(self) -> Running:
        """What ``up`` told of itself at its start; it may have ended since."""
        if self._running is None:
            self._running = running_in(self.data)
        assert self._running is not None, self.last_words()
        return self._running

    @property
    def secret(self) -> str:
        """What opens the schedulers' XML-RPC."""
        return read_cluster_secret(Path(self.running.secret_file))

    def processes(self) -> dict[str, int]:
        """Return the process ids of all that ``up`` started, by the names of their logs."""
        assert self._up is not None
        found = {}
        for pid in children(self._up.pid):
            log = _log_of(pid)
            if log is not None:
                found[log.stem] = pid
        return found

    def changes(self) -> list[str]:
        """Return what ended since the cluster stood, in words; empty if nothing did."""
        assert self._up is not None
        if not self._up.running:
            return [f"up ended with code {self._up.code}"]
        now = self.processes()
        return [
            f"{name} (pid {pid}) ended" for name, pid in self.born.items() if now.get(name) != pid
        ]

    def logs(self) -> dict[str, Path]:
        """Return the logs by the names of the processes, ``up`` itself included."""
        found = {path.stem: path for path in (self.data / "logs").glob("*.log")}
        return {**found, "up": self.folder / "up.log"}

    def last_words(self, lines: int = 12) -> str:
        """Return the ends of all logs."""
        return "\n".join(f"--- {name}\n{tail(path, lines)}" for name, path in self.logs().items())

    def file(self, kind: str) -> Path:
        """Return the sqlite file of a database."""
        return Path(getattr(self.running, f"{kind}db").partition(":///")[2])

    def open_database(self, kind: str) -> AbstractContextManager[Any]:
        """Lend a connection of pyspider's own to a database."""
        return lent(self._database_url(kind))

    def _database_url(self, kind: str) -> str:
        return self._databases.get(kind) or str(getattr(self.running, f"{kind}db"))

    def addresses(self) -> list[str]:
        """Return the XML-RPC addresses of the three, read past all that was put beside them."""
        with connected(self.settings) as connection:
            names = connection.children(self.tree.members)
            found = connection.find_all([self.tree.member(name) for name in names])
        return list(_addresses([record[0] for record in found if record]))

    def rpc(self, address: str | None = None) -> ServerProxy:
        """Return the XML-RPC of a member, of any that listens if none is named."""
        members = (each for each in self.addresses() if listens(f"http://{each}"))
        return ServerProxy(rpc_url(address or next(members), self.secret), allow_none=True)

    def crawl(self, names: Sequence[str], rate: float = 50.0) -> None:
        """Create projects that crawl the site and start them, as the web UI does."""
        with self.open_database("project") as projectdb:
            for name in names:
                script = chain_script(self.site.url, name)
                row = {"status": "RUNNING", "script": script, "group": "", "comments": ""}
                projectdb.insert(name, {**row, "rate": rate, "burst": rate})
        with self.rpc() as rpc:
            start_projects(rpc, names)
        self.projects += names

    def missing(self, names: Sequence[str] | None = None) -> dict[str, list[str]]:
        """Return for each project the pages that the site linked to and that are not done.

        A page without its result is not done.

        Args:
            names: of the projects; None: all that were started.
        """
        asked = self.projects if names is None else names
        with self.open_database("task") as taskdb, self.open_database("result") as resultdb:
            left = {name: self._left(taskdb, resultdb, name) for name in asked}
        return {name: pages for name, pages in left.items() if pages}

    def unfinished(self, patience: float, names: Sequence[str] | None = None) -> list[str]:
        """Return in words what is not done in the end; blocks until all is, or patience ends."""
        deadline = time.monotonic() + patience
        while missing := self.missing(names):
            if time.monotonic() > deadline:
                return [f"{name} lost {pages[:3]}" for name, pages in missing.items()]
            time.sleep(0.3)  # the databases are asked
        return []

    def advancing(self, names: Sequence[str], steps: int) -> Callable[[], bool]:
        """Return what tells whether each project has fetched so many pages more than now."""
        return grows(self.site.served, names, steps)

    def await_that(self, what: str, holds: Callable[[], bool], patience: float = PATIENCE) -> None:
        """Block until a condition holds; fail with the ends of all logs."""
        eventually(holds, what, within=patience, look=0.1, told=self.last_words)

    @contextmanager
    def _up_and_running(self) -> Iterator[None]:
        command = [*PROGRAM, "up", "--schedulers", str(SCHEDULERS), "--processors", "1"]
        command += ["--renderers", "0", "--zookeeper", self.zookeeper.address]
        command += ["--message-queue", self._queue()]
        command += ["--data-path", str(self.data), "--webui-port", str(own_port())]
        self._up = Child("up", command, self.folder / "up.log", self._environ(), self.folder)
        self._up.start()
        try:
            yield
        finally:
            self._up.kill()  # the kernel ends its children with it; nothing here is to be kept

    def _url_of(self, kind: str) -> str:
        """Return the URL of a database behind the relay."""
        url = self.server.url(kind, self.server_database(kind))
        return url.replace(f":{self.server.port}/", f":{self.server_relay.port}/")

    def _queue(self) -> str:
        """Return where the product finds Redis."""
        return f"redis://127.0.0.1:{self.relay.port}/0" if self._relayed else self.redis.url

    def _environ(self) -> dict[str, str]:
        own = {key: value for key, value in os.environ.items() if "PYSPIDER_ZK_" not in key}
        times = {f"PYSPIDER_ZK_{key.upper()}": str(value) for key, value in self._times.items()}
        databases = {f"{kind.upper()}DB": url for kind, url in self._databases.items()}
        return own | times | databases | {"PYTHONPATH": self._path, "PYTHONUNBUFFERED": "1"}

    def _settled(self) -> bool:
        assert self._up is not None
        assert self._up.running, self.last_words()
        return is_settled(self.settings, SCHEDULERS, components=4)

    def _left(self, taskdb: Any, resultdb: Any, name: str) -> list[str]:
        told = self.site.told(name)
        done: set[str] = set()
        if name in taskdb.projects:
            done = {row["url"] for row in taskdb.load_tasks(taskdb.SUCCESS, name, ("url",))}
        stored: set[str] = set()
        if name in resultdb.projects:
            stored = {row["url"] for row in resultdb.select(name, fields=("url",))}
        return sorted(told - (done & stored)) or ([] if told else ["on_start"])


def grows(
    count: Callable[[], Mapping[str, int]], names: Sequence[str], steps: int
) -> Callable[[], bool]:
    """Return what tells whether each count has grown by so much since now."""
    before = count()

    def grown() -> bool:
        now = count()
        return all(now.get(name, 0) >= before.get(name, 0) + steps for name in names)

    return grown


def _addresses(records: Sequence[bytes]) -> Iterator[str]:
    for record in records:
        try:
            yield Member.decode(record).address
        except BadMessage:
            continue


def children(parent: int) -> list[int]:
    """Return the processes that a process started. Linux."""
    found: list[int] = []
    for listing in Path(f"/proc/{parent}/task").glob("*/children"):
        with suppress(OSError):  # the thread just ended, or the process
            found += map(int, listing.read_text(encoding="ascii").split())
    return found


def descendants(parent: int) -> list[int]:
    """Return the processes that a process started, and those that they started."""
    found = children(parent)
    return found + [each for child in found for each in descendants(child)]


def _log_of(pid: int) -> Path | None:
    """Return the file that a process writes its output to."""
    try:
        target = os.readlink(f"/proc/{pid}/fd/1")
    except OSError:  # it just ended
        return None
    return Path(target) if target.endswith(".log") else None
