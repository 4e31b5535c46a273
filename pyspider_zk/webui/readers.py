"""Lets those look, and nothing more, who may not change anything."""

import json
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from pyspider.webui.identity import identify

from pyspider_zk.webui.problem import PROBLEM_TYPE, problem

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

SAFE = frozenset({"GET", "HEAD", "OPTIONS", "TRACE", "PROPFIND"})
"""The methods that change nothing."""

VIEWER = ("viewer_username", "viewer_password")
"""Where pyspider's settings have the second login, if there is one."""

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
        if environ["REQUEST_METHOD"] in SAFE:
            return self._application(environ, start)
        who = identify(environ, self._config)
        if who is not None and who.is_viewer:
            return _refuse(start, HTTPStatus.FORBIDDEN, _ONLY_LOOKS.format(who.name))
        if who is not None:
            return self._application(environ, start)
        if self._config.get("login_to_change"):
            login = ("WWW-Authenticate", 'Basic realm="Login Required"')
            return _refuse(start, HTTPStatus.UNAUTHORIZED, _NOBODY, login)
        return self._application(environ, start)


def _refuse(
    start: "StartResponse", status: HTTPStatus, detail: str, *headers: tuple[str, str]
) -> Iterable[bytes]:
    body = json.dumps(problem(status, detail)).encode()
    about = [("Content-Type", PROBLEM_TYPE), ("Content-Length", str(len(body)))]
    start(f"{status.value} {status.phrase}", [*about, *headers])
    return [body]
