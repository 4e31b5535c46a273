"""One connection to ZooKeeper: bounded calls, and the session they belong to."""

import functools
import logging
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from kazoo.client import KazooClient, TransactionRequest
from kazoo.exceptions import (
    ConnectionLoss,
    KazooException,
    NodeExistsError,
    NoNodeError,
    NotReadOnlyCallError,
    QuotaExceededError,
    RolledBackError,
    RuntimeInconsistency,
    SessionExpiredError,
    ThrottledOpError,
)
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.security import ACL

from pyspider_zk.config import Settings
from pyspider_zk.errors import ClusterError, OverQuota, Refused, SessionLost, Unavailable
from pyspider_zk.outage import Outage
from pyspider_zk.zookeeper.access import EVERYBODY, REFUSALS, Admission, login, tells_no_secret
from pyspider_zk.zookeeper.errors import AWAY, OUTDATED, is_answer, take_unknown_errors
from pyspider_zk.zookeeper.session import OnChange, Session, SessionHeartbeat, Times
from pyspider_zk.zookeeper.steps import Check, Create, Delete, Step, Write
from pyspider_zk.zookeeper.unreadable import Unreadable
from pyspider_zk.zookeeper.waiting import Waiter, boottime
from pyspider_zk.zookeeper.wire import handler

MOST_KEPT = 100  # requests without a connection; what was under way may have left as many bytes
SHORTEST_START = 10.0  # seconds for the first answer, where nobody names others

Watch = Callable[[object], None]
"""Called with kazoo's event, on kazoo's thread: only to post. Pass the same callable each time:
kazoo keeps every new one until the watch fires."""

_FOLLOWS_ANOTHER_FAULT = (RolledBackError, RuntimeInconsistency)
_REMEDIES = {
    QuotaExceededError: "raise the quota (setquota), or delete what is not needed",
    ThrottledOpError: "it is overloaded",
    NotReadOnlyCallError: "it is read-only until it has found a quorum",
}

logger = logging.getLogger(__name__)
_kazoo_logger = logging.getLogger("pyspider_zk.kazoo")


class Details(NamedTuple):
    """A znode's data and origin.

    Attributes:
        created: the number of the transaction that created it; no other znode has it.
        ephemeral: whether it ends with a session.
    """

    data: bytes
    created: int
    ephemeral: bool


Ask = tuple[str, Watch | None]
"""A path to look at, and what to call when what is there changes."""


class Look(NamedTuple):
    """What was requested at once: data and versions, and names below parents."""

    data: list[tuple[bytes, int] | None]
    names: list[list[str]]


class _Client(KazooClient):  # type: ignore[misc]  # kazoo has no types
    """kazoo's client, which keeps only so much for later while there is no connection.

    Its thread is woken by a byte for each request, and reads them only while it is connected: the
    socket is full after some hundreds, and whoever sends the next would wait for ZooKeeper.
    """

    def _call(self, request: Any, async_object: Any) -> bool | None:
        if not self.connected and len(self._queue) >= MOST_KEPT:
            async_object.set_exception(ConnectionLoss())
            return False
        taken: bool | None = super()._call(request, async_object)
        return taken


class Connection:
    """A ZooKeeper client whose calls never wait longer than ``timeout`` seconds.

    kazoo queues calls while it is disconnected, so every call here is sent asynchronously and
    waited for with a limit. All calls raise ``Unavailable`` if no answer comes or ZooKeeper cannot
    do now what is asked, ``Refused`` if we are not let in, and ``SessionLost`` if the session
    ended; the fate of a write is unknown after ``Unavailable``.
    Only ``OUTDATED`` (``NoNodeError``, ``BadVersionError`` ...) come through as kazoo's own
    exceptions, for this package's other modules.

    It notes when each request was sent that was answered. On that rests how long the session
    surely lives, and the trying of another server when one is silent; see ``Session``.

    Threads: all methods may be called from any thread but kazoo's own, that is not from a watch.
    Not to be carried over a fork.

    With a login every znode that is created, parents included, belongs to it: see `access`.

    Args:
        timeout: seconds that a call waits for its answer.
        clock: seconds on a clock that never jumps and counts suspension.
        resumes: go on in the same session however long ZooKeeper was unavailable, if it lets us;
            only for those that hold nothing by the session alone.

    Attributes:
        unreadable: znodes that readers of this connection skipped.
    """

    def __init__(
        self,
        settings: Settings,
        timeout: float = 3.0,
        clock: Callable[[], float] = boottime,
        *,
        resumes: bool = False,
    ) -> None:
        take_unknown_errors()
        self._settings = settings
        self._timeout = timeout
        self._session = Session(settings.session, clock, resumes=resumes)
        self._heartbeat = SessionHeartbeat(self._session, self._beat)
        self.unreadable = Unreadable()
        self._admission = Admission(settings)
        self._client = _Client(
            hosts=settings.hosts,
            timeout=settings.session,
            handler=handler(self._session.connect, self._admission.secure),
            # Back-off grows without end by default: an hour's outage would cost another hour.
            connection_retry={"max_tries": -1, "max_delay": 1.0, "ignore_expire": False},
            command_retry={"max_tries": 0, "ignore_expire": False},
            logger=_quieted(_kazoo_logger),
            **login(settings),
        )
        # kazoo ends its thread on what it does not expect, as where a name cannot be looked up for
        # want of descriptors; nobody would start it again. Its connection has a copy of the retry.
        kazoo = self._client._connection
        kazoo.retry_sleeper.retry_exceptions += (Exception,)
        self._admission.guard(self._client)
        self._client.add_listener(self._on_state)

    def start(self, patience: float | None = None) -> None:
        """Connect; wait up to ``patience`` seconds, and some more for the first answer.

        Each address may take its share of that time, which is ten seconds if none is named, or the
        session if that is longer: who allows for slow servers does so from the beginning.

        Raises:
            Unavailable: nothing answers at the addresses, or this machine cannot even ask.
            Refused: it answers, but not to our login, or its certificate is not the right one.
            ConfigError: a file that TLS needs cannot be used.
        """
        patience = max(SHORTEST_START, self._settings.session) if patience is None else patience
        self._admission.load()
        kazoo, share = self._client._connection, functools.partial(self._session.share, patience)
        kazoo._expand_client_hosts = _told(kazoo._expand_client_hosts, share)
        try:
            self._heartbeat.start()
            self._client.start(timeout=patience)
        except (OSError, RuntimeError) as error:  # there is no descriptor, or no thread
            self.stop()
            raise Unavailable(f"ZooKeeper cannot be asked by this machine now: {error}") from error
        except (KazooTimeoutError, KazooException) as error:
            self.stop()
            raise self._admission.refused() or Unavailable(
                f"no ZooKeeper answers at {self._settings.hosts} within {patience:g} s: start it,"
                " or name another address with --zookeeper"
            ) from error
        self._ask_to_enter(patience if self._settings.username else 0.0)

    def _ask_to_enter(self, patience: float) -> None:
        """Find out whether we are let in: a wrong login is noticed by what it may not read.

        Raises:
            Refused: we are not.
            Unavailable: we have a login, and it was not answered in time.
        """
        refusals: list[Unavailable] = []

        def is_known() -> bool:
            try:
                self.find(self._settings.root)
            except Refused as refused:
                refusals.append(refused)
            except SessionLost:
                refusals.extend(filter(None, [self._admission.refused()]))
                return bool(refusals)
            return True

        if not Waiter(self._session.now).until(is_known, patience) and patience:
            refusals.append(self._admission.unanswered(patience))
        if refusals:
            self.stop()
            raise refusals[0]
        self._warn_if_open()

    def _warn_if_open(self) -> None:
        """Say that the login protects nothing as long as the root was made without one."""
        try:
            is_open = self._settings.username and self.is_open(self._settings.root)
        except (Unavailable, SessionLost):
            return  # the next call tells
        if is_open:
            logger.warning(
                "everybody may change what is below %s: `pyspider-zk protect` makes it the login's",
                self._settings.root,
            )

    def stop(self) -> None:
        """End the session; ephemeral nodes go with it. Safe to call twice.

        Blocks up to the session timeout if ZooKeeper is silent.
        """
        self._heartbeat.mute()
        with suppress(AttributeError):  # it could not even make the sockets that it stops by
            self._client.stop()
        self._client.close()
        self._heartbeat.stop()

    @property
    def session(self) -> int | None:
        """The id of the session, None before the first and after its end.

        It stays while the connection is suspended, for as long as the session surely lives. An id
        that is gone never comes back. Once another session has begun, no call is answered in it
        before its id stands here.
        """
        return self._session.id

    @property
    def times(self) -> Times:
        """How long a session lasts, as the server granted it."""
        return self._session.times

    @property
    def connected(self) -> bool:
        """Whether the client believes itself connected; a dead link may hide for a while."""
        return bool(self._client.connected) and self._session.id is not None

    def require(self) -> None:
        """Make sure of the connection, as far as known, before anything is sent.

        What is sent without one would be kept by kazoo and done much later.

        Raises:
            Unavailable: it is down.
        """
        if not self.connected:
            raise self._admission.refused() or Unavailable(
                f"ZooKeeper at {self._settings.hosts} is not connected"
            )

    def on_change(self, callback: OnChange) -> None:
        """Call back when the session is suspended, back or lost; the callback must not block."""
        self._heartbeat.add(callback)

    def forget(self, callback: OnChange) -> None:
        """Call back no more on changes of the session."""
        self._heartbeat.remove(callback)

    def get(self, path: str, watch: Watch | None = None) -> tuple[bytes, int]:
        """Return a znode's data and version."""
        data, stat = self._do(self._client.get_async, path, watch=watch)
        return data, stat.version

    def find(self, path: str, watch: Watch | None = None) -> tuple[bytes, int] | None:
        """Return a znode's data and version, None if it does not exist."""
        try:
            return self.get(path, watch)
        except NoNodeError:
            return None

    def find_all(self, paths: Sequence[str]) -> list[tuple[bytes, int] | None]:
        """Return data and version of many znodes at once; None for those missing."""
        return self.look([(path, None) for path in paths]).data

    def details(self, paths: Sequence[str]) -> list[Details | None]:
        """Return data and origin of many znodes, all requested at once; None for those missing."""
        sent = self._session.now()
        found = self._found([self._client.get_async(path) for path in paths], sent, paths)
        return [
            Details(each[0], each[1].czxid, bool(each[1].ephemeralOwner)) if each else None
            for each in found
        ]

    def children(self, path: str, watch: Watch | None = None) -> list[str]:
        """Return the names below a znode; none if it does not exist."""
        try:
            names: list[str] = self._do(self._client.get_children_async, path, watch=watch)
        except NoNodeError:
            return []
        return names

    def look(self, znodes: Sequence[Ask], parents: Sequence[Ask] = ()) -> Look:
        """Return data of znodes and names below parents, all requested at once.

        So it costs one round trip. They are read in this order, the znodes first. None stands for
        data that do not exist; below a parent that does not exist there is nothing.
        """
        sent = self._session.now()
        data = [self._client.get_async(path, watch=watch) for path, watch in znodes]
        names = [self._client.get_children_async(path, watch=watch) for path, watch in parents]
        found = self._found(data, sent, [path for path, _ in znodes])
        below = self._found(names, sent, [path for path, _ in parents])
        return Look(
            [(each[0], each[1].version) if each else None for each in found],
            [each or [] for each in below],
        )

    def _found(self, answers: Iterable[Any], sent: float, paths: Iterable[str]) -> list[Any]:
        """Wait for what was asked of many znodes; None for those that do not exist."""
        found: list[Any] = []
        for answer, path in zip(answers, paths, strict=True):
            try:
                found.append(self._wait(answer, sent, path))
            except NoNodeError:
                found.append(None)
        return found

    def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequence: bool = False
    ) -> str:
        """Create a znode and its parents; return its path."""
        options = {"ephemeral": ephemeral, "sequence": sequence, "makepath": True}
        created: str = self._do(self._client.create_async, path, data, **options)
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
        stat = self._do(self._client.set_async, path, data, version=version)
        return int(stat.version)

    def delete(self, path: str, version: int = -1) -> None:
        """Delete a znode if it has that version (-1: any); no fault if it does not exist."""
        try:
            self._do(self._client.delete_async, path, version)
        except NoNodeError:
            return

    def is_open(self, path: str) -> bool:
        """Return whether a znode allows anything to everybody; not if it does not exist."""
        return bool(self.granted_to_all([path])[0])

    def granted_to_all(self, paths: Sequence[str]) -> list[int]:
        """Return the permissions that everybody has on many znodes, all requested at once.

        They are kazoo's bits; 0 if a znode does not exist.
        """
        sent = self._session.now()
        found = self._found([self._client.get_acls_async(path) for path in paths], sent, paths)
        return [_granted(each[0]) if each else 0 for each in found]

    def dates(self, path: str) -> tuple[float, float] | None:
        """Return when a znode was created and last written; None if it does not exist.

        Seconds since the epoch, on the clock of ZooKeeper's leader.
        """
        stat = self._do(self._client.exists_async, path)
        return None if stat is None else (stat.ctime / 1000, stat.mtime / 1000)

    def protect(self, path: str) -> bool:
        """Make a znode the login's; return whether it exists. Needs a login."""
        try:
            self._do(self._client.set_acls_async, path, self._client.default_acl)
        except NoNodeError:
            return False
        return True

    def sync(self, path: str) -> None:
        """Let the server that we are connected to catch up with the leader."""
        self._do(self._client.sync_async, path)

    def multi(self, *steps: Step) -> list[Any]:
        """Do all steps or none; return their results.

        kazoo returns the exceptions of a rolled-back transaction as if they were results; here
        the one that caused it is raised.
        """
        sent = self._session.now()
        return self._results(self._transaction(steps).commit_async(), sent, steps)

    def multi_all(self, transactions: Sequence[Sequence[Step]]) -> list[Exception | None]:
        """Do many transactions, each for itself and in this order; return which is ``OUTDATED``.

        All are requested at once, so they cost one round trip. If ``Unavailable`` is raised, any of
        them may have been done or not.
        """
        sent = self._session.now()
        answers = [self._transaction(steps).commit_async() for steps in transactions]
        return [
            self._refusal(answer, sent, steps)
            for answer, steps in zip(answers, transactions, strict=True)
        ]

    def _refusal(self, answer: Any, sent: float, steps: Sequence[Step]) -> Exception | None:
        try:
            self._results(answer, sent, steps)
        except OUTDATED as error:
            refusal: Exception = error
            return refusal
        return None

    def _transaction(self, steps: Sequence[Step]) -> TransactionRequest:
        transaction = self._client.transaction()
        for step in steps:
            _add(transaction, step)
        return transaction

    def _results(self, answer: Any, sent: float, steps: Sequence[Step]) -> list[Any]:
        """Return the results of a transaction, or raise what it failed with."""
        paths = [step.path for step in steps]
        results: list[Any] = self._wait(answer, sent, next(iter(paths), self._settings.root))
        pairs = zip(results, paths, strict=False)
        faults = [each for each in pairs if isinstance(each[0], Exception)]
        causes = [each for each in faults if not isinstance(each[0], _FOLLOWS_ANOTHER_FAULT)]
        for fault, path in causes or faults:
            if isinstance(fault, OUTDATED):
                raise fault
            raise self._meaning(fault, path) from fault
        return results

    def _on_state(self, state: object) -> None:
        """Note the session; on kazoo's thread, before it sends anything in a new session."""
        known = self._client.client_id
        self._session.on_state(state, known[0] if known else None)

    def _beat(self) -> Any | None:
        """Ask for something cheap, if there is a connection; do not wait for the answer."""
        return self._client.exists_async("/") if self.connected else None

    def _do(self, request: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Send a request, about the znode that is its first argument, and wait for its answer."""
        sent = self._session.now()
        path = args[0] if args else self._settings.root
        return self._wait(request(*args, **options), sent, path)

    def _wait(self, answer: Any, sent: float, path: str) -> Any:
        """Wait for the answer to what was sent at that time or later; a refusal is an answer."""
        try:
            result = answer.get(timeout=self._timeout)
        except (KazooException, KazooTimeoutError) as error:
            if is_answer(error):
                self._session.answered(sent)
            if isinstance(error, OUTDATED):
                raise
            raise self._meaning(error, path) from error
        self._session.answered(sent)
        return result

    def _meaning(self, error: Exception, path: str) -> ClusterError:
        """Return what an error means, but for ``OUTDATED``, to who asked something of a znode."""
        name, hosts = type(error).__name__, self._settings.hosts
        if isinstance(error, SessionExpiredError):
            return SessionLost("the ZooKeeper session expired")
        if isinstance(error, REFUSALS):
            return self._admission.denied(path, error)
        if isinstance(error, AWAY):
            unanswered = f"ZooKeeper at {hosts} does not answer ({name})"
            return self._admission.refused() or Unavailable(unanswered)
        kind = OverQuota if isinstance(error, QuotaExceededError) else Unavailable
        remedy = _REMEDIES.get(type(error), "it is tried again")
        return kind(f"ZooKeeper at {hosts} cannot do now what {path} needs ({name}): {remedy}")


@contextmanager
def connected(settings: Settings, patience: float | None = None) -> Iterator[Connection]:
    """Give a connection that ends with the block; raises what its ``start`` does."""
    connection = Connection(settings)
    connection.start(patience)
    try:
        yield connection
    finally:
        connection.stop()


def _granted(acls: Iterable[ACL]) -> int:
    """Return what everybody is granted, in kazoo's bits."""
    return functools.reduce(operator.or_, (each.perms for each in acls if each.id == EVERYBODY), 0)


def _add(transaction: TransactionRequest, step: Step) -> None:
    match step:
        case Check(path, version):
            transaction.check(path, version)
        case Create(path, data, sequence, ephemeral):
            transaction.create(path, data, ephemeral=ephemeral, sequence=sequence)
        case Write(path, data, version):
            transaction.set_data(path, data, version)
        case Delete(path, version):
            transaction.delete(path, version)


def _told(look_up: Callable[[], Sized], share: Callable[[int], None]) -> Callable[[], Sized]:
    """Return how to look up the addresses, with a line when that begins to fail: kazoo has none.

    Args:
        share: told how many there are; one name may have several.
    """
    begins = "the addresses of ZooKeeper cannot be looked up: %r"
    outage = Outage(logger, begins, "the addresses of ZooKeeper can be looked up again")

    def look_up_and_tell() -> Sized:
        try:
            found = look_up()
        except Exception as error:
            outage.failed(error)
            raise
        if found:
            outage.answered()
            share(len(found))
        else:  # kazoo passes over names without an address
            outage.failed(OSError("none of the names has an address"))
        return found

    return look_up_and_tell


def _quieted(kazoo: logging.Logger) -> logging.Logger:
    """Return the logger; kazoo repeats itself every second while ZooKeeper is unavailable."""
    kazoo.addFilter(tells_no_secret)
    if kazoo.level == logging.NOTSET:
        kazoo.setLevel(logging.ERROR)
    return kazoo
