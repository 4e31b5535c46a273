"""The ZooKeeper and the Redis of a cluster: external ones, or our own, closed to others."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from pyspider_zk.config import Settings
from pyspider_zk.errors import Refused
from pyspider_zk.local.logins import with_login
from pyspider_zk.local.plan import ProcessPlan
from pyspider_zk.local.services import RedisServer, Server, ZooKeeperServer
from pyspider_zk.secret_files import make_cluster_secret, read_cluster_secret
from pyspider_zk.zookeeper.protection import close_server


@dataclass(frozen=True)
class Services:
    """Addresses of ZooKeeper and the message queue, and the passwords of our own.

    Attributes:
        zookeeper: its addresses.
        message_queue: its URL.
        zookeeper_password_file: of the password created for ZooKeeper; empty: none.
        redis_password_file: of the password created for Redis; empty: none.
        servers: those that were started.
    """

    zookeeper: str = ""
    message_queue: str = field(default="", repr=False)
    zookeeper_password_file: str = ""
    redis_password_file: str = ""
    servers: tuple[Server, ...] = ()


def start_services(plan: ProcessPlan, held: ExitStack, report: Callable[[str], None]) -> Services:
    """Start the services without an address; blocks until they answer. ``held`` ends them.

    Raises:
        ClusterError: a program is missing or does not start.
        ConfigError: a password from an earlier run is unusable.
        Refused: our ZooKeeper belongs to another login.
    """
    found = Services(plan.zookeeper or "", plan.message_queue or "")
    if plan.zookeeper is None:
        found = _with_zookeeper(found, plan, held, report)
    if plan.message_queue is None:
        found = _with_redis(found, plan, held)
    return found


def _with_zookeeper(
    found: Services, plan: ProcessPlan, held: ExitStack, report: Callable[[str], None]
) -> Services:
    folder = plan.folder / "zookeeper"
    has_login = bool(plan.settings.username)
    file = "" if has_login else str(make_cluster_secret(plan.password_file(folder.name)))
    server = ZooKeeperServer(folder, log=plan.logs / "zookeeper.log")
    empty = server.unused
    held.enter_context(server)
    closed = _close(server, plan, file, empty=empty)
    if closed:
        report(f"{closed} znodes of before are closed to other users of this machine")
    return replace(
        found,
        zookeeper=server.address,
        zookeeper_password_file=file,
        servers=(*found.servers, server),
    )


def _close(server: Server, plan: ProcessPlan, password_file: str, *, empty: bool) -> int:
    settings = replace(plan.settings, hosts=server.address, root=Settings.root)
    try:
        return close_server(with_login(settings, password_file), empty=empty)
    except Refused as error:
        login = f"put its password into {password_file}" if password_file else "give its login"
        raise Refused(f"{error}; {login}, or delete {server.folder} to begin anew") from error


def _with_redis(found: Services, plan: ProcessPlan, held: ExitStack) -> Services:
    folder = plan.folder / "redis"
    file = make_cluster_secret(plan.password_file(folder.name))
    password = read_cluster_secret(file)
    server = RedisServer(folder, log=plan.logs / "redis.log", password=password)
    held.enter_context(server)
    return replace(
        found,
        message_queue=server.url,
        redis_password_file=str(file),
        servers=(*found.servers, server),
    )
