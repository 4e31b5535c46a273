"""Audit: each change by pyspider's pages and by WebDAV becomes an event.

The API has its own events. A request that was refused before, for lack of a login or a role, is no
change and has no event, so nobody can push other events out of the log by being refused.
"""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from posixpath import normpath
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from flask import Response, request
from werkzeug.exceptions import RequestEntityTooLarge
from werkzeug.test import run_wsgi_app

from pyspider_zk.cluster.events import Event, EventKind
from pyspider_zk.errors import ClusterError
from pyspider_zk.projects.names import PROJECT_NAME_LIMIT
from pyspider_zk.webui.logins import LOGIN

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

logger = logging.getLogger(__name__)

_DAV = frozenset({"PUT", "DELETE", "MOVE", "COPY", "MKCOL", "PROPPATCH", "POST"})
_VALUE_LIMIT = 80  # characters of a value that the text quotes
_UPDATE, _RUN, _SCRIPT = "/update", "/run", "/debug/"

Append = Callable[[Event], Any]
"""Function that writes an event; may raise ``ClusterError``."""


def record(append: Append, event: Event) -> None:
    """Append to the event log; if that is away, the event goes to the log of the process.

    Blocks for some seconds at most.
    """
    try:
        append(event)
    except ClusterError as error:
        by = event.who or "somebody who is not logged in"
        logger.warning("%s by %s; it is not in the event log: %s", event.text, by, error)


@contextmanager
def audited(flask_app: Any, append: Append) -> Iterator[None]:
    """Write events of changes by pyspider's pages while the block runs."""

    def tell(response: Response) -> Response:
        if not _may_change(request.method, request.path):
            return response
        form: Mapping[str, str] = {}
        try:
            form = request.form
        except RequestEntityTooLarge as error:  # its page could not read it either
            response = flask_app.make_response(error)
        change = _change(request.path, form)
        if change is not None:
            kind, project, text = change
            # A trial's answer may be long, and reports no change.
            said = "" if kind is EventKind.TRIAL else response.get_data(as_text=True)
            result = _result(response.status_code, said)
            record(append, change_event(request.environ, kind, [project], text, result))
        return response

    hooks = flask_app.after_request_funcs.setdefault(None, [])
    hooks.append(tell)
    try:
        yield
    finally:
        hooks.remove(tell)


class AuditedDav:
    """WebDAV that writes an event of each change. Threads: any."""

    def __init__(self, flask_app: Any, application: "WSGIApplication", append: Append) -> None:
        self._flask_app = flask_app
        self._application = application
        self._append = append

    def __call__(self, environ: "WSGIEnvironment", start: "StartResponse") -> Iterable[bytes]:
        """Answer, and write an event if the request was to change something."""
        if environ["REQUEST_METHOD"] not in _DAV:
            return self._application(environ, start)
        status = str(HTTPStatus.INTERNAL_SERVER_ERROR.value)  # unless there is an answer
        try:
            with self._flask_app.request_context(environ):  # so that it is known who saves
                body, status, headers = run_wsgi_app(self._application, environ, buffered=True)
        finally:
            self._tell(environ, int(status.split()[0]))
        start(status, list(headers))
        return body

    def _tell(self, environ: "WSGIEnvironment", status: int) -> None:
        method, projects = environ["REQUEST_METHOD"], _projects(environ)
        text = f"{method} of {' to '.join(projects)} by WebDAV"
        result = _result(status)
        record(
            self._append,
            change_event(environ, EventKind.SCRIPT, projects, text, result),
        )


def change_event(
    environ: Mapping[str, Any],
    kind: EventKind,
    projects: list[str],
    text: str,
    result: str,
) -> Event:
    """Return the event of a change that a request asked for, with who and from where."""
    login = environ.get(LOGIN)
    data = {"projects": projects, "result": result, "peer": environ.get("REMOTE_ADDR", "")}
    return Event(kind, f"{text}: {result}", time.time(), login.name if login else "", data)


def _may_change(method: str, path: str) -> bool:
    """Return whether the form of a request is worth reading: it may be large, and too large."""
    return method == "POST" and (path in (_UPDATE, _RUN) or path.startswith(_SCRIPT))


def _change(path: str, form: Mapping[str, str]) -> tuple[EventKind, str, str] | None:
    """Return what a request to one of these pages changes: kind, project, text."""
    if path == _UPDATE:
        project, name, value = (form.get(each, "") for each in ("pk", "name", "value"))
        text = f"set {name:.20} of {_name(project)} to {value[:_VALUE_LIMIT]!r}"
        return EventKind.CHANGE, _name(project), text
    if path == _RUN:
        project = _name(form.get("project", ""))
        return EventKind.RUN, project, f"run {project}"
    project, _, what = path.removeprefix(_SCRIPT).partition("/")
    if path.startswith(_SCRIPT) and what == "save":
        return EventKind.SCRIPT, _name(project), f"save the script of {_name(project)}"
    if path.startswith(_SCRIPT) and what == "run":
        return EventKind.TRIAL, _name(project), f"try a script of {_name(project)}"
    return None


def _result(status: int, said: str = "") -> str:
    if status >= HTTPStatus.BAD_REQUEST:
        return f"refused ({status})" if status < HTTPStatus.INTERNAL_SERVER_ERROR else "failed"
    if said == "rpc error":
        return "done, but no scheduler could be told"
    if said.replace(" ", "") == '{"result":false}':
        return "no scheduler took it"
    return "done"


def _projects(environ: "WSGIEnvironment") -> list[str]:
    """Return the project of a WebDAV request, and the one that it is moved or copied to."""
    paths = [
        str(environ.get("PATH_INFO", "")).encode("latin-1", "replace").decode(errors="replace")
    ]
    if target := environ.get("HTTP_DESTINATION"):
        paths.append(unquote(target.partition("://")[2].partition("?")[0]) or target)
    plain = map(normpath, paths)  # as WebDAV does
    return [_name(path.rpartition("/")[2].removesuffix(".py")) for path in plain]


def _name(project: str) -> str:
    return project[:PROJECT_NAME_LIMIT]
