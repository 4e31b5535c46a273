"""A cluster of real processes that crawls a site of its own for as long as the test wants."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from subprocess import Popen
from typing import Any
from xmlrpc.client import ServerProxy

import pytest
from pyspider.database import connect_database

from pyspider_zk.cluster.directory import Directory
from pyspider_zk.cluster.records import Cluster, Member
from pyspider_zk.cluster.tree import Tree
from pyspider_zk.config import Settings
from pyspider_zk.groups.ids import MemberId
from pyspider_zk.local.services import is_free
from tests.support.chain_site import ChainSite, chain_script
from tests.support.connected import connected, is_settled, patient, rpc_url, start_projects
from tests.support.ports import own_port
from tests.support.processes import PROGRAM, process

RATE = 20.0
"""Tasks per second of a project: its crawl goes on all the time and leaves others room to work."""


class Crawl:
    """The processes, databases, projects and site of one test."""

    def __init__(
        self, folder: Path, settings: Settings, queue_url: str, eventually: Callable[..., None]
    ) -> None:
        self._folder = folder
        self._settings = settings
        self._queue_url = queue_url
        self._eventually = eventually
        self._stack = ExitStack()
        self.site = ChainSite()
        self.directory = Directory(settings, patient(settings))
        self.projects: list[str] = []

    def __enter__(self) -> "Crawl":
        self._stack.enter_context(self.directory)
        self._stack.enter_context(self.site)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def start(self, *command: object, program: tuple[str, ...] = PROGRAM) -> Popen[str]:
        child = self._stack.enter_context(
            process("-c", self.config(), *command, folder=self._folder, program=program)
        )
        threading.Thread(target=self._log, args=(child, command), daemon=True).start()
        return child

    def scheduler(self, *options: str, program: tuple[str, ...] = PROGRAM) -> Popen[str]:
        """Start a scheduler and wait until it has joined."""
        words = ("scheduler", "--xmlrpc-host", "127.0.0.1", "--xmlrpc-port", 0, *options)
        child = self.start(*words, program=program)
        self._eventually(lambda: self.member(child) is not None)
        return child

    def webui(self) -> str:
        """Start a web UI, wait until it serves, and return its URL."""
        port = own_port()
        self.start("webui", "--host", "127.0.0.1", "--port", port)
        self._eventually(lambda: not is_free(port))
        return f"http://127.0.0.1:{port}"

    def member(self, child: Popen[str]) -> MemberId | None:
        """Return the member that a process is, None if it is none (yet, or any more)."""
        return next((m for m, r in self.directory.members().items() if r.pid == child.pid), None)

    def settled(self, components: int = 0) -> Cluster:
        """Wait until every slot has a running owner and none moves, evenly.

        Args:
            components: how many there are then besides schedulers, at least.
        """

        def is_even() -> bool:
            cluster = self.directory.read()
            owners = [slot.owner for slot in cluster.assignment.slots]
            counts = [owners.count(member) for member in cluster.members]
            return bool(counts) and min(counts) > 0.7 * max(counts)

        self._eventually(lambda: is_settled(self._settings, components=components) and is_even())
        return self.directory.read()

    def renewals(self) -> int:
        """Return how often the members renewed their leases so far."""
        leases = [Tree(self._settings.root).lease(one) for one in self.directory.members()]
        with connected(self._settings) as connection:
            return sum(found[1] for found in connection.find_all(leases) if found)

    def reports(self) -> int:
        """Return how often the components told what they do so far."""
        tree, components = Tree(self._settings.root), self.directory.read().components
        told = [tree.component(kind, name) for kind, its in components.items() for name in its]
        with connected(self._settings) as connection:
            return sum(found[1] for found in connection.find_all(told) if found)

    def rpc(self, member: Member | None = None) -> ServerProxy:
        """Return the XML-RPC of a member, of any if none is named."""
        chosen = member or next(iter(self.directory.members().values()))
        url = rpc_url(chosen.address, self._settings.secret)
        return self._stack.enter_context(ServerProxy(url, allow_none=True))

    def database(self, kind: str) -> Any:
        made = connect_database(self._database_url(kind))
        made.patience = 60.0  # the crawl writes all the time, and who waits for a lock has no turn
        return made

    def run_projects(self, names: list[str], rate: float = RATE) -> None:
        """Create projects that crawl the site, and start them."""
        projectdb = self.database("project")
        row = {"status": "RUNNING", "group": "", "comments": "", "rate": rate, "burst": rate}
        for name in names:
            projectdb.insert(name, {**row, "script": chain_script(self.site.url, name)})
        start_projects(self.rpc(), names)
        self.projects += names

    def wait_for(self, pages: int) -> None:
        """Wait until all projects together have fetched so many pages more than now."""
        wanted = self.site.served().total() + pages
        self._eventually(lambda: self.site.served().total() >= wanted, f"{pages} pages", within=180)

    def end(self) -> None:
        """End the chains of all projects, and wait until everything is crawled."""
        self.site.end_chains(self.projects)
        self._eventually(self._is_over, "the end of the crawl", within=180)

    def fetched_once(self) -> bool:
        """Return whether no page was fetched twice; ask at the end, when none is left out."""
        served = self.site.served()
        return all(served[name] == len(self.site.told(name)) for name in self.projects)

    def tasks(self, name: str) -> int:
        """Return how many tasks a project has: its pages, ``on_start`` and ``on_finished``."""
        return len(self.site.told(name)) + 2

    def _is_over(self) -> bool:
        """Return whether all tasks of all projects succeeded, and each page has its result."""
        taskdb, resultdb = self.database("task"), self.database("result")
        return all(
            taskdb.status_count(name) == {taskdb.SUCCESS: self.tasks(name)}
            and name in resultdb.projects
            and resultdb.count(name) == len(self.site.told(name))
            for name in self.projects
        )

    def config(self) -> Path:
        """Write the configuration of all components; return its file."""
        section = {
            key: getattr(self._settings, key)
            for key in ("hosts", "root", "renewal", "lease", "hang", "session", "drain", "secret")
        }
        config: dict[str, Any] = {f"{k}db": self._database_url(k) for k in _DATABASES}
        config |= {"zookeeper": section, "message_queue": self._queue_url}
        path = self._folder / "config.json"
        if not path.exists():  # else one that is starting might read half of it
            text = json.dumps({**config, "data_path": str(self._folder)})
            path.write_text(text, encoding="utf-8")
        return path

    def _database_url(self, kind: str) -> str:
        return f"sqlite+{kind}db:///{self._folder}/{kind}.db"

    def _log(self, child: Popen[str], command: tuple[object, ...]) -> None:
        """Keep what a process says, for whoever looks into a failed test."""
        log = self._folder / f"{command[0]}-{child.pid}.log"
        assert child.stdout is not None
        log.write_text("".join(child.stdout), encoding="utf-8")


_DATABASES = ("task", "project", "result")


@pytest.fixture
def crawl(
    tmp_path: Path,
    cluster_settings: Settings,
    redis_url: str,
    eventually: Callable[..., None],
) -> Iterator[Crawl]:
    """Give a cluster without processes yet."""
    with Crawl(tmp_path, cluster_settings, redis_url, eventually) as made:
        yield made
