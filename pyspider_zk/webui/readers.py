"""Lets those who are not logged in look, and nothing more."""

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

_DETAIL = "without a login you may only look: log in with the name and password of the web UI"


class ReadersOnly:
    """A WSGI application in which only who is logged in may change anything.

    Threads: any.

    Args:
        application: what is protected.
        config: pyspider's settings of the web UI, with its name and password.
    """

    def __init__(self, application: "WSGIApplication", config: Mapping[str, Any]) -> None:
        self._application = application
        self._config = config

    def __call__(self, environ: "WSGIEnvironment", start: "StartResponse") -> Iterable[bytes]:
        """Pass the request on, or answer 401."""
        if environ["REQUEST_METHOD"] in SAFE or self._is_logged_in(environ):
            return self._application(environ, start)
        body = json.dumps(problem(HTTPStatus.UNAUTHORIZED, _DETAIL)).encode()
        headers = [
            ("Content-Type", PROBLEM_TYPE),
            ("Content-Length", str(len(body))),
            ("WWW-Authenticate", 'Basic realm="Login Required"'),
        ]
        start("401 Unauthorized", headers)
        return [body]

    def _is_logged_in(self, environ: Mapping[str, Any]) -> bool:
        """Compare as pyspider does; without a name and a password nobody is logged in."""
        name, password = self._config.get("webui_username"), self._config.get("webui_password")
        expected = f"{name}:{password}".encode()
        return bool(name and password) and hmac.compare_digest(_given(environ), expected)


def _given(environ: Mapping[str, Any]) -> bytes:
    scheme, _, text = str(environ.get("HTTP_AUTHORIZATION", "")).partition(" ")
    try:
        return base64.b64decode(text) if scheme.lower() == "basic" else b""
    except (binascii.Error, ValueError):
        return b""
