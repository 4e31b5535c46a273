"""Peers of a member's XML-RPC server: those whose calls arrive, and those that were refused."""

import logging
import socket
import threading
import time
from contextlib import suppress

logger = logging.getLogger(__name__)

READ_LIMIT = 30.0  # seconds that a call may take to arrive
HOLD_UP = 1.0  # seconds before a wrong secret is answered
HELD_UP_AT_ONCE = 16  # threads that may wait for that
PEERS_REPORTED = 1000  # peers and reasons that are remembered


class ReceivingCalls:
    """Calls that are being received, and since when. Threads: any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._since: dict[socket.socket, float] = {}

    def began(self, connection: socket.socket) -> None:
        """Record that a call is being received."""
        with self._lock:
            self._since[connection] = time.monotonic()

    def ended(self, connection: socket.socket) -> None:
        """Record that it has arrived or was aborted."""
        with self._lock:
            self._since.pop(connection, None)

    def disconnect(self) -> None:
        """Disconnect those that take too long: single bytes reset every other time-out."""
        late = time.monotonic() - READ_LIMIT
        with self._lock:
            overdue = [connection for connection, since in self._since.items() if since < late]
            for connection in overdue:
                del self._since[connection]
                with suppress(OSError):  # below TLS, which its own thread uses
                    socket.socket.shutdown(connection, socket.SHUT_RDWR)


class Peers:
    """Refused peers: logged once, and delayed. Threads: any."""

    def __init__(self, stopped: threading.Event) -> None:
        self._stopped = stopped
        self._lock = threading.Lock()
        self._reported: set[tuple[str, str]] = set()
        self._held_up = threading.BoundedSemaphore(HELD_UP_AT_ONCE)

    def note(self, peer: str, why: str) -> None:
        """Log that a call was refused, once for each peer and reason."""
        with self._lock:
            if (peer, why) in self._reported:
                return
            if len(self._reported) >= PEERS_REPORTED:
                self._reported.clear()
            self._reported.add((peer, why))
        logger.warning("calls from %s are refused: %s (said once)", peer, why)

    def hold_up(self) -> None:
        """Delay the response to a wrong secret: together they get a few responses per second.

        A correct secret is answered at once, also from the same address: otherwise a stranger on
        loopback could lock out everybody.
        """
        if self._held_up.acquire(timeout=READ_LIMIT):
            try:
                self._stopped.wait(HOLD_UP)
            finally:
                self._held_up.release()
