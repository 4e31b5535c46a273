"""Application of the API: puts its parts together."""

from collections.abc import Mapping
from functools import partial
from http import HTTPStatus
from typing import Any

from flask import Flask, Response, request
from flask_login import current_user
from flask_smorest import Api
from pyspider.webui.login import login_manager
from werkzeug.exceptions import UnsupportedMediaType

from pyspider_zk import __version__
from pyspider_zk.errors import ClusterError
from pyspider_zk.webui.api import (
    batches,
    cluster,
    dead_letters,
    events,
    operating,
    overview,
    projects,
    steering,
    workload,
)
from pyspider_zk.webui.api.backend import Backend
from pyspider_zk.webui.api.errors import (
    LOGIN,
    answer,
    answer_cluster_error,
    answer_http_error,
)
from pyspider_zk.webui.api.schemas import ProblemSchema
from pyspider_zk.webui.api.strict import StrictJSON
from pyspider_zk.webui.problem import PROBLEM_TYPE
from pyspider_zk.webui.roles import SAFE

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


_PARTS = (
    *(overview, projects, workload, cluster, operating, steering),
    *(batches, events, dead_letters),
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

    Args:
        backend: what it speaks for.
        settings: Flask's, where they differ.
    """
    flask_app = Flask(__name__, static_folder=None)
    flask_app.json = StrictJSON(flask_app)
    flask_app.config.update(_SETTINGS | settings)
    backend.bind(flask_app)
    login_manager.init_app(flask_app, add_context_processor=False)
    flask_app.before_request(partial(_check_login, backend.config))
    flask_app.before_request(_check_body)
    flask_app.register_error_handler(ClusterError, answer_cluster_error)
    api = _Api(flask_app)
    for part in _PARTS:
        api.register_blueprint(part.blueprint)
    return flask_app


def _check_login(config: Mapping[str, Any]) -> Response | None:
    """Protect the API as pyspider protects its pages."""
    if not config.get("need_auth") or current_user.is_active:
        return None
    return answer(HTTPStatus.UNAUTHORIZED, "log in with the name and password of the web UI", LOGIN)


def _check_body() -> None:
    """Refuse what the plain form of another site could send."""
    if request.method in SAFE or not _has_body():
        return
    if request.mimetype != "application/json":
        raise UnsupportedMediaType("send the body as JSON, with Content-Type: application/json")


def _has_body() -> bool:
    return bool(request.content_length) or "Transfer-Encoding" in request.headers
