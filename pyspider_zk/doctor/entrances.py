"""Entrances of a cluster, tried as a stranger would: without a secret or login, by reads only."""

import http.client
import ssl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from http import HTTPStatus

from pyspider_zk.cluster.records import Cluster, ComponentKind
from pyspider_zk.config import Settings
from pyspider_zk.doctor.cluster_rules import host_of
from pyspider_zk.doctor.entrance_rules import Entrance
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
    is_page = entrance.name in (WEBUI.name, RENDERER.name)
    try:
        connection = _connected(entrance.address, context)
        try:
            status = _page(connection) if is_page else _called(connection)
        finally:
            connection.close()
    except (OSError, http.client.HTTPException) as error:
        return replace(entrance, fault=str(error) or type(error).__name__)
    if status != HTTPStatus.OK and status not in REFUSALS:
        return replace(entrance, fault=f"it answers with {status}: something else listens there")
    return replace(entrance, is_open=status == HTTPStatus.OK)


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


def _called(connection: http.client.HTTPConnection) -> int:
    connection.request("POST", "/", _CALL, _XML)
    return connection.getresponse().status


def _page(connection: http.client.HTTPConnection) -> int:
    connection.request("GET", "/")
    return connection.getresponse().status
