"""XML-RPC client of one member; call and response prove the secret. Also other requests to it."""

import http.client
import re
import secrets
import ssl
import time
import xmlrpc.client
import zlib
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from urllib.parse import urlsplit

from pyspider_zk.cluster.records import Member
from pyspider_zk.config import Settings
from pyspider_zk.errors import ClusterError, Unavailable
from pyspider_zk.rpc.admission import Caller, calling, current_caller
from pyspider_zk.rpc.proof import ANSWER_HEADER, Call, Prover, digest
from pyspider_zk.rpc.tls import TLS, connect
from pyspider_zk.rpc.values import foreign_texts
from pyspider_zk.tls import client_context

CHUNK = 2**16  # bytes
ANSWER_LIMIT = 64 * 2**20  # bytes; about 10,000 projects with all their counters

_HEADERS = {"Content-Type": "text/xml", "Accept-Encoding": "gzip", "User-Agent": "pyspider-zk"}
_TLS_REMEDY = (
    "give that scheduler xmlrpc_tls_certificate and xmlrpc_tls_key; xmlrpc_tls, which is set here,"
    " calls no others"
)
_REMEDY = "set secret_file (PYSPIDER_ZK_SECRET_FILE) to the same secret everywhere"
_TIME = re.compile(rb"\d{1,12}")


@dataclass(frozen=True)
class Credentials:
    """Credentials of a process for calling members.

    Attributes:
        secret: the cluster's; empty: it has none.
        user: the caller, unless this thread works on somebody else's behalf.
        tls: call only members with TLS.
        ca: file of the authorities that sign members' certificates; empty: the system's.
    """

    secret: str = field(default="", repr=False)
    user: str = ""
    tls: bool = False
    ca: str = ""

    @cached_property
    def context(self) -> ssl.SSLContext:
        """TLS context for calling members; the first use reads the authorities.

        Raises:
            ConfigError: their file cannot be used.
        """
        return client_context(self.ca, "xmlrpc_tls_ca")

    def check(self) -> None:
        """Raise ``ConfigError`` if the authorities' file is needed and cannot be used."""
        if self.ca or self.tls:
            _ = self.context


def credentials_of(settings: Settings) -> Credentials:
    """Return the credentials of a process with these settings."""
    return Credentials(settings.secret, tls=settings.xmlrpc_tls, ca=settings.xmlrpc_tls_ca)


_Answer = tuple[http.client.HTTPResponse, bytes]
"""A response, and its body, which is read."""


def call(
    member: Member,
    method: str,
    *args: Any,
    credentials: Credentials = Credentials(),
    timeout: float = 5.0,
) -> Any:
    """Call one member. Blocks: ``timeout`` seconds for each step of the exchange.

    Raises:
        OSError: it cannot be reached, or the response is not from a scheduler, does not prove the
            secret or came without TLS; the one error that pyspider's views expect.
        xmlrpc.client.Fault: it answered with an error.
    """
    body = _body(method, args)
    link = _Link(member.address, body, timeout, credentials)
    try:
        response, answer = _proven(link, credentials) if credentials.secret else link.post()
        if response.status == http.HTTPStatus.UNAUTHORIZED:
            raise PermissionError(f"the cluster's secret is needed: {_REMEDY}")
        return _value(response, answer)
    except (xmlrpc.client.Fault, OSError, ClusterError):
        raise
    except Exception as error:  # an invalid response makes the parser raise anything
        raise ConnectionError(f"{method} at {member.address}: {error}") from error


def _body(method: str, args: tuple[Any, ...]) -> bytes:
    """Return the body of a call.

    Raises:
        xmlrpc.client.Fault: XML-RPC cannot represent an argument; parsers know more types than
            can be sent.
    """
    try:
        text = xmlrpc.client.dumps(args, method, allow_none=True)
    except (TypeError, OverflowError) as error:
        raise xmlrpc.client.Fault(400, f"{method}: cannot be sent: {error}") from None
    if culprit := next(foreign_texts(args, "argument"), ""):
        raise xmlrpc.client.Fault(400, f"{method}: cannot be sent in XML: {culprit}")
    return text.encode("utf-8", "xmlcharrefreplace")


class _Link:
    """Sender of one body to one address, over a new connection each time."""

    def __init__(self, address: str, body: bytes, timeout: float, credentials: Credentials) -> None:
        self.address = address.removeprefix(TLS)
        self.body = body
        self._tls = address != self.address
        self._timeout = timeout
        self._credentials = credentials

    def post(self, **headers: str) -> _Answer:
        connection = self._connection()
        try:
            sent = {**_HEADERS, "Host": self.address, **headers}
            connection.request("POST", "/RPC2", self.body, sent)
            with connection.getresponse() as response:
                return response, self._read(response)
        finally:
            connection.close()

    def _connection(self) -> http.client.HTTPConnection:
        """Return a connection, with TLS if the address requires it.

        Raises:
            ConnectionError: TLS is not spoken there, and must be.
            OSError: nobody can be reached there.
        """
        if self._tls:
            return connect(self.address, self._credentials.context, self._timeout)
        if self._credentials.tls:
            raise ConnectionError(f"{self.address} speaks no TLS: {_TLS_REMEDY}")
        return http.client.HTTPConnection(self.address, timeout=self._timeout)

    def _read(self, response: http.client.HTTPResponse) -> bytes:
        """Read a response up to a limit."""
        until = time.monotonic() + self._timeout
        body = bytearray()
        while data := response.read1(CHUNK):
            body += data
            if len(body) > ANSWER_LIMIT or time.monotonic() > until:
                raise xmlrpc.client.Error(f"no end after {len(body)} bytes")
        return bytes(body)


def _proven(link: _Link, credentials: Credentials) -> _Answer:
    """Send with a proof; repeat it if the member proves that its clock differs.

    Raises:
        PermissionError: the response proves nothing.
    """
    prover = Prover(credentials.secret)
    user = current_caller().user or credentials.user
    at = int(time.time())
    for _ in range(2):
        call = Call(link.address, at, secrets.token_hex(16), user, digest(link.body))
        response, body = link.post(Authorization=prover.header(call))
        if not prover.proves(response.getheader(ANSWER_HEADER) or "", call, body):
            status = f"{response.status} {response.reason:.100}"  # from an unknown server
            raise PermissionError(
                f"the answer ({status!r}) does not prove the cluster's secret: {_REMEDY}"
            )
        if response.status != http.HTTPStatus.UNAUTHORIZED or not _TIME.fullmatch(body):
            break
        at = int(body)
    return response, body


def _value(response: http.client.HTTPResponse, body: bytes) -> Any:
    """Return the result of the call, or raise its ``Fault``."""
    if response.status != http.HTTPStatus.OK:
        raise xmlrpc.client.Error(f"HTTP status {response.status} {response.reason!r:.100}")
    if response.getheader("Content-Encoding") == "gzip":
        inflating = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        body = inflating.decompress(body, ANSWER_LIMIT)
        if inflating.unconsumed_tail or not inflating.eof:
            raise xmlrpc.client.Error(f"no end after {len(body)} bytes")
    values, _ = xmlrpc.client.loads(body)
    if len(values) != 1:
        raise xmlrpc.client.Error(f"{len(values)} values")
    return values[0]


def posted(body: bytes, address: str, settings: Settings) -> dict[str, Any]:
    """Return the arguments of a request with some JSON, which proves the secret if there is one.

    Args:
        address: with the port; the scheme may be left out.
    """
    headers = {"Content-Type": "application/json"}
    if settings.secret:
        host = urlsplit(address if "://" in address else f"//{address}").netloc
        call = Call(host, int(time.time()), secrets.token_hex(16), "", digest(body))
        headers |= {"Host": host, "Authorization": Prover(settings.secret).header(call)}
    return {"body": body, "headers": headers, "ca_certs": settings.xmlrpc_tls_ca or None}


def request_drain(number: int, member: Member, settings: Settings, who: str) -> None:
    """Ask a member to move its slots to others and to end; a repeated request changes nothing.

    Blocks for some seconds at most.

    Raises:
        Unavailable: it does not answer, or refuses.
    """
    try:
        with calling(Caller(who)):
            call(member, "local_drain", credentials=credentials_of(settings))
    except (OSError, xmlrpc.client.Fault) as error:
        raise Unavailable(
            f"member {number} cannot be asked to drain: {error}; `pyspider-zk evict {number}`"
            " moves its slots away without it"
        ) from error
