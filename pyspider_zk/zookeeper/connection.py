"""One connection to ZooKeeper: bounded calls, and the session they belong to."""

import logging
import socket
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import (
    ConnectionLoss,
    KazooException,
    NodeExistsError,
    NoNodeError,
    OperationTimeoutError,
    RolledBackError,
    RuntimeInconsistency,
    SessionExpiredError,
    SessionMovedError,
)
from kazoo.handlers.threading import KazooTimeoutError

from pyspider_zk.config import Settings
from pyspider_zk.errors import SessionLost, Unavailable

Watch = Callable[[object], None]
"""Called with kazoo's event, on kazoo's thread: only to post. Pass the same callable each time:
kazoo keeps every new one until the watch fires."""

_AWAY = (
    ConnectionLoss,
    KazooTimeoutError,
    OperationTimeoutError,
    SessionMovedError,
)
_FOLLOWS_ANOTHER_FAULT = (RolledBackError, RuntimeInconsistency)

_kazoo_logger = logging.getLogger("pyspider_zk.kazoo")


class Connection:
    """A ZooKeeper client whose calls never wait longer than ``timeout`` seconds.

    kazoo queues calls without limit while it is disconnected, so every call here is sent
    asynchronously and waited for with a limit. All calls raise ``Unavailable`` if no answer
    comes and ``SessionLost`` if the session ended; the fate of a write is unknown after
    ``Unavailable``. What ZooKeeper itself refuses (``NoNodeError``, ``BadVersionError`` ...)
    comes through as kazoo's own exceptions, for this package's other modules.

    Threads: all methods may be called from any thread but kazoo's own, that is not from a watch.
    Not to be carried over a fork.
    """

    def __init__(self, settings: Settings, timeout: float = 3.0) -> None:
        self._settings = settings
        self._timeout = timeout
        self._session: int | None = None
        self._client = KazooClient(
            hosts=settings.hosts,
            timeout=settings.session,
            # Back-off grows without end by default: an hour's outage would cost another hour.
            connection_retry={"max_tries": -1, "max_delay": 1.0, "ignore_expire": False},
            command_retry={"max_tries": 0, "ignore_expire": False},
            logger=_quiet_unless_asked(_kazoo_logger),
        )
        self._client.add_listener(self._on_state)

    def start(self, patience: float = 10.0) -> None:
        """Connect; wait up to ``patience`` seconds.

        Raises:
            Unavailable: nothing answers at the addresses.
        """
        try:
            self._client.start(timeout=patience)
        except (KazooTimeoutError, KazooException, OSError) as error:
            self.stop()
            raise Unavailable(
                f"no ZooKeeper answers at {self._settings.hosts} within {patience:g} s: start it,"
                " or name another address with --zookeeper"
            ) from error

    def stop(self) -> None:
        """End the session; ephemeral nodes go with it. Safe to call twice.

        Blocks up to the session timeout if ZooKeeper is silent.
        """
        self._client.stop()
        self._client.close()

    @property
    def session(self) -> int | None:
        """The id of the session, None before the first and after its end.

        It stays while the connection is suspended: the session may live on. Once another one
        has begun, no call is answered in it before its id stands here.
        """
        return self._session

    @property
    def connected(self) -> bool:
        """Whether the client believes itself connected; a dead link may hide for a while."""
        return bool(self._client.connected)

    def require(self) -> None:
        """Make sure of the connection, as far as known, before anything is sent.

        What is sent without one would be kept by kazoo and done much later.

        Raises:
            Unavailable: it is down.
        """
        if not self.connected:
            raise Unavailable(f"ZooKeeper at {self._settings.hosts} is not connected")

    def on_change(self, callback: Watch) -> None:
        """Call back on every change of the connection's state, on kazoo's thread."""
        self._client.add_listener(callback)

    def forget(self, callback: Watch) -> None:
        """Call back no more on changes of the connection's state."""
        self._client.remove_listener(callback)

    def get(self, path: str, watch: Watch | None = None) -> tuple[bytes, int]:
        """Return a znode's data and version."""
        data, stat = self._wait(self._client.get_async(path, watch=watch))
        return data, stat.version

    def find(self, path: str, watch: Watch | None = None) -> tuple[bytes, int] | None:
        """Return a znode's data and version, None if it does not exist."""
        try:
            return self.get(path, watch)
        except NoNodeError:
            return None

    def find_all(self, paths: Sequence[str]) -> list[tuple[bytes, int] | None]:
        """Return data and version of many znodes in one go; None for those missing."""
        answers = [self._client.get_async(path) for path in paths]
        found: list[tuple[bytes, int] | None] = []
        for answer in answers:
            try:
                data, stat = self._wait(answer)
                found.append((data, stat.version))
            except NoNodeError:
                found.append(None)
        return found

    def children(self, path: str, watch: Watch | None = None) -> list[str]:
        """Return the names below a znode; none if it does not exist."""
        try:
            names: list[str] = self._wait(self._client.get_children_async(path, watch=watch))
        except NoNodeError:
            return []
        return names

    def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequence: bool = False
    ) -> str:
        """Create a znode and its parents; return its path."""
        created: str = self._wait(
            self._client.create_async(
                path, data, ephemeral=ephemeral, sequence=sequence, makepath=True
            )
        )
        return created

    def ensure(self, paths: Iterable[str], data: bytes = b"") -> None:
        """Create the znodes that do not exist, with these data."""
        for path in paths:
            try:
                self.create(path, data)
            except NodeExistsError:
                continue

    def set(self, path: str, data: bytes, version: int = -1) -> int:
        """Write a znode's data if it has that version (-1: any); return the new version."""
        stat = self._wait(self._client.set_async(path, data, version=version))
        return int(stat.version)

    def delete(self, path: str, version: int = -1) -> None:
        """Delete a znode if it has that version (-1: any); no fault if it does not exist."""
        try:
            self._wait(self._client.delete_async(path, version))
        except NoNodeError:
            return

    def sync(self, path: str) -> None:
        """Let the server that we are connected to catch up with the leader."""
        self._wait(self._client.sync_async(path))

    def multi(self, *steps: "Step") -> list[Any]:
        """Do all steps or none; return their results.

        kazoo returns the exceptions of a rolled-back transaction as if they were results; here
        the one that caused it is raised.
        """
        transaction = self._client.transaction()
        for step in steps:
            step(transaction)
        results: list[Any] = self._wait(transaction.commit_async())
        faults = [result for result in results if isinstance(result, Exception)]
        causes = [fault for fault in faults if not isinstance(fault, _FOLLOWS_ANOTHER_FAULT)]
        for fault in causes or faults:
            raise fault
        return results

    def _on_state(self, state: object) -> None:
        """Note the session; on kazoo's thread, before it sends anything in a new session."""
        if state == KazooState.CONNECTED:
            self._session = self._client.client_id[0]
        elif state == KazooState.LOST:
            self._session = None

    def _wait(self, answer: Any) -> Any:
        try:
            return answer.get(timeout=self._timeout)
        except SessionExpiredError as error:
            raise SessionLost("the ZooKeeper session expired") from error
        except _AWAY as error:
            raise Unavailable(
                f"ZooKeeper at {self._settings.hosts} does not answer ({type(error).__name__})"
            ) from error


Step = Callable[[Any], None]


def check(path: str, version: int = -1) -> Step:
    """Step: the znode exists, with that version if one is given."""
    return lambda transaction: transaction.check(path, version)


def create(path: str, data: bytes, *, ephemeral: bool = False, sequence: bool = False) -> Step:
    """Step: create a znode; with ``sequence`` the next number is put behind its path."""
    return lambda transaction: transaction.create(
        path, data, ephemeral=ephemeral, sequence=sequence
    )


def write(path: str, data: bytes, version: int = -1) -> Step:
    """Step: write a znode that has that version (-1: any)."""
    return lambda transaction: transaction.set_data(path, data, version)


def delete(path: str, version: int = -1) -> Step:
    """Step: delete a znode that has that version (-1: any)."""
    return lambda transaction: transaction.delete(path, version)


def _quiet_unless_asked(logger: logging.Logger) -> logging.Logger:
    """Return the logger; kazoo repeats itself every second while ZooKeeper is away."""
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.ERROR)
    return logger


def local_address(hosts: str) -> str:
    """Return the address of this machine that reaches ZooKeeper.

    ``gethostbyname(hostname)`` often gives 127.0.1.1, which nobody else can reach. Connecting a
    datagram socket sends nothing; it only asks the routing table.

    Raises:
        Unavailable: the name is unknown or there is no route.
    """
    host, port = _first_host(hosts)
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)
        family, kind, protocol, _, address = found[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.connect(address)
            return str(probe.getsockname()[0])
    except OSError as error:
        raise Unavailable(f"there is no way to ZooKeeper at {hosts}: {error}") from error


def _first_host(hosts: str) -> tuple[str, int]:
    first = hosts.split(",")[0].strip()
    host, colon, port = first.rpartition(":")
    if not colon or host.endswith(":") or not port.isdigit():
        return first.strip("[]"), 2181
    return host.strip("[]"), int(port)
