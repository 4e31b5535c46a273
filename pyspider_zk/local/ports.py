"""Loopback ports: free ones, and the previous one of a folder's server."""

import errno
import random
import socket
from pathlib import Path

LOOPBACK = "127.0.0.1"

LASTING = range(26_000, 32_768)
"""Ports above pyspider's own and below those that Linux gives to outgoing connections.

One of the latter may be gone before a server listens on it, or when the server comes back to it.
"""

PROBES = 100


def is_free(port: int) -> bool:
    """Return whether a server could listen on the loopback port just now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError as error:
            if error.errno in (errno.EADDRINUSE, errno.EACCES):
                return False
            raise
    return True


def any_free() -> int:
    """Return a loopback port that is free just now; another process may take it first."""
    for port in random.sample(LASTING, PROBES):
        if is_free(port):
            return port
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def preferred(note: Path) -> int:
    """Return the remembered port, if it is free, or else any free one."""
    text = note.read_text(encoding="ascii").strip() if note.exists() else ""
    port = int(text) if text.isdecimal() else 0
    return port if 0 < port < 65536 and is_free(port) else any_free()


def remember(note: Path, port: int) -> None:
    """Store the port for the next start."""
    note.write_text(f"{port}\n", encoding="ascii")
