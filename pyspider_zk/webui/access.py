"""Access: passes a request on only if its sender has the role that it needs.

Here is also how requests are refused: with problem details (RFC 9457).
"""

import json
import re
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from pyspider_zk.webui.logins import LOGIN, Login, Logins, TooManyTries, WrongLogin
from pyspider_zk.webui.users import Role

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

OPEN = "/login"
"""Where the login page is; everybody may see it."""

CHALLENGE = ("WWW-Authenticate", 'Basic realm="Login Required"')

BACKGROUND = ("HTTP_X_REQUESTED_WITH", "fetch")
"""What a page's reads have whose user has a session."""

SAFE = frozenset({"GET", "HEAD", "OPTIONS", "TRACE", "PROPFIND"})
"""The methods that change nothing."""

PROBLEM_TYPE = "application/problem+json"

_OPERATING = re.compile(
    "/update|/run"
    "|/api/v1/(assignment|batches|dead-letters|maintenance|members|settings|slots)(/.*)?"
)
_NOBODY = "log in with a name and password of the web UI, by HTTP Basic or at /login"
_NOBODY_CHANGES = f"without a login you may only look: {_NOBODY}"
_NOT_ENOUGH = {
    Role.VIEWER: "{} may only look: log in as an operator or admin, at /login",
    Role.OPERATOR: "{} may edit and run no scripts: log in as an admin",
}


class Access:
    """A WSGI application behind the check. Threads: any.

    Without a login everything is allowed that pyspider allows, unless its setting ``need_auth`` or
    our ``login_to_change`` is on.

    Args:
        config: pyspider's settings of the web UI, which may change while it runs.
    """

    def __init__(
        self, application: "WSGIApplication", logins: Logins, config: Mapping[str, Any]
    ) -> None:
        self._application = application
        self._logins = logins
        self._config = config

    def __call__(self, environ: "WSGIEnvironment", start: "StartResponse") -> Iterable[bytes]:
        """Pass the request on with its login, or answer 401, 403 or 429."""
        path = full_path(environ)
        if path == OPEN or path.startswith(f"{OPEN}/"):
            return self._application(environ, start)
        try:
            login = environ[LOGIN] = self._logins.find(environ)
        except WrongLogin as error:
            return unauthorized(environ, start, str(error))
        except TooManyTries as error:
            after = ("Retry-After", str(error.wait))
            return refuse(environ, start, HTTPStatus.TOO_MANY_REQUESTS, str(error), after)
        return self._decided(login, path, environ, start)

    def _decided(
        self, login: Login | None, path: str, environ: "WSGIEnvironment", start: "StartResponse"
    ) -> Iterable[bytes]:
        method = environ["REQUEST_METHOD"]
        if login is None and self._config.get("need_auth"):
            return unauthorized(environ, start, _NOBODY)
        if login is None and self._config.get("login_to_change") and method not in SAFE:
            return unauthorized(environ, start, _NOBODY_CHANGES)
        if login is not None and not login.role.may(needed_role(method, path)):
            detail = _NOT_ENOUGH[login.role].format(login.name)
            return refuse(environ, start, HTTPStatus.FORBIDDEN, detail)
        return self._application(environ, start)


def needed_role(method: str, path: str) -> Role:
    """Return the role that a request needs; an unknown one needs the highest.

    What operators may do is listed: whatever is routed otherwise than it looks is not.
    """
    if method in SAFE:
        return Role.VIEWER
    return Role.OPERATOR if _OPERATING.fullmatch(path) else Role.ADMIN


def full_path(environ: Mapping[str, Any]) -> str:
    """Return the path as the browser sent it, also below where WebDAV is mounted."""
    return f"{environ.get('SCRIPT_NAME', '')}{environ.get('PATH_INFO', '')}"


def unauthorized(environ: "WSGIEnvironment", start: "StartResponse", detail: str) -> list[bytes]:
    """Answer 401, with a challenge unless the page asks for none.

    With one the browser would prompt for a password at each of the page's reads.
    """
    name, value = BACKGROUND
    challenges = [] if environ.get(name) == value else [CHALLENGE]
    return refuse(environ, start, HTTPStatus.UNAUTHORIZED, detail, *challenges)


def refuse(
    environ: "WSGIEnvironment",
    start: "StartResponse",
    status: HTTPStatus,
    detail: str,
    *headers: tuple[str, str],
) -> list[bytes]:
    """Answer with a problem; the detail names the culprit and the remedy.

    An answer to HEAD has no body: the server would abort one with a body.
    """
    body = json.dumps(problem(status, detail)).encode()
    about = [("Content-Type", PROBLEM_TYPE), ("Content-Length", str(len(body)))]
    start(f"{status.value} {status.phrase}", [*about, *headers])
    return [] if environ["REQUEST_METHOD"] == "HEAD" else [body]


def problem(status: HTTPStatus, detail: str, **more: Any) -> dict[str, Any]:
    """Return the body: what is wrong with which part, and the remedy.

    Args:
        detail: the sentence for people.
        more: what programs may want to know, such as ``errors`` by field.
    """
    return {
        "type": "about:blank",
        "title": status.phrase,
        "status": status.value,
        "detail": detail,
        **more,
    }
