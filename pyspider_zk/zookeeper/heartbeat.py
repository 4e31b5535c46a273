"""Heartbeat of a session, and its listeners."""

import logging
import queue
import threading
from collections.abc import Callable
from typing import Any

from pyspider_zk.zookeeper.errors import is_answer
from pyspider_zk.zookeeper.session import Change, Session

logger = logging.getLogger(__name__)

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
