"""The login page: a form that begins and ends sessions."""

from http import HTTPStatus
from typing import cast

from flask import Blueprint, Flask, current_app, redirect, render_template, request
from flask.typing import ResponseReturnValue
from werkzeug.wrappers import Response

from pyspider_zk.webui.access import OPEN
from pyspider_zk.webui.logins import COOKIE, LASTS, Logins, TooManyTries, WrongLogin

PREFIX = OPEN

MOST_BYTES = 16 * 1024  # of a request

_LOGINS = "pyspider_zk"

blueprint = Blueprint("login", __name__)


def create_login(logins: Logins) -> Flask:
    """Return the application; its paths begin behind ``PREFIX``. Threads: any."""
    flask_app = Flask(__name__)
    flask_app.config["MAX_CONTENT_LENGTH"] = MOST_BYTES
    flask_app.extensions[_LOGINS] = logins
    flask_app.register_blueprint(blueprint)
    return flask_app


@blueprint.get("/")
def show() -> ResponseReturnValue:
    """Show who is logged in, or the form."""
    return _page()


@blueprint.post("/")
def log_in() -> ResponseReturnValue:
    """Begin a session and redirect to where the user wanted to go."""
    name, password = request.form.get("name", ""), request.form.get("password", "")
    try:
        cookie = _logins().start_session(name, password, request.remote_addr or "")
    except WrongLogin as error:
        return _page(str(error)), HTTPStatus.UNAUTHORIZED
    except TooManyTries as error:
        after = {"Retry-After": str(error.wait)}
        return _page(str(error)), HTTPStatus.TOO_MANY_REQUESTS, after
    return _with_cookie(redirect(_target(), HTTPStatus.SEE_OTHER), cookie, LASTS)


@blueprint.post("/out")
def log_out() -> ResponseReturnValue:
    """End the session in this browser."""
    return _with_cookie(redirect(f"{PREFIX}/", HTTPStatus.SEE_OTHER), "", 0)


def _page(fault: str = "") -> str:
    try:
        login = _logins().find(request.environ)
    except (WrongLogin, TooManyTries):
        login = None
    by_basic = "Authorization" in request.headers
    target = _target()
    return render_template("login.html", fault=fault, login=login, by_basic=by_basic, target=target)


def _target() -> str:
    """Return the path to go to: one of this web UI, or the front page."""
    wanted = request.values.get("next", "/")
    local = wanted.startswith("/") and not wanted.startswith("//")
    return wanted if local and wanted.isprintable() and "\\" not in wanted else "/"


def _with_cookie(response: Response, value: str, lasts: int) -> Response:
    # Behind a proxy that terminates TLS the scheme here is http; the browser knows the real one.
    secure = request.is_secure or request.headers.get("Origin", "").startswith("https://")
    response.set_cookie(
        COOKIE, value, max_age=lasts, httponly=True, samesite="Strict", secure=secure
    )
    return response


def _logins() -> Logins:
    return cast(Logins, current_app.extensions[_LOGINS])
