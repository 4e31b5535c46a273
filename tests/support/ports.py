"""Ports of a test's own."""

import socket

LOOPBACK = "127.0.0.1"

OWN = range(11_000, 20_000)
"""Below pyspider's own, those that ``pyspider_zk.local`` takes, and those that Linux gives away.

Above 10080, which browsers refuse.
"""

_held: list[socket.socket] = []


def own_port() -> int:
    """Return a loopback port that no other process is given here while this one runs.

    It is bound, and nobody listens on it: connections are refused until a server does, in this
    process or another. The server must set ``SO_REUSEADDR``, as servers do.
    So a server that a test stops finds it free when it is started again.
    """
    return next(port for port in OWN if _hold(port))


def _hold(port: int) -> bool:
    holder = socket.socket()
    try:
        holder.bind((LOOPBACK, port))
    except OSError:
        holder.close()
        return False
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # not before: it would share
    _held.append(holder)
    return True
