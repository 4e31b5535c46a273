"""The cluster that is fuzzed: who crawls there, who may log in, and its surfaces."""

import http.client
import xmlrpc.client
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from pyspider_zk.limits import DEFAULT_SLOTS
from pyspider_zk.projects.slots import slot_of
from pyspider_zk.webui.users import Role, change_users
from tests.fuzz import queues, records, rpc, web
from tests.fuzz.grip import Grip
from tests.fuzz.inputs import FUZZED, Surface
from tests.fuzz.web import api_cases
from tests.support.crawling_cluster import CrawlingCluster

RATE = 10.0  # pages per second of a project
LISTEN = 180.0  # seconds for real messages, at most
PASSWORD = "a password of the fuzzing"  # noqa: S105 - of a cluster that lives for minutes
PAGE = "/cluster/projects"  # that the first one leads to
VICTIMS = [f"{FUZZED}{number}" for number in range(3)]
ALL = (rpc.NAME, web.HTTP, web.WEBDAV, queues.NAME, records.NAME)


class Target:
    """A running cluster with healthy and fuzzed projects. Threads: one.

    Attributes:
        cluster: all of it.
        grip: raw clients.
        healthy: projects that no input names; nothing of them may be lost.
    """

    def __init__(self, cluster: CrawlingCluster, grip: Grip) -> None:
        self.cluster = cluster
        self.grip = grip
        self.healthy = grip.healthy
        self.addresses = cluster.addresses()
        self.messages: dict[str, list[bytes]] = {}
        self.records: dict[str, bytes] = {}
        self._session = ""

    def begin(self) -> None:
        """Let projects crawl, and take down what real messages and records look like."""
        self.cluster.crawl([*VICTIMS, *self.healthy], RATE)
        every = [*VICTIMS, *self.healthy]
        self.cluster.await_that("all projects crawl", self.cluster.advancing(every, 1))
        names = [f"{FUZZED}0"]
        with self.cluster.rpc() as caller:
            caller.submit_operation("rate", {"names": names}, {"rate": RATE, "burst": RATE})
        self.messages = queues.listen(self.cluster.redis.url, LISTEN)
        self.cluster.await_that("a slot record stands", self._has_slot_records)
        self.records = records.snapshot(self.grip.zk, self.cluster.tree.root)
        self._session = self._log_in()

    def end(self) -> None:
        """Let no project find another page."""
        self.cluster.site.end_chains([*VICTIMS, *self.healthy])

    def surface(self, name: str) -> Surface:
        made: Mapping[str, Callable[[], Surface]] = {
            rpc.NAME: lambda: rpc.surface(self.addresses, self._methods(), self.cluster.secret),
            web.HTTP: lambda: web.http_surface(
                self.grip.webui.netloc, self.login, api_cases(self.cluster.running.webui)
            ),
            web.WEBDAV: lambda: web.webdav_surface(self.grip.webui.netloc, self.login),
            queues.NAME: lambda: queues.surface(
                self.cluster.redis.url, self.messages, self._spoilable()
            ),
            records.NAME: lambda: records.surface(
                self.grip.zk, self.cluster.tree.root, self.records
            ),
        }
        return made[name]()

    def login(self, role: str) -> dict[str, str]:
        """Return the headers that log a role in."""
        if role == "nobody":
            return {}
        if role == "session":
            return {"Cookie": self._session}
        if role == "junk":
            return {"Authorization": "Basic !", "Cookie": self._session[:-5]}
        password = "x" if role == "wrong" else PASSWORD
        name = "viewer" if role == "wrong" else role
        return {"Authorization": f"Basic {b64encode(f'{name}:{password}'.encode()).decode()}"}

    # --- health --------------------------------------------------------------------------------

    def web_answers(self) -> bool:
        """Return whether API and page answer an admin."""
        return all(self._status("GET", path) == 200 for path in ("/api/v1/overview", PAGE))

    def webdav_answers(self) -> bool:
        """Return whether WebDAV lists the projects."""
        return self._status("PROPFIND", "/dav/", Depth="1") == 207

    def rpc_answers(self, address: str) -> Callable[[], bool]:
        """Return what tells whether a member answers."""

        def answers() -> bool:
            try:
                with self.cluster.rpc(address) as caller:
                    return isinstance(caller.local_size(), int)
            except (OSError, http.client.HTTPException, xmlrpc.client.Error):
                return False

        return answers

    def _status(self, method: str, path: str, **headers: str) -> int:
        given = {**self.login("admin"), **headers}
        return self.grip.http(self.grip.webui.netloc, method, path, None, given)[0]

    # --- what there is -------------------------------------------------------------------------

    def keys(self) -> int:
        """Return how many keys stand in Redis."""
        return int(self.grip.redis.dbsize())

    def redis_memory(self) -> int:
        """Return the bytes that Redis uses."""
        return int(self.grip.redis.info("memory")["used_memory"])

    def znodes(self) -> int:
        return len(records.snapshot(self.grip.zk, self.cluster.tree.root))

    def _has_slot_records(self) -> bool:
        self.messages["slot_record"] = queues.slot_records(self.cluster.redis.url)
        return bool(self.messages["slot_record"])

    def _methods(self) -> Sequence[str]:
        with self.cluster.rpc() as caller:
            listed = caller.system.listMethods()
        assert isinstance(listed, list)
        return [str(name) for name in listed]

    def _spoilable(self) -> list[int]:
        taken = {slot_of(name, DEFAULT_SLOTS) for name in self.healthy}
        return [slot for slot in range(DEFAULT_SLOTS) if slot not in taken]

    def _log_in(self) -> str:
        """Return the cookie of an operator's session."""
        link = http.client.HTTPConnection(self.grip.webui.netloc, timeout=30)
        try:
            form = f"name=operator&password={PASSWORD.replace(' ', '+')}"
            kind = {"Content-Type": "application/x-www-form-urlencoded"}
            link.request("POST", "/login/", form, kind)
            answer = link.getresponse()
            assert answer.status == 303, answer.read()
            return str(answer.headers["Set-Cookie"]).partition(";")[0]
        finally:
            link.close()


@contextmanager
def target(folder: Path, preload: Path | None = None) -> Iterator[Target]:
    """Run a cluster that crawls, whose web UI has an account of each role."""
    folder.mkdir(parents=True, exist_ok=True)
    users = folder.resolve() / "users.json"
    for role in Role:
        change_users(users, role, role.value, PASSWORD)
    settings = {"users": users, "login_to_change": "true"}
    with ExitStack() as stack:
        made = CrawlingCluster(folder / "cluster", settings, preload=preload)
        cluster = stack.enter_context(made)
        grip = stack.enter_context(Grip(cluster))
        one = Target(cluster, grip)
        one.begin()
        yield one
