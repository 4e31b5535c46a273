"""Errors of the API: each is answered with a problem."""

from http import HTTPStatus
from typing import Any

from flask import Response, current_app, json
from werkzeug.exceptions import HTTPException

from pyspider_zk.errors import (
    BadValues,
    ClusterError,
    LockedProjects,
)
from pyspider_zk.webui.problem import PROBLEM_TYPE, problem

LOGIN = {"WWW-Authenticate": 'Basic realm="Login Required"'}

_LISTED = 100  # locked projects in the list for programs


def answer_cluster_error(error: ClusterError) -> Response:
    """Answer one of our own errors."""
    if isinstance(error, LockedProjects):
        return answer(HTTPStatus.UNAUTHORIZED, str(error), LOGIN, projects=error.names[:_LISTED])
    if isinstance(error, BadValues):
        faults = {name: [fault] for name, fault in error.faults.items()}
        return answer(error.status, str(error), errors={"json": faults})
    if error.status is HTTPStatus.INTERNAL_SERVER_ERROR:
        current_app.logger.error("the API cannot answer", exc_info=error)
    return answer(error.status, str(error))


def answer_http_error(error: HTTPException) -> Response:
    """Answer one of Flask's errors, or one that the request's form has."""
    status = HTTPStatus(error.code or 500)
    found = getattr(error, "data", None) or {}
    errors = found.get("messages", {})
    detail = _sentence(errors) if errors else str(error.description or status.description)
    headers = {name: value for name, value in error.get_headers() if name in _KEPT}
    return answer(status, detail, headers, **({"errors": errors} if errors else {}))


def answer(
    status: HTTPStatus, detail: str, headers: dict[str, str] | None = None, **more: Any
) -> Response:
    """Return a response with a problem."""
    body = json.dumps(problem(status, detail, **more))
    return Response(body, status, headers, content_type=PROBLEM_TYPE)


_KEPT = ("Allow", "WWW-Authenticate", "Retry-After")


def _sentence(errors: Any) -> str:
    """Return the first thing that is wrong, with the way to it."""
    place = []
    while isinstance(errors, dict) and errors:
        key, errors = next(iter(errors.items()))
        place.append(str(key))
    said = errors[0] if isinstance(errors, list) and errors else errors
    return f"{'.'.join(place)}: {said}" if place else str(said)
