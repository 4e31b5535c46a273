"""Everything that poison is put in with: raw clients of each surface, past the product's own."""

import http.client
import itertools
import logging
import socket
import time
import xmlrpc.client
from base64 import b64encode
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlencode, urlsplit

import msgpack
import redis
from kazoo.client import KazooClient

from pyspider_zk.cluster.records import Assignment, Member
from pyspider_zk.cluster.tree import Tree
from pyspider_zk.limits import DEFAULT_SLOTS
from pyspider_zk.projects.slots import slot_of
from tests.fuzz.raw_databases import raw_databases
from tests.support.crawling_cluster import CrawlingCluster

CALL_PATIENCE = 30.0  # seconds for an answer
_COLUMNS = ("name", "group", "status", "script", "comments", "rate", "burst", "updatetime")
PLAIN_SCRIPT = """
from pyspider.libs.base_handler import BaseHandler

class Handler(BaseHandler):
    def on_start(self):
        pass
"""


SPOILT = 1
"""Odd slots are those whose keys may become useless."""


class Grip:
    """Raw clients of one cluster. Threads: one."""

    def __init__(self, cluster: CrawlingCluster) -> None:
        self.cluster = cluster
        self.databases = raw_databases(cluster)
        self.tree: Tree = cluster.tree
        self.members: list[str] = []  # znode names of the three, in the order of their numbers
        self.healthy: list[str] = []  # projects that crawl while the poison is put in
        self.late: list[str] = []  # projects that are made once all of it is in
        self.visitor = ""  # the fourth scheduler's, while it is there
        quiet = logging.getLogger("tests.fuzz.kazoo")
        quiet.setLevel(logging.CRITICAL)
        self.zk = KazooClient(cluster.zookeeper.address, timeout=10.0, logger=quiet)
        self.redis = redis.Redis.from_url(cluster.redis.url)
        running = cluster.running
        self.webui = urlsplit(running.webui)
        self._numbers = itertools.count()
        self._free = self._free_slots(1 - SPOILT)
        self._spoilt = self._free_slots(SPOILT)
        self._held: list[socket.socket] = []
        self._to_begin: list[str] = []

    def __enter__(self) -> "Grip":
        self.zk.start(20)
        self.members = self._members()
        self.healthy, self.late = self._spread("well", 2), self._spread("late", 1)
        self.rpc_address = self._address(self.members[0])
        self.login = f"Basic {b64encode(f'ann:{self.cluster.secret}'.encode()).decode()}"
        return self

    def __exit__(self, *_: object) -> None:
        for link in self._held:
            link.close()
        self.zk.stop()
        self.zk.close()
        self.redis.close()
        self.databases.close()

    # --- names ---------------------------------------------------------------------------------

    def fresh(self, stem: str) -> str:
        """Return a name that was never used before."""
        return f"{stem}_{next(self._numbers)}"

    def fresh_project(self, stem: str) -> str:
        """Return such a name for a project whose messages no other entry takes away."""
        names = map(self.fresh, itertools.repeat(stem))
        return next(name for name in names if slot_of(name, DEFAULT_SLOTS) % 2 != SPOILT)

    def turn(self) -> int:
        """Return a number that grows."""
        return next(self._numbers)

    def free_slot(self) -> int:
        """Return a slot that none of the healthy projects is in."""
        return next(self._free)

    def spoilt_slot(self) -> int:
        """Return such a slot whose keys may become useless; no other entry uses it."""
        return next(self._spoilt)

    def slots_of_visitor(self) -> list[int]:
        """Return the slots that the fourth scheduler owns."""
        table = Assignment.decode(self.zk.get(self.tree.assignment)[0])
        return [n for n, slot in enumerate(table.slots) if str(slot.owner) == self.visitor]

    # --- znodes --------------------------------------------------------------------------------

    def write(self, path: str, data: bytes) -> None:
        """Make a znode say this, whether it stands or not."""
        if self.zk.exists(path):
            self.zk.set(path, data)
        else:
            self.zk.create(path, data, makepath=True)

    # --- databases -----------------------------------------------------------------------------

    def project_row(self, name: object, **columns: object) -> None:
        """Write a project's row, whatever is in it, and have the schedulers look."""
        row: dict[str, object] = dict.fromkeys(_COLUMNS, "") | {
            "status": "RUNNING",
            "script": PLAIN_SCRIPT,
            "rate": 10,
            "burst": 10,
            "updatetime": time.time(),
        }
        row |= {"name": name, **columns}
        self.databases.insert("project", "projectdb", row)

    def task_row(self, project: str, columns: Mapping[str, object]) -> None:
        """Write a task's row of a project, ACTIVE and due unless it says something else."""
        self.databases.make_table("task", project)
        row: dict[str, object] = {
            "taskid": "t",
            "project": project,
            "url": "data:,x",
            "status": 1,
            "schedule": "{}",
            "fetch": "{}",
            "process": '{"callback": "on_start"}',
            "track": "{}",
            "lastcrawltime": 0,
            "updatetime": 0,
        }
        self.databases.insert("task", self.databases.table("task", project), {**row, **columns})

    def begin_project(self, name: str) -> None:
        """Have a project's script run, once all of the group is in."""
        self._to_begin.append(name)

    def settle(self) -> None:
        """Have the schedulers look at the rows now instead of within five minutes, and begin."""
        self.call("update_project")
        for name in self._to_begin:
            task = {"taskid": "on_start", "project": name, "url": "data:,on_start"}
            started = {**task, "process": {"callback": "on_start"}}
            self.redis.rpush("newtask_queue", msgpack.packb(started))
        self._to_begin = []

    # --- calls ---------------------------------------------------------------------------------

    def call(self, method: str, *args: Any) -> tuple[bool, str]:
        """Call a member; tell whether it refused, and what it said."""
        body = xmlrpc.client.dumps(args, method, allow_none=True).encode("utf-8", "surrogatepass")
        return self.post_rpc(body)

    def post_rpc(self, body: bytes, headers: Mapping[str, str] | None = None) -> tuple[bool, str]:
        """Post a body to a member's XML-RPC; tell whether it refused, and what it said."""
        sent = {"Content-Type": "text/xml", "Authorization": self.login, **(headers or {})}
        status, answer = self.http(self.rpc_address, "POST", "/RPC2", body, sent)
        if status != 200:
            return True, f"{status} {answer[:80]!r}"
        try:
            (value,), _ = xmlrpc.client.loads(answer)
        except xmlrpc.client.Fault as fault:
            return True, f"Fault {fault.faultCode}: {fault.faultString:.80}"
        return value is False or value is None, repr(value)[:80]

    def raw(self, address: str, data: bytes, patience: float = 1.0) -> tuple[bool, str]:
        """Send bytes and say no more; tell whether it ended without a good answer."""
        host, _, port = address.rpartition(":")
        try:
            with socket.create_connection((host, int(port)), patience) as link:
                link.sendall(data)
                link.settimeout(patience)
                answer = link.recv(65536)
        except TimeoutError:
            return True, "no answer, as is right: the sender did not end"
        except OSError as error:
            return True, str(error)
        return not answer.startswith((b"HTTP/1.1 200", b"HTTP/1.0 200")), repr(answer[:60])

    def hold(self, address: str, count: int) -> None:
        """Open connections and say nothing on them, until the end."""
        host, _, port = address.rpartition(":")
        for _ in range(count):
            link = socket.socket()
            link.setblocking(False)
            link.connect_ex((host, int(port)))
            self._held.append(link)

    def web(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[bool, str]:
        """Ask the web UI; tell whether it refused, and what it said."""
        status, answer = self.http(self.webui.netloc, method, path, body, headers or {})
        return status >= 400, f"{status} {answer[:80]!r}"

    def form(self, path: str, **fields: str) -> tuple[bool, str]:
        """Post a form to the web UI."""
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        return self.web("POST", path, urlencode(fields).encode(), kind)

    def http(
        self,
        address: str,
        method: str,
        path: str,
        body: bytes | None,
        headers: Mapping[str, str],
    ) -> tuple[int, bytes]:
        """Return status and body; 599 if the connection was closed instead."""
        link = http.client.HTTPConnection(address, timeout=CALL_PATIENCE)
        try:
            link.request(method, path, body, dict(headers))
            answer = link.getresponse()
            return answer.status, answer.read(10_000_000)
        except (OSError, http.client.HTTPException) as error:
            return 599, str(error).encode()
        finally:
            link.close()

    # --- the cluster ---------------------------------------------------------------------------

    def _members(self) -> list[str]:
        return sorted(self.zk.get_children(self.tree.members))

    def _address(self, member: str) -> str:
        return Member.decode(self.zk.get(self.tree.member(member))[0]).address

    def _free_slots(self, first: int) -> Iterator[int]:
        """Yield every other slot of no healthy project, over and over: there are more entries."""
        taken = {slot_of(name, DEFAULT_SLOTS) for name in (*self.healthy, *self.late)}
        slots = [slot for slot in range(first, DEFAULT_SLOTS, 2) if slot not in taken]
        yield from itertools.cycle(slots)

    def _spread(self, stem: str, each: int) -> list[str]:
        """Return names so that each of the three schedules as many projects."""
        table = Assignment.decode(self.zk.get(self.tree.assignment)[0])
        found: dict[object, list[str]] = {slot.owner: [] for slot in table.slots}
        for name in map(f"{stem}_{{}}".format, itertools.count()):
            mine = found[table.slots[slot_of(name, DEFAULT_SLOTS)].owner]
            if len(mine) < each:
                mine.append(name)
            if all(len(names) == each for names in found.values()):
                return [name for names in found.values() for name in names]
        raise AssertionError("there are endless names")
