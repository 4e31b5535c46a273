"""Gate: the proxy through which one page connects, and which looks where to.

The browser resolves no names itself, so what is checked is what is connected to: for redirects,
frames, workers and WebSockets alike, and for names that resolve anew.
"""

import asyncio
import logging
import socket
import struct
from asyncio import StreamReader, StreamWriter
from collections.abc import Collection, Iterable
from concurrent.futures import Executor
from contextlib import suppress
from functools import partial
from ipaddress import ip_address, ip_network
from typing import Self

from pyspider.libs.destinations import Destinations, is_public
from pyspider.libs.origins import PORTS

from pyspider_zk.listening import LOOPBACK

logger = logging.getLogger(__name__)

CONNECT_SECONDS = 20.0
CHUNK = 2**16  # bytes

# SOCKS 5, RFC 1928
_GREETING, _CONNECT = b"\x05\x00", b"\x05\x01\x00"
_NAME = 3  # the kind of address that Chromium sends
_DONE, _FAILED, _REFUSED = 0, 1, 2

_HTTP, _HTTPS = PORTS.values()


class Reach:
    """Reach of one page: public addresses, and of others only what the script asked for.

    That may be anywhere but in a forbidden network, as for pages without a browser. What the page
    itself asks for could be any port of this machine, or of the network behind it.

    Args:
        forbidden: networks that nothing is fetched from.
        opened: networks that pages may reach though they are not public.
        asked: the addresses of the URL's host, as it resolves before the page is opened.
        port: the URL's.
    """

    def __init__(
        self, forbidden: Iterable[str], opened: Iterable[str], asked: Collection[str], port: int
    ) -> None:
        self._destinations = Destinations(forbidden)
        self._opened = [ip_network(network) for network in opened]
        # A name that is public is not private the next time it is resolved.
        self._asked = frozenset() if any(map(is_public, asked)) else frozenset(asked)
        self._ports = {port, _HTTPS} if port == _HTTP else {port}

    def refusal(self, address: str, port: int) -> str:
        """Return why an address may not be connected to, or nothing."""
        if forbidden := self._destinations.refusal(address, led_by=""):
            return str(forbidden)
        if is_public(address) or (address in self._asked and port in self._ports):
            return ""
        if any(ip_address(address) in network for network in self._opened):
            return ""
        return f"{address} port {port} is not public, and not what the script asked for"


class Gate:
    """Context manager of a SOCKS proxy on loopback, for one page.

    Args:
        url: of the page, for the log.
        resolvers: see ``addresses``.

    Attributes:
        fault: why the last connection was not made; empty: it was.
    """

    def __init__(self, reach: Reach, url: str, resolvers: Executor) -> None:
        self._reach = reach
        self._url = url
        self._resolvers = resolvers
        self._links: set[asyncio.Task[None]] = set()
        self._told: set[str] = set()
        self.fault = ""

    @property
    def address(self) -> str:
        """Where it listens, as Chromium takes it."""
        return f"socks5://{LOOPBACK}:{self._server.sockets[0].getsockname()[1]}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, LOOPBACK, 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for link in self._links:
            link.cancel()
        await asyncio.gather(*self._links, return_exceptions=True)

    def _accept(self, reader: StreamReader, writer: StreamWriter) -> None:
        link = asyncio.create_task(self._serve(reader, writer))
        self._links.add(link)
        link.add_done_callback(self._links.discard)

    async def _serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        try:
            with suppress(OSError, EOFError):  # either side may break off at any time
                await self._connect(reader, writer)
        finally:
            writer.close()

    async def _connect(self, reader: StreamReader, writer: StreamWriter) -> None:
        host, port = await _asked(reader, writer)
        try:
            far_reader, far_writer = await self._opened(host, port)
        except OSError as error:
            self.fault = f"{host} port {port}: {error.strerror or error}"
            writer.write(_answer(_REFUSED if isinstance(error, PermissionError) else _FAILED))
            await writer.drain()
            return
        writer.write(_answer(_DONE))
        try:
            await asyncio.gather(_copy(reader, far_writer), _copy(far_reader, writer))
        finally:
            far_writer.close()

    async def _opened(self, host: str, port: int) -> tuple[StreamReader, StreamWriter]:
        """Connect to the first address of a host that may be and can be.

        Raises:
            OSError: there is none.
        """
        last = OSError("no address")
        for address in await addresses(host, port, self._resolvers):
            if refusal := self._reach.refusal(address, port):
                self._tell(refusal)
                last = PermissionError(0, refusal)
                continue
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    return await asyncio.open_connection(address, port)
            except OSError as error:  # TimeoutError is one
                last = error
        raise last

    def _tell(self, refusal: str) -> None:
        if refusal not in self._told:
            self._told.add(refusal)
            logger.warning("%.200r may not connect: %s", self._url, refusal)


async def addresses(host: str, port: int, resolvers: Executor) -> list[str]:
    """Return the addresses of a host.

    Args:
        resolvers: the threads of its page: a name that is slow holds up that page alone.

    Raises:
        OSError: it has none, or cannot be a name, or no thread can ask.
    """
    ask = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
    try:
        found = await asyncio.get_running_loop().run_in_executor(resolvers, ask)
    except (UnicodeError, RuntimeError) as error:
        raise OSError(str(error)) from None
    return list(dict.fromkeys(str(each[4][0]) for each in found))


async def _asked(reader: StreamReader, writer: StreamWriter) -> tuple[str, int]:
    """Return the host and port that a client asks for.

    Raises:
        EOFError: it speaks something else, or no more.
    """
    await reader.readexactly((await reader.readexactly(2))[1])
    writer.write(_GREETING)
    *command, kind, length = await reader.readexactly(5)
    if bytes(command) != _CONNECT or kind != _NAME:
        raise EOFError
    host = (await reader.readexactly(length)).decode("ascii", "replace")
    (port,) = struct.unpack("!H", await reader.readexactly(2))
    return host, port


def _answer(code: int) -> bytes:
    return struct.pack("!BBBBIH", 5, code, 0, 1, 0, 0)


async def _copy(reader: StreamReader, writer: StreamWriter) -> None:
    while chunk := await reader.read(CHUNK):
        writer.write(chunk)
        await writer.drain()
    writer.write_eof()
