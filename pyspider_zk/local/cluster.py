"""The embedded one-machine cluster: its servers, its processes and the order of both."""

import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, fields, replace
from pathlib import Path
from time import monotonic
from typing import NamedTuple

from pyspider_zk.components.wiring import check_login
from pyspider_zk.config import Settings
from pyspider_zk.errors import ConfigError, Refused
from pyspider_zk.local.child import cut
from pyspider_zk.local.folder import (
    CommonAddresses,
    Running,
    announce,
    claimed,
    prepare_databases,
    with_login,
    withdraw,
)
from pyspider_zk.local.plan import (
    Addresses,
    ProcessPlan,
    component_commands,
    database_files,
    database_urls,
    scheduler_command,
)
from pyspider_zk.local.services import (
    RedisServer,
    Server,
    ZooKeeperServer,
    is_free,
    preferred_port,
    remember_port,
)
from pyspider_zk.local.supervisor import Report, Supervisor
from pyspider_zk.secret_files import make_cluster_secret, read_cluster_secret
from pyspider_zk.zookeeper.protection import close_server

USUAL_WEBUI_PORT = 5000
DRAIN_MARGIN = 15.0  # seconds on top of a process's own drain, to send what it holds


class _Service(NamedTuple):
    """ZooKeeper or the message queue: where it is and, if it is ours, its server and password."""

    place: str
    password_file: str = ""
    server: Server | None = None


@dataclass(frozen=True)
class _Parts:
    """Parts of a started cluster."""

    addresses: Addresses
    servers: tuple[Server, ...]
    supervisor: Supervisor


class LocalCluster:
    """A cluster in one folder, from ``start`` to ``end``.

    All its methods are to be called from one thread that outlives the cluster, because the
    kernel ends the children with the thread that started them. What only a running cluster has
    raises RuntimeError before ``start`` and after ``end``.

    Args:
        plan: what to start.
        report: called with one line that the user should see.
    """

    def __init__(self, plan: ProcessPlan, report: Report) -> None:
        self.plan = plan
        self._report = report
        self._held = ExitStack()
        self._parts: _Parts | None = None
        self._numbers = list(range(plan.schedulers))

    @property
    def addresses(self) -> Addresses:
        """Addresses of its parts."""
        return self._running.addresses

    @property
    def settings(self) -> Settings:
        """Settings for programs that read it or call its schedulers."""
        return self.addresses.settings(self.plan)

    @property
    def schedulers(self) -> tuple[int, ...]:
        """The numbers in the names of the schedulers that it should run."""
        return tuple(self._numbers)

    def start(self) -> None:
        """Start everything; blocks until ZooKeeper and Redis answer. The rest follows by itself.

        Raises:
            ClusterError: a cluster runs in the folder already, a program is missing, a server does
                not start, or commands cannot be told of it; nothing is left running then.
        """
        with ExitStack() as held:
            held.enter_context(claimed(self.plan.folder))
            prepare_databases(database_files(self.plan).values())
            parts = self._start_parts(held)
            held.callback(withdraw, self.plan.folder)
            self._announce(parts)
            self._parts, self._held = parts, held.pop_all()
        self._want(parts)

    def tick(self) -> None:
        """Supervise every process and its log; call it several times a second.

        Blocks only while it starts a server that died.

        Raises:
            ClusterError: a process cannot run with these settings, or a server does not start.
        """
        for server in self._running.servers:
            if not server.running:
                self._report(f"{server.name} ended unexpectedly and is started again")
                server.start()
        self._running.supervisor.tick(monotonic())
        for log in self.plan.logs.glob("*.log"):
            cut(log)

    def scale(self, schedulers: int) -> None:
        """Run this many schedulers from now on; does not block. The highest numbers go first."""
        kept = self._numbers[:schedulers]
        first = max(self._numbers, default=-1) + 1
        self._run(kept + list(range(first, first + schedulers - len(kept))))

    def replace(self, number: int) -> int:
        """Replace a scheduler by one with a new name; return its number. Does not block."""
        newest = max(self._numbers) + 1
        self._run([n for n in self._numbers if n != number] + [newest])
        return newest

    def pid(self, number: int) -> int | None:
        """Return the process id of a scheduler; None if it does not run just now."""
        return self.component_pid(scheduler_command(self.plan, self.addresses, number).name)

    def component_pid(self, name: str) -> int | None:
        """Return the process id of what has a log of this name; None if it does not run."""
        return self._running.supervisor.pid(name)

    def end(self, hurried: Callable[[], bool] = lambda: False) -> None:
        """End everything in order; blocks until nothing is left. Safe to call at any time.

        Schedulers go first, so that they can hand over; ZooKeeper and Redis go last.

        Args:
            hurried: called repeatedly; once it returns True, the rest is killed.
        """
        if self._parts is not None:
            supervisor = self._parts.supervisor
            schedulers = [name for name in supervisor.names if name.startswith("scheduler-")]
            supervisor.end(schedulers, self._patience, hurried)
            supervisor.end_all(self._patience, hurried)
            self._parts = None
        self._held.close()

    @property
    def _patience(self) -> float:
        """Seconds until a process that was asked to end is killed."""
        return self.plan.settings.drain + DRAIN_MARGIN

    @property
    def _running(self) -> _Parts:
        if self._parts is None:
            raise RuntimeError("the cluster does not run")
        return self._parts

    def _start_parts(self, held: ExitStack) -> _Parts:
        made = None if self.plan.settings.secret else make_cluster_secret(self.plan.secret_file)
        zookeeper = _zookeeper(self.plan, held, self._report)
        redis = _redis(self.plan, held)
        check_login(redis.place)
        addresses = Addresses(
            zookeeper=with_root(zookeeper.place),
            message_queue=redis.place,
            webui_port=_webui_port(self.plan),
            renderer_ports=tuple(
                _lasting(self.plan.folder / f"renderer-{n}.port")
                for n in range(self.plan.renderers)
            ),
            secret_file=str(made or ""),
            zookeeper_password_file=zookeeper.password_file,
            redis_password_file=redis.password_file,
            **database_urls(self.plan),
        )
        servers = tuple(each.server for each in (zookeeper, redis) if each.server)
        supervisor = Supervisor(self.plan.logs, self._patience, self._report)
        return _Parts(addresses, servers, supervisor)

    def _run(self, numbers: list[int]) -> None:
        """Run the schedulers with these numbers, whether or not that can be announced."""
        parts, self._numbers = self._running, numbers
        self._want(parts)
        try:
            self._announce(parts)
        except ConfigError as error:
            self._report(f"{error}; commands read the former one")

    def _want(self, parts: _Parts) -> None:
        """Pass the wanted processes to the supervisor."""
        schedulers = [scheduler_command(self.plan, parts.addresses, n) for n in self._numbers]
        components = component_commands(self.plan, parts.addresses)
        parts.supervisor.want([*schedulers, *components], monotonic())

    def _announce(self, parts: _Parts) -> None:
        """Tell other commands where the cluster is."""
        announce(self.plan.folder, _note(parts.addresses, len(self._numbers)))


def with_root(zookeeper: str) -> str:
    """Return the addresses with the usual root, unless they name another."""
    return zookeeper if "/" in zookeeper else zookeeper + Settings.root


def _webui_port(plan: ProcessPlan) -> int:
    """Return pyspider's usual port if it is free, or else the previous one."""
    if plan.webui_port is not None:
        return plan.webui_port
    if is_free(USUAL_WEBUI_PORT):
        return USUAL_WEBUI_PORT
    return _lasting(plan.folder / "webui.port")


def _lasting(note: Path) -> int:
    """Return the port of the previous time, or another one for the next."""
    port = preferred_port(note)
    remember_port(note, port)
    return port


def _note(addresses: Addresses, schedulers: int) -> Running:
    common = {each.name: getattr(addresses, each.name) for each in fields(CommonAddresses)}
    return Running(pid=os.getpid(), webui=addresses.webui, schedulers=schedulers, **common)


def _zookeeper(plan: ProcessPlan, held: ExitStack, report: Report) -> _Service:
    """Return the ZooKeeper of a plan: the one that it names, or our own, closed to others.

    Blocks until it answers; ``held`` ends it.

    Raises:
        ClusterError: a program is missing or does not start.
        ConfigError: a password from an earlier run is unusable.
        Refused: our ZooKeeper belongs to another login.
    """
    if plan.zookeeper is not None:
        return _Service(plan.zookeeper)
    folder = plan.folder / "zookeeper"
    has_login = bool(plan.settings.username)
    file = "" if has_login else str(make_cluster_secret(plan.password_file(folder.name)))
    server = ZooKeeperServer(folder, log=plan.logs / "zookeeper.log")
    empty = server.unused
    held.enter_context(server)
    closed = _close(server, plan, file, empty=empty)
    if closed:
        report(f"{closed} znodes of before are closed to other users of this machine")
    return _Service(server.address, file, server)


def _close(server: Server, plan: ProcessPlan, password_file: str, *, empty: bool) -> int:
    settings = replace(plan.settings, hosts=server.address, root=Settings.root)
    try:
        return close_server(with_login(settings, password_file), empty=empty)
    except Refused as error:
        login = f"put its password into {password_file}" if password_file else "give its login"
        raise Refused(f"{error}; {login}, or delete {server.folder} to begin anew") from error


def _redis(plan: ProcessPlan, held: ExitStack) -> _Service:
    """Return the message queue of a plan, as `_zookeeper` does."""
    if plan.message_queue is not None:
        return _Service(plan.message_queue)
    folder = plan.folder / "redis"
    file = make_cluster_secret(plan.password_file(folder.name))
    password = read_cluster_secret(file)
    server = RedisServer(folder, log=plan.logs / "redis.log", password=password)
    held.enter_context(server)
    return _Service(server.url, str(file), server)
