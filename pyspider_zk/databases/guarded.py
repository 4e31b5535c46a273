"""pyspider's databases behind a circuit breaker.

An error may be the fault of the database, because it is unavailable, or of the request: a row, a
message, a project. pyspider does not distinguish them, and each client library has errors of its
own; a text that is too long may raise the same error as a lost connection. So after a doubtful
error the database is probed with a read and a write that touches no row: if both succeed, it is
available.
"""

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from threading import RLock, get_ident
from typing import Any, TypeVar, cast

from pyspider_zk.databases.breaker import Breaker
from pyspider_zk.databases.sqlite import transaction
from pyspider_zk.errors import ClusterError, DatabaseAway

T = TypeVar("T")

PATIENCE = 1.0
"""Seconds that a statement waits for an sqlite file that another process has locked, at most."""

PROBE_PATIENCE = 0.2
"""The same, for a database that is believed to be unavailable."""

NOBODY = "pyspider_zk_nobody"
"""The name of a project that does not exist."""

PURE = ("split_group", "verify_project_name")
"""Methods that do not access the database."""

CERTAIN = (
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_PROTOCOL,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_PERM,
)
"""sqlite's error codes for faults of the file, never of the request."""

SERVERS_CERTAIN = (
    "55P03",  # PostgreSQL: the lock was not free in time
    "40P01",  # a deadlock
    "40001",  # another transaction came first
    "53100",  # the disk is full
    "53200",  # there is no memory left
    "53300",  # there are too many connections
    "58030",  # the disk cannot be read or written
    1205,  # MariaDB and MySQL: the lock was not free in time
    1206,  # there is no room for more locks
    1213,  # a deadlock
    1021,  # the disk is full
    1026,  # a file cannot be written
    1114,  # there is no room for more rows
)
"""Servers' error codes for what others hold and what is used up, never for the request.

A probe would not see it.
"""

BLAMELESS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    NotImplementedError,
    RecursionError,
    TypeError,
    ValueError,
)
"""Python's errors for a faulty request."""

BLAMELESS_NAMES = {"IntegrityError", "DataError", "ProgrammingError", "NotSupportedError"}
"""Error classes of the database API for a faulty request, in any library."""


class Guarded:
    """One of pyspider's databases, behind a circuit breaker.

    While the breaker is open every call raises ``DatabaseAway`` at once; when its pause is over the
    call probes first, and closes it if neither the probe nor the call itself finds an outage.
    Errors that are not a sign of an outage are raised unchanged, also those raised while rows are
    being read.

    Threads and blocking: as the database itself, except for the locks of sqlite files.

    Args:
        database: any of pyspider's.
        breaker: shared by all connections to this database.
        patience: how many seconds a statement may wait for an sqlite file.
        lock: held during each call.
    """

    def __init__(
        self,
        database: Any,
        breaker: Breaker,
        patience: Callable[[], float] = lambda: PATIENCE,
        lock: AbstractContextManager[Any] | None = None,
    ) -> None:
        self._inner = database
        self._breaker = breaker
        self._patience = patience
        self._lock: AbstractContextManager[Any] = lock or nullcontext()
        self._together: int | None = None  # the thread whose statements take effect together

    def __getattr__(self, name: str) -> Any:
        if isinstance(getattr(type(self._inner), name, None), property):
            return self.ask(partial(getattr, self._inner, name))
        found = getattr(self._inner, name)
        return partial(self._call, found) if callable(found) and name not in PURE else found

    @property
    def unguarded(self) -> Any:
        """The database itself."""
        return self._inner

    @property
    def is_away(self) -> bool:
        """Whether the database did not answer when it was asked last."""
        return self._breaker.is_open

    def copy(self) -> "Guarded":
        """Return a new connection; for a database without ``copy``, this one, locked."""
        try:
            inner = self.ask(self._inner.copy)
        except (AttributeError, NotImplementedError):
            if isinstance(self._lock, nullcontext):
                self._lock = RLock()
            return Guarded(self._inner, self._breaker, self._patience, self._lock)
        return Guarded(inner, self._breaker)

    def together(self, work: Callable[[], T], before_commit: Callable[[], None]) -> T:
        """Return the result of work whose statements take effect together, or not at all.

        Only an sqlite file can do so with pyspider's own methods. In any other database, each
        statement takes effect by itself.

        Args:
            work: uses this database by this object.
            before_commit: called last, with everything written and nothing visible; what it raises
                undoes everything. Without a transaction it is called first.

        Raises:
            DatabaseAway: it is unavailable; everything was undone, unless the commit got through.
        """
        if self._together == get_ident() or not hasattr(self._inner, "dbcur"):
            before_commit()
            return work()
        return cast(T, self.ask(partial(self._in_transaction, work, before_commit)))

    def _in_transaction(self, work: Callable[[], T], before_commit: Callable[[], None]) -> T:
        """Errors are judged when the transaction is over: a probe needs the lock of the file."""
        self._together = get_ident()
        try:
            with transaction(self._inner):
                result = work()
                before_commit()
        finally:
            self._together = None
        return result

    def _call(self, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        result = self.ask(partial(method, *args, **kwargs))
        return self._each(result) if hasattr(result, "__next__") else result

    def _each(self, rows: Iterator[Any]) -> Iterator[Any]:
        end = object()
        while (row := self.ask(partial(next, rows, end))) is not end:
            yield row

    def ask(self, question: Callable[[], Any]) -> Any:
        """Return the result of a call that uses the database.

        Raises:
            DatabaseAway: it is unavailable.
        """
        if self._together == get_ident():
            return question()
        with self._lock:
            if not self._breaker.is_open:
                return self._asked(question)
            self._admit()
            try:
                answer = self._asked(question)
            except DatabaseAway:
                raise
            except Exception:
                self._breaker.answered()
                raise
            self._breaker.answered()
            return answer

    def _asked(self, question: Callable[[], Any]) -> Any:
        self._set_patience(self._patience())
        try:
            return question()
        except ClusterError:
            raise
        except Exception as error:
            self._judge(error)
            raise

    def _admit(self) -> None:
        """Probe an unavailable database, if its pause is over."""
        if self._breaker.left > 0:
            raise DatabaseAway(f"{self._breaker.name} is away")
        error = self._probed()
        if error is not None:
            self._away(error)

    def _judge(self, error: Exception) -> None:
        """Raise ``DatabaseAway`` if the database is at fault."""
        if is_certain(error):
            self._away(error)
        if _is_doubtful(error) and self._probed() is not None:
            self._away(error)

    def _away(self, error: Exception) -> None:
        self._breaker.failed(error)
        raise DatabaseAway(f"{self._breaker.name} is away: {error!r}") from error

    def _probed(self) -> Exception | None:
        """Return the error of a probe of the database, None if it succeeds."""
        self._set_patience(min(PROBE_PATIENCE, self._patience()))
        try:
            probe(self._inner)
        except Exception as error:
            if is_certain(error) or _is_doubtful(error):
                return error
        return None

    def _set_patience(self, seconds: float) -> None:
        if hasattr(self._inner, "patience"):
            self._inner.patience = seconds


def guarded(database: Any, name: str, clock: Callable[[], float] = time.monotonic) -> Guarded:
    """Return a database behind a breaker of its own, unless it has one."""
    return database if isinstance(database, Guarded) else Guarded(database, Breaker(name, clock))


def probe(database: Any) -> None:
    """Read from a database, and write without changing anything; raises its errors."""
    if hasattr(database, "reconnect"):
        database.reconnect()
        database._execute("BEGIN IMMEDIATE")  # there is no table yet to write to
        database._execute("ROLLBACK")
    if hasattr(database, "_list_project"):
        database._list_project()
        _write_nothing(database, next(iter(database.projects), None))
    elif hasattr(database, "check_update"):
        database.get(NOBODY, fields=["name"])
        database.update(NOBODY, {"comments": ""})
    elif hasattr(database, "get_task"):
        database.get_task(NOBODY, NOBODY, fields=["taskid"])
    else:
        database.get(NOBODY, NOBODY, fields=["taskid"])


def _write_nothing(database: Any, project: str | None) -> None:
    if project is None:
        return
    if hasattr(database, "write_nothing"):
        database.write_nothing(project)
    elif hasattr(database, "_delete"):
        database._delete(database._tablename(project), where="1=0")


def is_certain(error: Exception) -> bool:
    """Return whether an error is unambiguous; sqlite's extended codes have it in the low byte."""
    code = getattr(error, "sqlite_errorcode", None)
    return (isinstance(code, int) and code & 0xFF in CERTAIN) or any(
        code in SERVERS_CERTAIN for cause in _causes(error) for code in _server_codes(cause)
    )


def _causes(error: object) -> Iterator[BaseException]:
    """Yield an error, and those that it wraps."""
    while isinstance(error, BaseException):
        yield error
        error = getattr(error, "orig", None) or error.__cause__


def _server_codes(error: BaseException) -> Iterator[Any]:
    """Yield where drivers of servers have the code of an error; other errors have none."""
    if "DatabaseError" in {kind.__name__ for kind in type(error).__mro__}:
        yield from (getattr(error, name, None) for name in ("sqlstate", "pgcode", "errno"))
        yield from error.args[:1]


def _is_doubtful(error: Exception) -> bool:
    if isinstance(error, BLAMELESS):
        return False
    names = {kind.__name__ for kind in type(error).__mro__}
    return not names & BLAMELESS_NAMES
