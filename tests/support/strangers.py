"""What strangers send to a port, over real sockets."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress

LOOPBACK = "127.0.0.1"


@contextmanager
def connected(
    port: int, sent: bytes, count: int = 1, source: str = LOOPBACK
) -> Iterator[list[socket.socket]]:
    """Open connections from an address that each have sent the same, as far as it is taken."""
    links: list[socket.socket] = []
    try:
        for _ in range(count):
            links.append(socket.create_connection((LOOPBACK, port), 60, (source, 0)))
            with suppress(ConnectionError):
                links[-1].sendall(sent)
        yield links
    finally:
        for each in links:
            each.close()


def is_cut_off(link: socket.socket, drop: bytes = b"x", drops: int = 3000) -> bool:
    """Send drop after drop; return whether the server hung up meanwhile without an answer."""
    link.settimeout(0.02)
    for _ in range(drops):
        try:
            link.sendall(drop)
            return link.recv(1000) == b""
        except TimeoutError:
            continue
        except ConnectionError:
            return True
    return False


def told(link: socket.socket) -> bytes:
    """Return what the server says until it hangs up."""
    said = b""
    with suppress(ConnectionError):
        while some := link.recv(65536):
            said += some
    return said
