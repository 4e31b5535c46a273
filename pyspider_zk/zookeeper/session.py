"""Telling what happens to a session: suspended, back, lost."""

import logging
import queue
import threading
from collections.abc import Callable
from enum import StrEnum

from kazoo.client import KazooState

from pyspider_zk.errors import SessionLost, Unavailable
from pyspider_zk.zookeeper.clock import boottime
from pyspider_zk.zookeeper.connection import Connection

logger = logging.getLogger("pyspider_zk.session")

RETRY_PAUSE = 0.2  # seconds


class Change(StrEnum):
    """What happened to the connection.

    SUSPENDED: ZooKeeper does not answer; the session may live on. BACK: it answers again. LOST:
    the session ended, or ZooKeeper was away for so long that it must be taken for ended; what it
    held belongs to nobody now.
    """

    SUSPENDED = "suspended"
    BACK = "back"
    LOST = "lost"


Listener = Callable[[Change], object]


def is_alive(connection: Connection, session: int | None) -> bool:
    """Tell whether that session is the present one and known to be connected."""
    return connection.connected and connection.session == session


class SessionWatch:
    """Tells listeners what happens to a connection's session, and clears up behind it.

    ZooKeeper tells the end of a session only to those that reach it. kazoo finds out within two
    thirds of the session timeout that nobody answers, so a session is taken for lost after one
    third more: before the server can give what it held to others.

    Threads: a daemon thread of its own calls the listeners one after the other. They may block
    and may talk to ZooKeeper; what they raise is logged. All methods may be called from any
    thread but kazoo's own; ``stop`` not from a listener.

    Args:
        timeout: seconds of session that were asked for; the server must not have given less.
    """

    def __init__(
        self, connection: Connection, timeout: float, clock: Callable[[], float] = boottime
    ) -> None:
        self._connection = connection
        self._patience = timeout / 3
        self._clock = clock
        self._states: queue.SimpleQueue[object] = queue.SimpleQueue()
        self._listeners: list[Listener] = []
        self._chores: list[Callable[[], None]] = []
        self._lock = threading.Lock()
        self._suspended_at: float | None = None
        self._told = Change.BACK
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="session-watch", daemon=True)

    def start(self) -> None:
        """Begin to watch a connection that is started."""
        self._connection.on_change(self._post)
        self._thread.start()

    def stop(self) -> None:
        """Tell nothing any more. To be called before the connection is stopped."""
        self._connection.forget(self._post)
        self._stopping.set()
        self._states.put(None)
        if self._thread.is_alive():
            self._thread.join()

    def add(self, listener: Listener) -> None:
        """Tell this listener too."""
        with self._lock:
            self._listeners.append(listener)

    def remove(self, listener: Listener) -> None:
        """Tell this listener no more."""
        with self._lock:
            self._listeners.remove(listener)

    def clear_up(self, chore: Callable[[], None]) -> None:
        """Do something that ZooKeeper does not let us do now; try until it does.

        Args:
            chore: raises ``Unavailable`` if it must be tried again; may be done twice.
        """
        with self._lock:
            self._chores.append(chore)
        self._states.put(None)

    def _post(self, state: object) -> None:
        self._states.put(state)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._note(self._states.get(timeout=self._pause()))
            except queue.Empty:
                self._look_at_the_clock()
            self._do_chores()

    def _pause(self) -> float | None:
        if self._chores:
            return RETRY_PAUSE
        if self._suspended_at is not None:
            return max(0.0, self._suspended_at + self._patience - self._clock())
        return None

    def _note(self, state: object) -> None:
        if state == KazooState.SUSPENDED:
            self._suspended_at = self._clock()
            self._tell(Change.SUSPENDED)
        elif state == KazooState.LOST:
            self._suspended_at = None
            self._tell(Change.LOST)
        elif state == KazooState.CONNECTED:
            self._suspended_at = None
            self._tell(Change.BACK)

    def _look_at_the_clock(self) -> None:
        began = self._suspended_at
        if began is not None and self._clock() - began >= self._patience:
            self._suspended_at = None
            self._tell(Change.LOST)

    def _tell(self, change: Change) -> None:
        if change is self._told:
            return  # taken for lost before it was known to be
        self._told = change
        with self._lock:
            listeners = list(self._listeners)
        for listener in listeners:
            try:
                listener(change)
            except Exception:
                logger.exception("a listener failed on %s", change)

    def _do_chores(self) -> None:
        """Do what is left to do; what fails again stays."""
        while self._chores and self._connection.connected:
            try:
                self._chores[0]()
            except (Unavailable, SessionLost) as error:
                logger.debug("clearing up waits: %s", error)
                return
            with self._lock:
                self._chores.pop(0)
