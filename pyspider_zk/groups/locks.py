"""Fair locks in ZooKeeper, exclusive and shared, whose holder learns that it lost them."""

import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from enum import StrEnum
from functools import partial
from types import TracebackType
from typing import NamedTuple, Self

from pyspider_zk.errors import BadMessage, ClusterError, SessionLost, TimedOut, Unavailable
from pyspider_zk.zookeeper.connection import Connection
from pyspider_zk.zookeeper.ephemeral import Tenure, begin
from pyspider_zk.zookeeper.errors import NodeExistsError, NoNodeError
from pyspider_zk.zookeeper.session import Change
from pyspider_zk.zookeeper.steps import Check, Create
from pyspider_zk.zookeeper.waiting import Errands, Waiter

_NUMBERS = 2**32  # ZooKeeper's sequence is a signed 32-bit number, which overflows to negative


class LockKind(StrEnum):
    """Kind of lock that an entry requests."""

    EXCLUSIVE = "exclusive"
    SHARED = "shared"


class LockEntry(NamedTuple):
    """A place in the queue; ``str`` gives the name of its znode.

    Attributes:
        guid: identifies it for its owner if the reply to its creation was lost.
        sequence: from ZooKeeper.
    """

    kind: LockKind
    guid: str
    sequence: int

    def __str__(self) -> str:
        return f"{prefix_of(self.kind, self.guid)}{self.sequence:010d}"

    @classmethod
    def parse(cls, name: str) -> Self:
        """Read a znode's name; the number may be negative.

        Raises:
            BadMessage: it is not an entry's name.
        """
        with suppress(ValueError):
            kind, guid, sequence = name.split("-", 2)
            entry = cls(LockKind(kind), guid, int(sequence))
            if str(entry) == name:
                return entry
        raise BadMessage("it is no place in line")


def prefix_of(kind: LockKind, guid: str) -> str:
    """Return the name of an entry without the number that ZooKeeper appends."""
    return f"{kind}-{guid}-"


def admission_of(entries: Iterable[LockEntry], guid: str) -> LockEntry | None:
    """Return the entry with that GUID, if it is there."""
    return next((entry for entry in entries if entry.guid == guid), None)


def line_of(entries: Sequence[LockEntry]) -> list[LockEntry]:
    """Return the entries in order of arrival.

    Numbers that overflowed come after those that did not: the entries of a queue are never two
    thousand million numbers apart.
    """
    if not entries:
        return []
    pivot = entries[0].sequence - _NUMBERS // 2
    return sorted(entries, key=lambda entry: (entry.sequence - pivot) % _NUMBERS)


def entry_before(entries: Sequence[LockEntry], mine: LockEntry) -> LockEntry | None:
    """Return the one entry to wait for, None if the lock is held.

    An exclusive entry waits for the one just before it. A shared one waits for the last exclusive
    one before it, so readers do not wait for readers, and no reader overtakes a writer.
    """
    line = line_of(entries)
    before = line[: line.index(mine)]
    if mine.kind is LockKind.SHARED:
        before = [entry for entry in before if entry.kind is LockKind.EXCLUSIVE]
    return before[-1] if before else None


class Lock:
    """A lock, or a place in its queue, to be used with ``with``.

    A waiter watches only the one before it, so a release wakes one waiting writer, or the
    readers before the next writer. Nobody overtakes anybody, readers do not overtake writers.

    It is not reentrant: acquiring an object that is in use raises ``ClusterError``, and a second
    object of the same lock waits for the first, in one thread as between machines. Once released
    an object may be used again.

    A lock in ZooKeeper cannot stop a holder that was paused or cut off: its session ends, the
    next one gets the lock, and the former holder may still be running. So ``lost`` is set as soon
    as the session is known to have ended or must be considered ended, leaving the ``with`` block
    raises then, and ``check`` asks ZooKeeper itself, to be called before actions that
    two must not do.

    Threads: an object belongs to the thread that uses it; ``lost`` may be read from any.

    Args:
        path: the lock's znode.
        timeout: seconds that ``acquire`` waits; None for as long as it takes.
        guard: a znode of this session that every step checks; the path's parent must exist then.
            Without a guard the path is created as needed, and stays.
        on_lost: called once if the lock is lost while held, on the thread of the errands.
    """

    def __init__(
        self,
        connection: Connection,
        errands: Errands,
        path: str,
        kind: LockKind = LockKind.EXCLUSIVE,
        *,
        timeout: float | None = None,
        guard: str | None = None,
        on_lost: Callable[[], object] | None = None,
    ) -> None:
        self._connection = connection
        self._errands = errands
        self._path = path
        self._kind = kind
        self._timeout = timeout
        self._guard = [Check(guard)] if guard else []
        self._on_lost = on_lost
        self._waiting = Waiter()
        self._in_use = threading.Lock()
        self._held = False
        self._tenure: Tenure | None = None
        self._entry: LockEntry | None = None
        self._has_asked = False
        self.lost = threading.Event()

    def __repr__(self) -> str:
        return f"<{self._kind} lock {self._path}>"

    @property
    def held(self) -> bool:
        """Whether the lock is held, as far as known locally; ``check`` verifies it."""
        return self._held and not self.lost.is_set() and not self._is_over()

    def acquire(self) -> None:
        """Wait for the lock; blocks. If it raises, the place in the queue is given up.

        Raises:
            TimedOut: not within the time.
            SessionLost: the session ended meanwhile, or must be considered ended.
            ClusterError: this object is in use.
        """
        if not self._in_use.acquire(blocking=False):
            raise ClusterError(f"{self!r} is in use and not reentrant; make another one")
        self._begin()
        try:
            if not self._waiting.until(self._is_my_turn, self._timeout):
                raise TimedOut(f"{self!r} was not free within {self._timeout:g} s")
            self._held = True
            self._refuse_if_lost()
        except BaseException:
            self._end()
            raise

    def release(self) -> None:
        """Release the lock. Blocks for some seconds at most.

        If ZooKeeper does not answer, it is released as soon as it does, or with the end of the
        session.

        Raises:
            ClusterError: it is not held.
        """
        if not self._held:
            raise ClusterError(f"{self!r} is not held")
        self._end()

    def check(self) -> None:
        """Verify with a quorum of ZooKeeper's servers that the lock is held now.

        Raises:
            SessionLost: it is not held, or no longer.
            Unavailable: ZooKeeper does not answer.
        """
        if not self.held or self._entry is None:
            raise SessionLost(f"{self!r} is not held")
        self._connection.require()
        try:
            self._connection.multi(Check(f"{self._path}/{self._entry}"))
        except NoNodeError as error:
            self._lose()
            raise SessionLost(f"{self!r} was lost: its znode is gone") from error

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        held = self.held
        self.release()
        if not held and error is None:
            raise SessionLost(f"{self!r} was lost while it was held")

    def _is_over(self) -> bool:
        return self._tenure is not None and self._tenure.lost

    def _refuse_if_lost(self) -> None:
        if self._is_over():
            self.lost.set()
        if self.lost.is_set():
            raise SessionLost(f"the session ended while waiting for {self!r}")

    def _begin(self) -> None:
        self.lost.clear()
        self._tenure, self._entry = None, None
        self._has_asked = False
        self._connection.on_change(self._on_change)

    def _end(self) -> None:
        self._held = False
        self._connection.forget(self._on_change)
        try:
            if self._tenure is not None:
                self._give_place_up(self._tenure.id)
        finally:
            self._in_use.release()

    def _give_place_up(self, guid: str) -> None:
        leave = partial(self._leave, guid, self._entry is not None)
        try:
            leave()
        except (Unavailable, SessionLost):
            self._errands.do_until_done(leave)

    def _is_my_turn(self) -> bool:
        """Return whether nobody is before me; otherwise watch only the last one."""
        self._refuse_if_lost()
        self._connection.require()
        tenure = self._tenure = self._tenure or begin(self._connection)
        while True:
            line = self._line(tenure.id)
            before = entry_before(line, self._mine(line, tenure))
            if before is None:
                return True
            if self._connection.find(f"{self._path}/{before}", self._waiting.wake) is not None:
                return False

    def _line(self, guid: str) -> list[LockEntry]:
        """Return all entries of the queue, with mine.

        A request whose reply was lost may have created mine; it is found by its GUID, once the
        server that we reach now has seen it.
        """
        if self._entry is None and self._has_asked:
            self._connection.sync(self._path)
        line = self._read()
        if self._entry is None and admission_of(line, guid) is None:
            self._has_asked = True
            self._stand(guid)
            line = self._read()
        return line

    def _read(self) -> list[LockEntry]:
        """Return all entries of the queue; other znodes are ignored."""
        names = self._connection.children(self._path)
        return list(self._connection.unreadable.parsed(self._path, names, LockEntry.parse).values())

    def _mine(self, line: list[LockEntry], tenure: Tenure) -> LockEntry:
        self._refuse_if_lost()
        self._entry = admission_of(line, tenure.id)
        if self._entry is None:
            raise SessionLost(f"the place in line for {self!r} is gone")
        return self._entry

    def _stand(self, guid: str) -> None:
        path = f"{self._path}/{prefix_of(self._kind, guid)}"
        step = Create(path, b"", ephemeral=True, sequence=True)
        while True:
            try:
                self._connection.multi(*self._guard, step)
                return
            except NoNodeError:
                self._make_path()

    def _make_path(self) -> None:
        if not self._guard:
            self._connection.ensure([self._path])
            return
        try:
            self._connection.multi(*self._guard, Create(self._path, b""))
        except NodeExistsError:
            return
        except NoNodeError as error:
            raise SessionLost(f"{self!r}: the session that it belongs to ended") from error

    def _leave(self, guid: str, was_seen: bool) -> None:
        self._connection.require()
        if not was_seen:  # the server may not have seen it
            self._connection.sync(self._path)
        for entry in self._read():
            if entry.guid == guid:
                self._connection.delete(f"{self._path}/{entry}")

    def _on_change(self, change: Change) -> None:
        if change is Change.LOST and self._is_over():
            self._lose()
        self._waiting.wake()

    def _lose(self) -> None:
        if not self.lost.is_set():
            self.lost.set()
            if self._held and self._on_lost is not None:
                self._errands.do(self._on_lost)
