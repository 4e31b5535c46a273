"""Attacks on a scheduler's XML-RPC: every function that it has, by who does not know the secret."""

import xmlrpc.client
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from http import HTTPStatus
from typing import Any

from tests.attack.state import KEPT, MEMBERS_ONLY
from tests.attack.web import ask, told
from tests.support.connected import rpc_url

METHODS = ("GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND", "JUNK")
_TASK = {"project": KEPT, "taskid": "attacked", "url": "data:,attacked"}
_DELETION = ("delete", {"names": [KEPT]}, {"wait": False})
_ARGUMENTS: Mapping[str, tuple[Any, ...]] = {
    "newtask": (_TASK,),
    "local_newtask": (_TASK,),
    "send_task": (_TASK,),
    "local_send_task": (_TASK,),
    "submit_operation": (*_DELETION, "root"),
    "plan_operation": _DELETION,
    "counter": ("5m", "sum"),
    "local_counter": ("5m", "sum"),
    "get_batch": ("b",),
    "cancel_batch": ("b",),
    "retry_batch": ("b",),
    "system.methodHelp": ("size",),
    "system.methodSignature": ("size",),
}
_XML = {"Content-Type": "text/xml"}
_FORGED = f"pyspider-zk time=1, nonce={'ab' * 16}, user=root, digest={'0' * 64}, proof={'0' * 64}"

STRANGERS: Mapping[str, Mapping[str, str]] = {
    "no login": _XML,
    "a page's form": {"Content-Type": "text/plain", "Origin": "http://evil.example"},
    "a page's fetch": {**_XML, "Sec-Fetch-Site": "cross-site"},
}
"""What is sent with each function; none of it is answered late."""

GUESSERS: Mapping[str, Mapping[str, str]] = {
    "an empty secret": {**_XML, "Authorization": f"Basic {b64encode(b'root:').decode()}"},
    "a wrong secret": {**_XML, "Authorization": f"Basic {b64encode(b'root:root').decode()}"},
    "a forged proof": {**_XML, "Authorization": _FORGED},
    "another scheme": {**_XML, "Authorization": "Bearer root"},
    "no scheme": {**_XML, "Authorization": "root"},
}
"""What is sent with one function only, for a wrong secret is answered a second later."""

_REFUSALS = frozenset(
    {
        HTTPStatus.UNAUTHORIZED,
        HTTPStatus.FORBIDDEN,
        HTTPStatus.METHOD_NOT_ALLOWED,
        HTTPStatus.MISDIRECTED_REQUEST,
        HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
        HTTPStatus.NOT_IMPLEMENTED,
    }
)


def arguments_of(name: str) -> tuple[Any, ...]:
    """Return what a function is called with, so that it does something."""
    return _ARGUMENTS.get(name, ())


def functions(address: str, secret: str) -> list[str]:
    """Return what a scheduler's batch_service has, as it tells who knows the secret."""
    with xmlrpc.client.ServerProxy(rpc_url(address, secret), allow_none=True) as proxy:
        found = proxy.system.listMethods()
    assert isinstance(found, list)
    return found


def attack(address: str, names: Iterable[str], secrets: Iterable[str]) -> Iterator[str]:
    """Try every function without the secret; yield what should not have been answered.

    Args:
        address: host and port.
        names: of the functions.
        secrets: what no answer may tell.
    """
    hidden = [*secrets, *MEMBERS_ONLY]
    for name in names:
        body = xmlrpc.client.dumps(arguments_of(name), name, allow_none=True)
        for who, sent in STRANGERS.items():
            yield from _judged(address, "POST", body, sent, f"{name} with {who}", hidden)
    body = xmlrpc.client.dumps(arguments_of("submit_operation"), "submit_operation")
    for method in METHODS:
        yield from _judged(address, method, body, _XML, f"{method} of a deletion", hidden)
    elsewhere = {**_XML, "Host": "rebound.example"}
    yield from _judged(address, "POST", body, elsewhere, "a call to another host", hidden)


def guess(
    address: str, secrets: Iterable[str], logins: Mapping[str, Mapping[str, str]]
) -> Iterator[str]:
    """Try to delete a project with what is not the secret; yield what was answered.

    Args:
        address: host and port.
        secrets: what no answer may tell.
        logins: headers of those who log in elsewhere, by who they are.
    """
    body = xmlrpc.client.dumps(arguments_of("submit_operation"), "submit_operation")
    guesses = {**GUESSERS, **{who: {**_XML, **sent} for who, sent in logins.items()}}
    for who, sent in guesses.items():
        yield from _judged(address, "POST", body, sent, f"a deletion with {who}", list(secrets))


def _judged(
    address: str, method: str, body: str, sent: Mapping[str, str], what: str, hidden: Iterable[str]
) -> Iterator[str]:
    answer = ask(address, method, "/RPC2", body.encode(), sent)
    if answer.status not in _REFUSALS:
        yield f"XML-RPC at {address}, {what}: {answer.status} {answer.text[-200:]!r}"
    yield from told(f"XML-RPC, {what}", answer.text, hidden)
