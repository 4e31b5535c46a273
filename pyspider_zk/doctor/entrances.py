"""Entrances of a cluster: ports, tried as a stranger would, without a secret or login, by reads."""

import http.client
import ssl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from http import HTTPStatus

from pyspider_zk.cluster.records import Cluster, ComponentKind
from pyspider_zk.config import Settings
from pyspider_zk.doctor.cluster_rules import host_of
from pyspider_zk.doctor.findings import Finding, failed, ok, warning
from pyspider_zk.listening import is_loopback
from pyspider_zk.rendering.request import LISTENER as RENDERER
from pyspider_zk.rpc.admission import LISTENER as XMLRPC
from pyspider_zk.rpc.tls import TLS, connect
from pyspider_zk.tls import client_context
from pyspider_zk.webui.accounts import LISTENER as WEBUI
from pyspider_zk.workers.fetcher import LISTENER as FETCHER

PATIENCE = 3.0  # seconds
AT_ONCE = 16

REFUSALS = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.FOUND, HTTPStatus.SEE_OTHER)
"""What strangers are answered; pages lead them to the login."""

_CALL = b"<?xml version='1.0'?><methodCall><methodName>size</methodName></methodCall>"
_XML = {"Content-Type": "text/xml"}
_PAGES = {WEBUI.name: "/cluster/projects", RENDERER.name: "/"}
"""What is asked for where no XML-RPC is served; the web UI's front page leads on in any case."""


@dataclass(frozen=True)
class Entrance:
    """A port of the cluster, and what it answered to a stranger.

    Attributes:
        name: what listens there.
        address: ``host:port``, after ``https://`` if it uses TLS.
        opens: what somebody who is let in may do.
        guard: what closes it.
        is_open: whether it let the stranger in; None: it did not answer.
        fault: why it did not.
    """

    name: str
    address: str
    opens: str
    guard: str
    is_open: bool | None = None
    fault: str = ""


def entrances(cluster: Cluster, settings: Settings) -> list[Entrance]:
    """Return the ports that members and components announce, each with its answer.

    Blocks for some seconds per sixteen ports at most.
    """
    context = client_context(settings.xmlrpc_tls_ca, "xmlrpc_tls_ca")
    announced = list(_announced(cluster))
    with ThreadPoolExecutor(AT_ONCE) as threads:
        return list(threads.map(lambda each: tried(each, context), announced))


def tried(entrance: Entrance, context: ssl.SSLContext) -> Entrance:
    """Return an entrance with what it answered."""
    page = _PAGES.get(entrance.name)
    try:
        connection = _connected(entrance.address, context)
        try:
            if page:
                connection.request("GET", page)
            else:
                connection.request("POST", "/", _CALL, _XML)
            status = connection.getresponse().status
        finally:
            connection.close()
    except (OSError, http.client.HTTPException) as error:
        return replace(entrance, fault=str(error) or type(error).__name__)
    if status != HTTPStatus.OK and status not in REFUSALS:
        return replace(entrance, fault=f"it answers with {status}: something else listens there")
    return replace(entrance, is_open=status == HTTPStatus.OK)


def entrance_finding(entrance: Entrance) -> Finding:
    """Judge a port by what it answered."""
    told = f"{entrance.name} at {entrance.address}"
    is_local = is_loopback(host_of(entrance.address))
    if entrance.is_open is None:
        return warning(
            f"{told} cannot be reached from here: {entrance.fault}",
            "start it, or set advertise to an address that others reach",
        )
    if entrance.is_open:
        grade = warning if is_local else failed
        who = "every program on this machine" if is_local else "whoever reaches it"
        return grade(f"{told} is open: {who} may {entrance.opens}", entrance.guard)
    if is_local or entrance.address.startswith("https://"):
        return ok(f"{told} is closed to strangers")
    return warning(
        f"{told} is closed to strangers, but has no TLS: what it serves can be read on the network",
        "set xmlrpc_tls_certificate and xmlrpc_tls_key; put a proxy with TLS before the web UI",
    )


def _announced(cluster: Cluster) -> Iterator[Entrance]:
    secret, login = f"set {XMLRPC.guard}", f"set {WEBUI.guard}"
    for member, record in sorted(cluster.members.items()):
        name = f"XML-RPC of member {member.number}"
        yield Entrance(name, record.address, XMLRPC.opens, secret)
    for kind, found in cluster.components.items():
        for each in found.values():
            if each.address and kind is ComponentKind.WEBUI:
                yield Entrance(WEBUI.name, each.address, WEBUI.opens, login)
            elif each.address and kind is ComponentKind.RENDERER:
                if not is_loopback(host_of(each.address)):
                    yield Entrance(RENDERER.name, each.address, RENDERER.opens, secret)
            elif each.address:
                opens = FETCHER.opens if kind is ComponentKind.FETCHER else XMLRPC.opens
                yield Entrance(f"XML-RPC of a {kind}", each.address, opens, secret)


def _connected(address: str, context: ssl.SSLContext) -> http.client.HTTPConnection:
    if address.startswith(TLS):
        return connect(address.removeprefix(TLS), context, PATIENCE)
    return http.client.HTTPConnection(address, timeout=PATIENCE)
