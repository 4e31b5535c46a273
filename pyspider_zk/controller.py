"""A worker controller for any job that runs as several processes.

Numbers from zero, who joined and who runs, barriers, locks, and a name that only one run of the
job holds. ``docs/controller.md`` is the guide.
"""

import logging
import os
import socket
import time
from collections.abc import Callable
from functools import partial
from typing import Self

from pyspider_zk.config import Settings
from pyspider_zk.errors import Missing, NameTaken, SessionLost, TimedOut, Unavailable
from pyspider_zk.groups.barriers import Barrier, missing
from pyspider_zk.groups.group import Group, Participant, check_name
from pyspider_zk.groups.locks import Lock, LockKind
from pyspider_zk.zookeeper.connection import Connection
from pyspider_zk.zookeeper.session import Change
from pyspider_zk.zookeeper.waiting import Errands, Waiter

__all__ = [
    "Barrier",
    "Change",
    "Listener",
    "Lock",
    "Locks",
    "Missing",
    "NameTaken",
    "Participant",
    "SessionLost",
    "Settings",
    "TimedOut",
    "Unavailable",
    "WorkerController",
]

logger = logging.getLogger(__name__)

Listener = Callable[[Change], object]

LEAVING = 5.0  # seconds that leaving waits for ZooKeeper


class _Locking:
    """What gives locks by name; ``_place`` says where each stands, and by what it is guarded."""

    _connection: Connection
    _errands: Errands

    def lock(
        self,
        name: str,
        *,
        timeout: float | None = None,
        on_lost: Callable[[], object] | None = None,
    ) -> Lock:
        """Return a lock that one holds at a time, to be used with ``with``."""
        return self._lock(name, LockKind.EXCLUSIVE, timeout, on_lost)

    def shared_lock(
        self,
        name: str,
        *,
        timeout: float | None = None,
        on_lost: Callable[[], object] | None = None,
    ) -> Lock:
        """Return the same lock for those that may hold it together."""
        return self._lock(name, LockKind.SHARED, timeout, on_lost)

    def _lock(
        self,
        name: str,
        kind: LockKind,
        timeout: float | None,
        on_lost: Callable[[], object] | None,
    ) -> Lock:
        path, guard = self._place(name)
        link, errands = self._connection, self._errands
        return Lock(link, errands, path, kind, timeout=timeout, guard=guard, on_lost=on_lost)

    def _place(self, name: str) -> tuple[str, str | None]:
        raise NotImplementedError


class WorkerController(_Locking):
    """One process's place among those that do something together.

    ::

        with WorkerController(Settings(hosts="zk1:2181"), "import", run="monday") as me:
            me.wait_joined(4, timeout=60)
            print(me.number, me.running())

    Entering joins the group, leaving the block leaves it; whoever is the last to leave removes
    everything that the group had in ZooKeeper.

    Threads: ``join``, ``leave`` and the waiting methods belong to one thread; everything else may
    be called from any. All of it blocks for some seconds at most, apart from what has a limit as
    an argument, and raises ``Unavailable`` while ZooKeeper does not answer. Make it after a fork,
    never before: a connection cannot be carried over one.

    The names of its locks and barriers are the group's own.

    Args:
        settings: ``hosts``, ``root``, ``session``, and ZooKeeper's login and TLS count here.
        group: the name that only one run may hold at a time.
        name: by which this process gets its number back when it returns; no two may run under
            one name. Without a name it gets the lowest free number.
        run: the same for all processes of one run. Another run of the same group is refused
            while anybody of this one lives.
    """

    def __init__(self, settings: Settings, group: str, *, name: str = "", run: str = "") -> None:
        self._settings = settings
        self._name = name
        self._connection = Connection(settings)
        self._errands = Errands()
        self._group = Group(self._connection, settings.root, group, run)
        self._waiting = Waiter()
        self._connection.on_change(self._waiting.wake)

    def __enter__(self) -> Self:
        """Connect and join."""
        self._connection.start()
        self._errands.start()
        try:
            self.join()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.leave()
        finally:
            self._stop()

    def join(self, patience: float | None = None) -> int:
        """Join, or join again after the session was lost; return the number.

        Args:
            patience: how many seconds to wait for the sessions of the dead to end, which hold
                their names until then; by default as long as that takes.

        Raises:
            NameTaken: another run holds the group, or another process runs under this name.
            Unavailable: ZooKeeper did not answer in time.
        """
        if patience is None:
            patience = self._connection.times.end
        me = Participant(0, self._name, socket.gethostname(), os.getpid(), time.time())
        number = self._group.join(me, patience).number
        logger.info("joined as number %d", number)
        return number

    def leave(self) -> None:
        """Leave the group; the last one to leave removes its znodes. Safe to repeat.

        If ZooKeeper does not answer for some seconds, the end of the session does the leaving,
        and whoever takes the group's name next does the clearing up.
        """
        if not self._waiting.until(self._try_to_leave, LEAVING):
            logger.warning("left without telling: ZooKeeper does not answer")

    @property
    def number(self) -> int:
        """The number of this process.

        Raises:
            SessionLost: it belongs to somebody else by now, perhaps; join again.
        """
        return self._group.me.number

    def running(self) -> list[Participant]:
        """Return those that take part now, by number."""
        return self._group.running()

    def joined(self) -> list[Participant]:
        """Return all that ever took part in this run, those that left or died included.

        A name counts once however often it joins; those without a name count once per number.
        """
        return self._group.joined()

    def wait_joined(self, count: int, timeout: float) -> list[Participant]:
        """Wait until so many have joined, whether or not they still run; return them. Blocks.

        Raises:
            Missing: not within ``timeout`` seconds.
            SessionLost: the session ended meanwhile.
        """
        self._wait(lambda: len(self._group.joined(self._waiting.wake)) >= count, timeout)
        joined = self.joined()
        if len(joined) < count:
            never = f"{count - len(joined)} that never joined"
            raise Missing(f"{count} did not join within {timeout:g} s", [never])
        return joined

    def wait_running(self, count: int, timeout: float) -> list[Participant]:
        """Wait until so many take part at once; return them. Blocks.

        Raises:
            Missing: not within ``timeout`` seconds; it names those that joined and are gone.
            SessionLost: the session ended meanwhile.
        """
        self._wait(lambda: len(self._group.running(self._waiting.wake)) >= count, timeout)
        running = self.running()
        if len(running) < count:
            id_allocator = self._group.id_allocator
            present = id_allocator.running()
            absent = missing(count, present, id_allocator.holders(), present)
            raise Missing(f"{count} did not run at once within {timeout:g} s", absent)
        return running

    def wait_alone(self, timeout: float) -> None:
        """Wait until all others have left or died. Blocks.

        Raises:
            TimedOut: somebody still runs after ``timeout`` seconds; it says who.
            SessionLost: the session ended meanwhile.
        """
        if not self._wait(lambda: len(self._group.running(self._waiting.wake)) <= 1, timeout):
            others = [str(one) for one in self.running() if one.number != self.number]
            raise TimedOut(f"still running after {timeout:g} s: {'; '.join(others)}")

    def barrier(self, name: str, parties: int) -> Barrier:
        """Return a barrier for so many of this group."""
        group = self._group
        return Barrier(self._connection, group.home, group.id_allocator, group.me, name, parties)

    def listen(self, listener: Listener) -> None:
        """Call back when the connection is suspended, back, or the session is lost.

        Listeners are called one after the other on a thread of the controller's own. They may
        block and may use the controller; after ``Change.LOST`` the number, barriers and locks are
        gone, and ``join`` may be called once ``Change.BACK`` came.
        """
        self._connection.on_change(lambda change: self._errands.do(partial(listener, change)))

    def _place(self, name: str) -> tuple[str, str | None]:
        home = self._group.home
        return home.lock(name), home.member(self._group.me)

    def _wait(self, holds: Callable[[], bool], timeout: float) -> bool:
        def still_holds() -> bool:
            joined = bool(self._group.me)  # raises once the session is lost
            self._connection.require()
            return joined and holds()

        return self._waiting.until(still_holds, timeout)

    def _try_to_leave(self) -> bool:
        try:
            self._group.leave()
        except SessionLost:
            self._waiting.wake()  # another session begins; we may be the last to leave
            return False
        return True

    def _stop(self) -> None:
        self._errands.stop()
        self._connection.stop()


class Locks(_Locking):
    """Locks for programs that take no part in a group.

    Threads: any. Make it after a fork.

    Args:
        settings: as for `WorkerController`; the locks stand below
            ``<root>/locks``.
    """

    def __init__(self, settings: Settings) -> None:
        self._path = f"{settings.root}/locks"
        self._connection = Connection(settings)
        self._errands = Errands()

    def __enter__(self) -> Self:
        """Connect.

        Raises:
            Unavailable: no ZooKeeper at the addresses.
        """
        self._connection.start()
        self._errands.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._errands.stop()
        self._connection.stop()

    def _place(self, name: str) -> tuple[str, str | None]:
        return f"{self._path}/{check_name(name, 'lock')}", None
