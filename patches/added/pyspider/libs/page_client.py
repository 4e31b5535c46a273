"""HTTP client whose pages have a limit while they are read: each one, and all together."""

import functools
import socket
from collections.abc import Callable
from contextlib import suppress
from io import BytesIO
from typing import Any

import pycurl
from pyspider.libs.destinations import Destinations
from tornado.curl_httpclient import CurlAsyncHTTPClient
from tornado.httpclient import HTTPRequest
from tornado.httputil import HTTPHeaders, HTTPInputError

ROBOTS_LIMIT = 500 * 1024
"""Bytes of a robots.txt that count; RFC 9309 asks for so many."""

_PROXY_TYPES = {
    "http": pycurl.PROXYTYPE_HTTP,
    "socks4": pycurl.PROXYTYPE_SOCKS4,
    "socks4a": pycurl.PROXYTYPE_SOCKS4A,
    "socks5": pycurl.PROXYTYPE_SOCKS5,
    "socks5h": pycurl.PROXYTYPE_SOCKS5_HOSTNAME,
}

MOST_HEADERS = 1000
MOST_REDIRECTS = 100


class PageRequest(HTTPRequest):
    """Request for a page, by any method, with a body or without.

    Attributes:
        verb: the method, which for a GET with a body is another one for Tornado.
        blank: names of the headers that are sent without a value.
        proxy_type: pycurl's, of the proxy if there is one.
        limit: bytes at which the page is cut; without one it fails beyond the client's limit.
        led_by: the address that redirected here, if one did.
        owner: who holds the page, after it is read, until ``release`` is called with it.
        address: the one that answered, if a connection was made.
    """

    def __init__(
        self,
        url: str,
        *,
        limit: int | None = None,
        led_by: str = "",
        owner: object = None,
        method: str = "GET",
        body: str | bytes | None = None,
        proxy_scheme: str = "http",
        **options: Any,
    ) -> None:
        sent_as = "POST" if method == "GET" and body else method
        options |= {"body": body or None, "allow_nonstandard_methods": True}
        super().__init__(url, sent_as, follow_redirects=False, **options)
        self.verb = method
        self.blank = {name for name, value in self.headers.get_all() if not value}
        self.proxy_type = _PROXY_TYPES[proxy_scheme]
        self.limit = limit
        self.led_by = led_by
        self.owner = owner
        self.address = ""


class _Lent(socket.socket):
    """Socket that pycurl copies, and nobody else keeps."""

    def __del__(self) -> None:
        self.close()


class _Page:
    """A page that is being read.

    Attributes:
        fault: why it is not read further, if so.
    """

    def __init__(self, request: Any, curl: Any, buffer: BytesIO, headers: Any) -> None:
        self.request = request
        self.curl = curl
        self.buffer = buffer
        self.headers = headers
        self.size = 0
        self.lines = 0
        self.is_paused = False
        self.fault = ""

    @property
    def cut_at(self) -> int | None:
        return getattr(self.request, "limit", None)

    @property
    def is_cut(self) -> bool:
        return self.cut_at is not None and self.size >= self.cut_at

    def add(self, chunk: bytes, limit: int) -> int:
        """Add what was read; return how much was taken, as libcurl wants to know."""
        room = (limit if self.cut_at is None else self.cut_at) - self.size
        if len(chunk) > room and self.cut_at is None:
            self.fault = f"the page has more than {limit} bytes (page_limit)"
            return 0
        taken = self.buffer.write(chunk[:room])
        self.size += taken
        return taken

    def add_header(self, parse: Callable[[bytes], None], line: bytes) -> int:
        """Add a line of a head; return how much was taken, as libcurl wants to know."""
        self.lines += 1
        with suppress(HTTPInputError):  # as browsers, that pass over what is no header
            parse(line)
        if self.lines > MOST_HEADERS:
            self.fault = f"the page has more than {MOST_HEADERS} headers"
        elif "," in self.headers.get("Content-Encoding", ""):
            self.fault = "the page is compressed more than once"
        return 0 if self.fault else len(line)

    def open(self, destinations: Destinations, _: int, address: Any) -> Any:
        """Open a socket for a connection, unless its address may not be fetched from."""
        family, kind, protocol, (host, *_) = address
        if self._is_refused(destinations, host):
            return pycurl.SOCKET_BAD
        return _Lent(family, kind, protocol)

    def check(self, destinations: Destinations, address: str, *_: Any) -> int:
        """Ask about a connection that is about to be used, which may be an older one."""
        self.request.request.address = address
        is_refused = self._is_refused(destinations, address)
        return int(pycurl.PREREQFUNC_ABORT if is_refused else pycurl.PREREQFUNC_OK)

    def _is_refused(self, destinations: Destinations, address: str | bytes) -> bool:
        text = address if isinstance(address, str) else address.decode()
        self.fault = destinations.refusal(text, getattr(self.request, "led_by", ""))
        return bool(self.fault)


class PageClient(CurlAsyncHTTPClient):
    """Tornado's client on libcurl, with limits for what hostile sites send.

    Bytes count as they come out of decompression. If ``memory`` is used up, pages wait that are
    larger than their share, all but the oldest of them: it has the rest of ``page_limit``.

    Attributes:
        kept: asked for the bytes of pages that were released, and are still in memory.
        destinations: where pages without a proxy may lead; with one, it resolves the names.
    """

    def initialize(
        self,
        *,
        page_limit: int,
        memory: int,
        destinations: Destinations,
        max_clients: int,
        **options: Any,
    ) -> None:
        """Take what ``__init__`` of other classes takes, as Tornado's clients do."""
        super().initialize(max_clients=max_clients, **options)
        self.page_limit = page_limit
        self.destinations = destinations
        self.kept: Callable[[], int] = lambda: 0
        self._memory = memory
        self._share = memory // 2 // max_clients
        self._reading: dict[Any, _Page] = {}
        self._held: dict[int, int] = {}

    @property
    def is_full(self) -> bool:
        """Whether the memory for pages is used up."""
        reading = sum(page.size for page in self._reading.values())
        return reading + sum(self._held.values()) + self.kept() >= self._memory

    def release(self, owner: object) -> None:
        """Count the pages of an owner no more."""
        self._held.pop(id(owner), None)
        self.resume()

    def resume(self) -> None:
        """Read on what waits and need not, since something was released."""
        for page in [page for page in self._reading.values() if page.is_paused]:
            if not self._must_wait(page):
                page.is_paused = False
                with suppress(pycurl.error):  # it failed meanwhile, which comes as its end
                    page.curl.pause(pycurl.PAUSE_CONT)

    def _must_wait(self, page: _Page) -> bool:
        if page.size < self._share or not self.is_full:
            return False
        large = (each for each in self._reading.values() if each.size >= self._share)
        return page is not next(large) or self.kept() >= self._memory

    def _write(self, page: _Page, chunk: bytes) -> int:
        if self._must_wait(page):
            page.is_paused = True
            return int(pycurl.WRITEFUNC_PAUSE)
        return page.add(chunk, self.page_limit)

    def _curl_setup_request(
        self, curl: Any, request: Any, buffer: BytesIO, headers: HTTPHeaders
    ) -> None:
        super()._curl_setup_request(curl, request, buffer, headers)
        page = self._reading[curl] = _Page(request, curl, buffer, headers)
        parse = functools.partial(self._curl_header_callback, headers, request.header_callback)
        curl.setopt(pycurl.WRITEFUNCTION, functools.partial(self._write, page))
        curl.setopt(pycurl.HEADERFUNCTION, functools.partial(page.add_header, parse))
        if not isinstance(request.request, PageRequest):
            return  # to a server that the operator named
        _set_up(curl, request.request)
        if not request.proxy_host:
            curl.setopt(pycurl.OPENSOCKETFUNCTION, functools.partial(page.open, self.destinations))
            curl.setopt(pycurl.PREREQFUNCTION, functools.partial(page.check, self.destinations))

    def _finish(
        self, curl: Any, curl_error: int | None = None, curl_message: str | None = None
    ) -> None:
        page = self._reading.pop(curl)
        owner = getattr(page.request, "owner", None)
        if page.is_cut:
            curl_error = curl_message = None
        elif curl_error is None and owner is not None:
            self._held[id(owner)] = self._held.get(id(owner), 0) + page.size
        super()._finish(curl, curl_error, page.fault or curl_message)
        self.resume()


def _set_up(curl: Any, request: PageRequest) -> None:
    """Set what Tornado's client has no words for."""
    if request.verb != request.method:
        curl.setopt(pycurl.CUSTOMREQUEST, request.verb)
    if request.blank:  # libcurl takes "name:" for one that is not to be sent
        pairs = request.headers.get_all()
        lines = [
            f"{name};" if name in request.blank else f"{name}: {value}" for name, value in pairs
        ]
        curl.setopt(pycurl.HTTPHEADER, [line.encode("latin1") for line in lines])
    curl.setopt(pycurl.PROXYTYPE, request.proxy_type)
