"""Lets those look, and nothing more, who may not change anything."""

import base64
import binascii
import hmac
import json
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from pyspider_zk.webui.problem import PROBLEM_TYPE, problem

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

SAFE = frozenset({"GET", "HEAD", "OPTIONS", "TRACE", "PROPFIND"})
"""The methods that change nothing."""

VIEWER = ("viewer_username", "viewer_password")
"""Where pyspider's settings have the second login, if there is one."""

_OPERATOR = ("webui_username", "webui_password")

_NOBODY = "without a login you may only look: log in with the name and password of the web UI"
_ONLY_LOOKS = (
    "{} may only look: log in with the name and password of the web UI;"
    " a browser asks for them in a private window"
)


class ReadersOnly:
    """A WSGI application in which only who may change something can.

    The viewer never may; who is not logged in may if pyspider lets them, unless the setting is
    ``login_to_change``.

    Threads: any.

    Args:
        application: what is protected.
        config: pyspider's settings of the web UI, with its names and passwords.
    """

    def __init__(self, application: "WSGIApplication", config: Mapping[str, Any]) -> None:
        self._application = application
        self._config = config

    def __call__(self, environ: "WSGIEnvironment", start: "StartResponse") -> Iterable[bytes]:
        """Pass the request on, or answer 401 or 403."""
        if environ["REQUEST_METHOD"] in SAFE or self._is(_OPERATOR, environ):
            return self._application(environ, start)
        if self._is(VIEWER, environ):
            detail = _ONLY_LOOKS.format(self._config[VIEWER[0]])
            return _refuse(start, HTTPStatus.FORBIDDEN, detail)
        if self._config.get("login_to_change"):
            login = ("WWW-Authenticate", 'Basic realm="Login Required"')
            return _refuse(start, HTTPStatus.UNAUTHORIZED, _NOBODY, login)
        return self._application(environ, start)

    def _is(self, who: tuple[str, str], environ: Mapping[str, Any]) -> bool:
        """Compare as pyspider does; without a name and a password nobody is logged in."""
        name, password = map(self._config.get, who)
        expected = f"{name}:{password}".encode()
        return bool(name and password) and hmac.compare_digest(_given(environ), expected)


def _refuse(
    start: "StartResponse", status: HTTPStatus, detail: str, *headers: tuple[str, str]
) -> Iterable[bytes]:
    body = json.dumps(problem(status, detail)).encode()
    about = [("Content-Type", PROBLEM_TYPE), ("Content-Length", str(len(body)))]
    start(f"{status.value} {status.phrase}", [*about, *headers])
    return [body]


def _given(environ: Mapping[str, Any]) -> bytes:
    scheme, _, text = str(environ.get("HTTP_AUTHORIZATION", "")).partition(" ")
    try:
        return base64.b64decode(text) if scheme.lower() == "basic" else b""
    except (binascii.Error, ValueError):
        return b""
