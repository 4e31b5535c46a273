"""A scan of all TCP ports of an address, and the UDP ports as the kernel knows them."""

import errno
import select
import socket
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

ALL_PORTS = range(1, 65536)
AT_ONCE = 500
PATIENCE = 10_000  # milliseconds for an answer; whoever drops packets is counted as open


def open_ports(address: str, ports: Sequence[int] = ALL_PORTS) -> set[int]:
    """Return the ports that accept a connection, or that do not answer at all.

    Blocks some seconds for all ports of an address that is not filtered.
    """
    parts = (ports[at : at + AT_ONCE] for at in range(0, len(ports), AT_ONCE))
    return {port for part in parts for port in _open(address, part)}


def udp_ports(pid: int) -> set[int]:
    """Return the UDP ports that take packets from anybody, in the network of a process. Linux."""
    tables = (Path(f"/proc/{pid}/net/{name}") for name in ("udp", "udp6"))
    lines = (line.split() for table in tables for line in table.read_text().splitlines()[1:])
    return {_port(own) for _, own, peer, *_ in lines if _port(peer) == 0}


def _port(address: str) -> int:
    return int(address.rpartition(":")[2], 16)


def _open(address: str, ports: Iterable[int]) -> Iterator[int]:
    links = {port: _begun(address) for port in ports}
    try:
        pending = {}
        for port, link in links.items():
            code = link.connect_ex((address, port))
            if code == errno.EINPROGRESS:
                pending[link.fileno()] = port
            elif code == 0 and not _met_itself(link):
                yield port
            elif code not in (0, errno.ECONNREFUSED):
                raise OSError(code, f"{address}:{port}")
        yield from _settled(pending, links)
    finally:
        for link in links.values():
            link.close()


def _begun(address: str) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    link = socket.socket(family, socket.SOCK_STREAM)
    link.setblocking(False)
    return link


def _met_itself(link: socket.socket) -> bool:
    """Return if the kernel gave a link its target for its own port, so that nobody answered."""
    return link.getsockname() == link.getpeername()


def _settled(pending: dict[int, int], links: dict[int, socket.socket]) -> Iterator[int]:
    """Yield those of the pending ports that were not refused."""
    poll = select.poll()
    for handle in pending:
        poll.register(handle, select.POLLOUT)
    while pending and (ready := poll.poll(PATIENCE)):
        for handle, _ in ready:
            poll.unregister(handle)
            port = pending.pop(handle)
            code = links[port].getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code == 0 and not _met_itself(links[port]):
                yield port
            elif code not in (0, errno.ECONNREFUSED):
                raise OSError(code, f"port {port}")
    yield from pending.values()
