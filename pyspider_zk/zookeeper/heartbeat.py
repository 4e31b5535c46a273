"""Heartbeat of a session, and whom it tells."""

import logging
import queue
import threading
from collections.abc import Callable
from typing import Any

from pyspider_zk.zookeeper.session import Change, Session

logger = logging.getLogger(__name__)

OnChange = Callable[[Change], object]
"""Called on the pulse's thread, which must not be kept waiting: only to post."""


class Pulse:
    """Thread that asks something if nothing else was answered, looks at the clock, and tells.

    Threads: a daemon thread of its own, from ``start`` to ``stop``; methods may be called from any.

    Args:
        ask: sends a cheap request and returns kazoo's promise of the answer; None if there is no
            connection. Must not block.
    """

    def __init__(self, session: Session, ask: Callable[[], Any | None]) -> None:
        self._session = session
        self._ask = ask
        self._asked: tuple[float, Any] | None = None
        self._told = Change.BACK
        self._listeners: tuple[OnChange, ...] = ()
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="session", daemon=True)

    def start(self) -> None:
        """Begin, before the connection does."""
        self._thread.start()

    def mute(self) -> None:
        """Tell nobody any more; a silent link is still severed."""
        with self._lock:
            self._listeners = ()

    def stop(self) -> None:
        """End. Safe to call twice."""
        self._stopping.set()
        self._session.changes.put(None)
        if self._thread.is_alive():
            self._thread.join()

    def add(self, listener: OnChange) -> None:
        """Tell this listener too."""
        with self._lock:
            self._listeners = (*self._listeners, listener)

    def remove(self, listener: OnChange) -> None:
        """Tell this listener no more; no fault if it was not told before."""
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
                self._tell(change)
            except Exception:
                logger.exception("the heartbeat failed; it goes on")

    def _beat(self) -> None:
        """Note the answer to what was asked last; ask again if nothing else was answered."""
        if self._asked is not None:
            sent, answer = self._asked
            if not answer.ready():
                return
            self._asked = None
            if answer.successful():
                self._session.answered(sent)
        if self._session.unanswered >= self._session.times.beat:
            now, answer = self._session.now(), self._ask()
            self._asked = None if answer is None else (now, answer)

    def _tell(self, change: Change | None) -> None:
        """Tell all, unless they know: what is lost is only ever told to be back."""
        if change in (None, self._told):
            return
        if self._told is Change.LOST and change is Change.SUSPENDED:
            return
        self._told = Change(change)
        for listener in self._listeners:
            try:
                listener(self._told)
            except Exception:
                logger.exception("a listener failed on %s", change)
