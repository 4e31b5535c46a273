"""The HTTP API below ``/api/v1``: an application of its own beside pyspider's pages."""

import math
from http import HTTPStatus
from typing import Any

from flask import Flask, Response, current_app, json, request
from flask.json.provider import DefaultJSONProvider
from flask_smorest import Api
from werkzeug.exceptions import HTTPException, UnsupportedMediaType

from pyspider_zk import __version__
from pyspider_zk.errors import (
    BadValues,
    ClusterError,
    LockedProjects,
)
from pyspider_zk.webui.access import CHALLENGE, PROBLEM_TYPE, SAFE, problem
from pyspider_zk.webui.api import (
    batches,
    cluster,
    dead_letters,
    events,
    failures,
    history,
    logs,
    overview,
    projects,
    results,
    scripts,
    steering,
    tasks,
)
from pyspider_zk.webui.api.backend import Backend
from pyspider_zk.webui.api.schemas import ProblemSchema

PREFIX = "/api/v1"

MOST_BYTES = 8 * 1024 * 1024  # of a request; 10,000 project names of 64 escaped characters fit

_SETTINGS = {
    "API_TITLE": "pyspider-zk",
    "API_VERSION": "v1",
    "OPENAPI_VERSION": "3.1.0",
    "OPENAPI_URL_PREFIX": "/",
    "OPENAPI_JSON_PATH": "openapi.json",
    "API_SPEC_OPTIONS": {
        "info": {"description": f"A cluster of pyspider schedulers. Version {__version__}."},
        "servers": [{"url": PREFIX}],
        "security": [{}, {"password": []}],
        "components": {"securitySchemes": {"password": {"type": "http", "scheme": "basic"}}},
    },
    "MAX_CONTENT_LENGTH": MOST_BYTES,
    "PROPAGATE_EXCEPTIONS": False,
}

_LISTED = 100  # locked projects in the list for programs
_KEPT = ("Allow", "WWW-Authenticate", "Retry-After")  # of the headers of Flask's errors

_PARTS = (
    *(overview.blueprint, projects.blueprint, projects.workload, scripts.blueprint),
    *(cluster.blueprint, cluster.operating, steering.blueprint),
    *(
        batches.blueprint,
        failures.blueprint,
        history.blueprint,
        tasks.blueprint,
        results.blueprint,
        events.blueprint,
        logs.blueprint,
        dead_letters.blueprint,
    ),
)


class _Api(Api):
    """Every error is a problem."""

    ERROR_SCHEMA = ProblemSchema
    DEFAULT_RESPONSE_CONTENT_TYPE = PROBLEM_TYPE
    DEFAULT_ERROR_RESPONSE_NAME = None  # each operation names its own

    def handle_http_exception(self, error: Any) -> Response:
        return answer_http_error(error)


def create_api(backend: Backend, **settings: Any) -> Flask:
    """Return the application; its paths begin behind ``PREFIX``.

    Threads: any.
    """
    flask_app = Flask(__name__, static_folder=None)
    flask_app.json = StrictJSON(flask_app)
    flask_app.config.update(_SETTINGS | settings)
    backend.bind(flask_app)
    flask_app.before_request(_check_body)
    flask_app.register_error_handler(ClusterError, answer_cluster_error)
    api = _Api(flask_app)
    for part in _PARTS:
        api.register_blueprint(part)
    return flask_app


def _check_body() -> None:
    """Refuse what the plain form of another site could send."""
    has_body = bool(request.content_length) or "Transfer-Encoding" in request.headers
    if request.method not in SAFE and has_body and request.mimetype != "application/json":
        raise UnsupportedMediaType("send the body as JSON, with Content-Type: application/json")


def answer_cluster_error(error: ClusterError) -> Response:
    """Answer one of our own errors."""
    if isinstance(error, LockedProjects):
        return answer(
            HTTPStatus.UNAUTHORIZED, str(error), dict([CHALLENGE]), projects=error.names[:_LISTED]
        )
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


def _sentence(errors: Any) -> str:
    """Return the first thing that is wrong, with the way to it."""
    place = []
    while isinstance(errors, dict) and errors:
        key, errors = next(iter(errors.items()))
        place.append(str(key))
    said = errors[0] if isinstance(errors, list) and errors else errors
    return f"{'.'.join(place)}: {said}" if place else str(said)


class StrictJSON(DefaultJSONProvider):
    """JSON with null for NaN and the infinities, because browsers refuse Python's form."""

    def dumps(self, obj: Any, **kwargs: Any) -> str:
        """Return the text."""
        try:
            return super().dumps(obj, allow_nan=False, **kwargs)
        except ValueError:
            return super().dumps(_finite(obj), allow_nan=False, **kwargs)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
