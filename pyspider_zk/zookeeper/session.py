"""A connection's session: its id, until when it surely lives, and its heartbeat."""

import logging
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from kazoo.client import KazooState
from kazoo.exceptions import SessionExpiredError

from pyspider_zk.zookeeper.errors import is_answer
from pyspider_zk.zookeeper.wire import Wire

TICK = 2.0  # seconds; a server ends sessions up to a tick late, 2 s by default


@dataclass(frozen=True)
class Times:
    """Lengths of time within a session, in seconds since the last answered request was sent.

    The server received that request when it was sent or later, so it cannot end the session before
    ``granted`` seconds have passed since.

    Attributes:
        granted: how long the server keeps a session without requests.
    """

    granted: float

    @property
    def tick(self) -> float:
        """How often to check the clock."""
        return self.granted / 20

    @property
    def beat(self) -> float:
        """When to send a request just to get a reply."""
        return self.granted / 6

    @property
    def connecting(self) -> float:
        """How long one server may take to accept a session, while that is at stake."""
        return max(1.0, self.granted / 6)

    @property
    def severing(self) -> float:
        """When the link must be considered dead, so that another server is tried."""
        return self.granted * 2 / 3

    @property
    def life(self) -> float:
        """When the session is over for us; the rest is for differing clocks and slow threads."""
        return self.granted * 0.9

    @property
    def end(self) -> float:
        """When the server has ended it, if it received nothing since."""
        return self.granted + TICK


logger = logging.getLogger(__name__)

DOUBLINGS = 10  # of the servers' time to answer, at most: an outage has any number of tries


class Change(StrEnum):
    """Change of a connection's state.

    SUSPENDED: ZooKeeper does not answer; the session may live on. BACK: it answers again. LOST:
    the session ended, or ZooKeeper was unavailable for so long that it must be considered ended;
    what it held belongs to nobody now.
    """

    SUSPENDED = "suspended"
    BACK = "back"
    LOST = "lost"


class Session:
    """Session that ends here before it can end at the server.

    kazoo's own view does not count: it takes everything that is sent for a sign of life. What
    counts is when the last answered request was sent. If that is too long ago, the connection is
    closed, so that kazoo tries the next server with the same session. If it is longer ago still,
    the session is given up for good: its id is never shown again, and kazoo is made to begin
    another one.

    Threads: any; nothing blocks.

    Args:
        requested: seconds of session to request; what counts is what the server grants.
        clock: seconds on a clock that never jumps and counts suspension.
        resumes: never give up, but go on in the same session for as long as the server lets us,
            however long nobody answered. Only for those that hold nothing by the session alone.

    Attributes:
        changes: what happened, in order; read by one thread.
    """

    def __init__(
        self,
        requested: float,
        clock: Callable[[], float],
        *,
        resumes: bool = False,
    ) -> None:
        self._requested = requested
        self._clock = clock
        self._resumes = resumes
        self._lock = threading.Lock()
        self._id: int | None = None
        self._answered = float("-inf")
        self._given_up = False
        self._has_warned = False
        self._turn, self._servers = requested, 1
        self._silent = 0  # tries since a server answered
        self._wire: Wire | None = None
        self.times = Times(requested)
        self.changes: queue.SimpleQueue[Change | None] = queue.SimpleQueue()

    @property
    def id(self) -> int | None:
        """The session's id, None before the first and after its end."""
        with self._lock:
            self._give_up_if_due()
            return self._id

    @property
    def unanswered(self) -> float:
        """Seconds since the last answered request was sent."""
        return self._clock() - self._answered

    def now(self) -> float:
        """Return the time, to be read before a request is sent."""
        return self._clock()

    def answered(self, sent: float) -> None:
        """Record that a request was answered that was sent at that time."""
        with self._lock:
            self._give_up_if_due()
            self._answered = max(self._answered, sent)

    def look(self) -> None:
        """Close a silent connection; give up a session that may have ended."""
        with self._lock:
            self._give_up_if_due()
            wire = self._wire
            if wire is not None and not wire.closed and self._clock() > self._end_of(wire):
                logger.info("no server answers on this link: another one is tried")
                self._silent += wire.granted is None
                self._sever()

    def share(self, patience: float, servers: int) -> None:
        """Divide the patience of whoever waits for a session among the servers; before any try."""
        self._turn, self._servers = patience / servers, servers

    def connect(self, within: Callable[[float], Any]) -> Wire:
        """Connect for kazoo, on its thread.

        Raises:
            SessionExpiredError: the session was given up, so kazoo must begin another one.
        """
        self._refuse_if_given_up()
        began, patience = self._clock(), self._patience()
        try:
            link = within(patience)
        except OSError:
            self._silent += self._clock() - began >= patience
            raise
        wire = Wire(link, began, patience)
        with self._lock:
            self._wire = wire
            if self._given_up:
                self._sever()
        return wire

    def on_state(self, state: object, session: int | None) -> None:
        """Record kazoo's state; on its thread, before it sends anything in a new session."""
        if state == KazooState.CONNECTED:
            self._on_connected(session)
        elif state == KazooState.LOST:
            with self._lock:
                self._id, self._given_up = None, False
            self.changes.put(Change.LOST)
        else:
            self.changes.put(Change.SUSPENDED)

    def _on_connected(self, session: int | None) -> None:
        with self._lock:
            self._give_up_if_due()
            wire = self._wire
            if self._given_up or wire is None:  # the connection is closed: kazoo is about to notice
                return
            if session != self._id:
                self._answered = wire.began
            self._id, self._answered, self._silent = session, max(self._answered, wire.began), 0
            self.times = Times(wire.granted or self._requested)
        self._warn()
        self.changes.put(Change.BACK)

    def _warn(self) -> None:
        """Log once that the server grants another session time than was requested."""
        if self.times.granted != self._requested and not self._has_warned:
            self._has_warned = True
            logger.warning(
                "a session of %g s was requested, ZooKeeper grants %g s and that counts: set"
                " session to it, or change minSessionTimeout or maxSessionTimeout of the server",
                self._requested,
                self.times.granted,
            )

    def _give_up_if_due(self) -> None:
        if self._id is None or self._resumes:
            return
        if self._clock() - self._answered >= self.times.life:
            logger.warning("nobody answered for %g s: the session is given up", self.times.life)
            self._id, self._given_up = None, True
            self._sever()
            self.changes.put(Change.LOST)

    def _refuse_if_given_up(self) -> None:
        with self._lock:
            self._give_up_if_due()
            if self._given_up:
                raise SessionExpiredError

    def _patience(self) -> float:
        """Return how long a server may take to answer.

        Any of them may be dark, so each has its turn before the session ends or, without one,
        before whoever waits gives up. A turn doubles after as many silent tries as there are
        servers: all may be slow. A server that refuses takes no time.
        """
        turn = self._turn if self._id is None else self.times.connecting
        rounds = min(self._silent // self._servers, DOUBLINGS)
        return min(self._requested, turn * 2.0**rounds)

    def _end_of(self, wire: Wire) -> float:
        """Return when a link is considered dead."""
        if wire.granted is None:
            return wire.began + wire.patience
        return max(self._answered, wire.began) + self.times.severing

    def _sever(self) -> None:
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.sever()


OnChange = Callable[[Change], object]
"""Called on the heartbeat's thread; must not block, so it should only post."""


class SessionHeartbeat:
    """Thread that sends a request if no other was answered, checks the clock, and notifies.

    Threads: a daemon thread of its own, from ``start`` to ``stop``; methods may be called from any.

    Args:
        ask: sends a cheap request and returns kazoo's future of the reply; None without a
            connection. Must not block.
    """

    def __init__(self, session: Session, ask: Callable[[], Any | None]) -> None:
        self._session = session
        self._ask = ask
        self._sent: tuple[float, Any] | None = None
        self._announced = Change.BACK
        self._listeners: tuple[OnChange, ...] = ()
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="session", daemon=True)

    def start(self) -> None:
        """Start, before the connection does."""
        self._thread.start()

    def mute(self) -> None:
        """Stop notifying; a silent connection is still closed."""
        with self._lock:
            self._listeners = ()

    def stop(self) -> None:
        """End. Safe to call twice."""
        self._stopping.set()
        self._session.changes.put(None)
        if self._thread.is_alive():
            self._thread.join()

    def add(self, listener: OnChange) -> None:
        """Add a listener."""
        with self._lock:
            self._listeners = (*self._listeners, listener)

    def remove(self, listener: OnChange) -> None:
        """Remove a listener, if it is there."""
        with self._lock:
            self._listeners = tuple(one for one in self._listeners if one != listener)

    # No ``Loop``: each turn takes one change, in order, and what wakes it is the queue itself. The
    # session, which puts them under its lock, would have to know whom to wake besides.
    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                change = self._session.changes.get(timeout=self._session.times.tick)
            except queue.Empty:
                change = None
            try:
                self._session.look()
                self._beat()
                self._announce(change)
            except Exception:
                logger.exception("the heartbeat failed; it goes on")

    def _beat(self) -> None:
        """Record the reply to the last request; send another if no other was answered."""
        if self._sent is not None:
            sent, answer = self._sent
            if not answer.ready():
                return
            self._sent = None
            if answer.successful() or is_answer(answer.exception):
                self._session.answered(sent)
        if self._session.unanswered >= self._session.times.beat:
            now, answer = self._session.now(), self._ask()
            self._sent = None if answer is None else (now, answer)

    def _announce(self, change: Change | None) -> None:
        """Notify the listeners of a change; after LOST only of BACK."""
        if change in (None, self._announced):
            return
        if self._announced is Change.LOST and change is Change.SUSPENDED:
            return
        self._announced = Change(change)
        for listener in self._listeners:
            try:
                listener(self._announced)
            except Exception:
                logger.exception("a listener failed on %s", change)
