"""Limits of what pyspider's pages accept."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from flask import Response, request

from pyspider_zk.errors import BadRequest
from pyspider_zk.jobs.operations import Operation, check_arguments
from pyspider_zk.projects.names import is_project_name

_LISTS = ("/active_tasks", "/results/dump")
_NUMBER = re.compile(r"-?[0-9]{1,9}")

_OPERATIONS = {
    "rate": Operation.RATE,
    "group": Operation.GROUP,
    "status": Operation.STATUS,
}


@contextmanager
def limited(flask_app: Any) -> Iterator[None]:
    """Refuse values no project can have while the block runs."""
    checks = flask_app.before_request_funcs.setdefault(None, [])
    checks += _CHECKS
    try:
        yield
    finally:
        for check in _CHECKS:
            checks.remove(check)


def _check_update() -> Response | None:
    """Check what `/update` writes into a project's row by the rules of operations.

    A rate that is no number would keep the project from being scheduled.
    """
    if request.path != "/update" or request.method != "POST":
        return None
    name, value = request.form.get("name", ""), request.form.get("value", "")
    try:
        if name in _OPERATIONS:
            check_arguments(_OPERATIONS[name], _arguments(name, value))
    except BadRequest as error:
        return _refused(str(error))
    return None


def _check_query() -> Response | None:
    """Check how many entries of which project an answer is to have."""
    if not request.path.startswith(_LISTS):
        return None
    project = request.args.get("project", "")
    if project and not is_project_name(project):
        return _refused(f"project {project!r:.80} cannot be: no project has such a name")
    for name in ("offset", "limit"):
        if not _NUMBER.fullmatch(value := request.args.get(name, "0")):
            return _refused(f"{name} must be a whole number of at most 9 digits, not {value!r:.80}")
    return None


_CHECKS = (_check_update, _check_query)


def _refused(why: str) -> Response:
    return Response(why, 400, mimetype="text/plain")


def _arguments(name: str, value: str) -> dict[str, Any]:
    if name != "rate":
        return {name: value}
    rate, _, burst = value.partition("/")
    try:
        return {"rate": float(rate), "burst": float(burst)}
    except ValueError:
        raise BadRequest(f"rate must be two numbers, such as 1/3, not {value!r:.80}") from None
