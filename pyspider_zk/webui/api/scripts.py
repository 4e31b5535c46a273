"""Scripts of projects: reading and saving them, and their versions."""

import difflib
import hashlib
import inspect
import time
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any
from xmlrpc.client import Fault

from flask import request
from marshmallow import Schema, ValidationError, fields, validate
from pyspider.libs import sample_handler

from pyspider_zk.cluster.events import EventKind
from pyspider_zk.errors import BadMessage, Conflict, LockedProjects, NotFound, Unavailable
from pyspider_zk.jobs.operations import is_locked
from pyspider_zk.projects.names import PROJECT_NAME_LIMIT, check_project_name
from pyspider_zk.projects.rows import ACTIVE, is_text
from pyspider_zk.projects.script_versions import ScriptVersion
from pyspider_zk.tasks.database import answered
from pyspider_zk.webui.api.backend import backend, tell, user
from pyspider_zk.webui.api.blueprint import Part, in_path
from pyspider_zk.webui.api.schemas import (
    STORABLE,
    about,
    measure_field,
    mirrors,
    text_field,
    time_field,
)
from pyspider_zk.webui.audit import change_event

blueprint = Part("scripts", __name__, description="Scripts of projects and their versions")

Row = Mapping[str, Any]

MOST_LINES = 5_000
"""Of scripts that are compared: time grows with their square, and anybody who may look may ask."""

_SAMPLE = inspect.getsource(sample_handler)
_COLUMNS = ["name", "script", "updatetime", "status", "group"]


def _check_text(text: str) -> None:
    if not is_text(text):
        raise ValidationError("has half of a surrogate pair, which has no UTF-8")


class ScriptSchema(Schema):
    """A project's script."""

    script = text_field()
    md5 = text_field("its MD5 in UTF-8, to send as `if`")
    updatetime = time_field("when it was saved, seconds since the epoch")


class NewScriptQuerySchema(Schema):
    """What a script is to be for."""

    project = fields.String(
        required=True,
        validate=validate.Regexp(
            rf"^[^\x00-\x1f\x7f]{{1,{PROJECT_NAME_LIMIT}}}\Z",  # it is a comment of one line
            error=f"has no control characters, and {PROJECT_NAME_LIMIT} characters at most",
        ),
        metadata=about("the project's name"),
    )
    start = fields.String(
        load_default="",
        validate=validate.Regexp(
            r"^(?:https?://[\s\S]*)?\Z", error="a start URL begins with http:// or https://"
        ),
        metadata=about("the URL that its `on_start` crawls"),
    )


class NewScriptSchema(Schema):
    """A script to begin with."""

    script = text_field()


class ScriptToSaveSchema(Schema):
    """A script, and what it is to replace."""

    script = fields.String(required=True, validate=[STORABLE, _check_text])
    replaces = fields.String(
        data_key="if",
        validate=validate.Regexp(r"^(?:[0-9a-f]{32})?\Z"),
        metadata=about(
            "MD5 of the script that it was made from: 409 if there is another by now;"
            " empty: 409 if there is such a project"
        ),
    )


class SavedScriptSchema(Schema):
    """A script that was saved."""

    md5 = text_field("its MD5 in UTF-8")
    status = text_field("the project's status now")
    error = text_field("why it cannot run, and where; null: it can be compiled", allow_none=True)


@mirrors(
    ScriptVersion,
    saved_at="when it was saved, seconds since the epoch, in whole milliseconds",
    who="who saved it; empty: not known, or nobody was logged in",
)
class ScriptVersionSchema(Schema):
    """A version of a script."""


class ScriptVersionsSchema(Schema):
    """The versions of a script that are kept, the newest first."""

    items = fields.List(fields.Nested(ScriptVersionSchema), required=True)


class VersionQuerySchema(Schema):
    """What a version is compared with."""

    against = fields.Float(metadata=about("`saved_at` of another; without: of the one before"))


class OneVersionSchema(ScriptVersionSchema):
    """A version of a script, with what it has changed."""

    script = text_field()
    against = measure_field(
        "`saved_at` of the version that it is compared with; null: there is none", allow_none=True
    )
    diff = text_field("the difference from that, as a unified diff")


@blueprint.route("/new-script")
@blueprint.query(NewScriptQuerySchema)
@blueprint.tells(NewScriptSchema)
def new_script(query: dict[str, str]) -> dict[str, str]:
    """Return pyspider's sample script, filled in for a project that is still to be saved."""
    script = _SAMPLE.replace("__DATE__", time.strftime("%Y-%m-%d %H:%M:%S"))
    script = script.replace("__PROJECT_NAME__", query["project"])
    start = repr(query["start"] or "__START_URL__")
    return {"script": script.replace("'__START_URL__'", start)}


@blueprint.route("/projects/<string:name>/script", parameters=in_path("name"))
@blueprint.tells(ScriptSchema, errors=(400, 404))
def get_script(name: str) -> dict[str, Any]:
    """Return a project's script."""
    row = _found(name)
    script = str(row["script"] or "")
    return {"script": script, "md5": _md5(script), "updatetime": row["updatetime"]}


@blueprint.route("/projects/<string:name>/script", methods=["PUT"], parameters=in_path("name"))
@blueprint.arguments(ScriptToSaveSchema)
@blueprint.alt_response(201, schema=SavedScriptSchema, content_type="application/json")
@blueprint.does(SavedScriptSchema, errors=(409,))
def save_script(asked: dict[str, Any], name: str) -> tuple[dict[str, Any], int]:
    """Save a project's script as the editor does; 201: the project was created, with status TODO.

    One that runs gets the status CHECKING. A script that cannot run is saved all the same. Only
    admins may, where there are roles.
    """
    check_project_name(name)
    row, script = _row(name), asked["script"]
    _check_replaced(name, row, asked.get("replaces"), script)
    state = _create(name, script) if row is None else _replace(name, row, script)
    text = f"save the script of {name}"
    tell(change_event(request.environ, EventKind.SCRIPT, [name], text, _announced()))
    status = HTTPStatus.CREATED if row is None else HTTPStatus.OK
    return {"md5": _md5(script), "status": state, "error": _fault(name, script)}, status


@blueprint.route("/projects/<string:name>/versions", parameters=in_path("name"))
@blueprint.tells(ScriptVersionsSchema, errors=(400, 404))
def list_versions(name: str) -> dict[str, Any]:
    """List the versions of a project's script that are kept, the newest first."""
    _found(name, "name")
    return {"items": backend().scripts.versions(name)}


@blueprint.route("/projects/<string:name>/versions/<float:saved_at>", parameters=in_path("name"))
@blueprint.query(VersionQuerySchema)
@blueprint.tells(OneVersionSchema, errors=(400, 404))
def get_version(query: dict[str, Any], name: str, saved_at: float) -> dict[str, Any]:
    """Return a version of a script, and how it differs from the one before or another."""
    _found(name, "name")
    known = {each.saved_at: each for each in backend().scripts.versions(name)}
    older = max((at for at in known if at < saved_at), default=None)
    against = query.get("against", older)
    before, after = (_version(name, at, known) for at in (against, saved_at))
    diff = _diff(before, after, "" if against is None else str(against), str(saved_at))
    return {**known[saved_at]._asdict(), "script": after, "against": against, "diff": diff}


def _version(name: str, saved_at: float | None, known: Mapping[float, ScriptVersion]) -> str:
    """Return the script of a version; that before the first is empty."""
    if saved_at is None:
        return ""
    script = backend().scripts.script(name, saved_at) if saved_at in known else None
    if script is None:
        raise NotFound(f"no version of the script of {name!r} was saved at {saved_at}")
    return script


def _diff(before: str, after: str, old: str, new: str) -> str:
    lines = before.split("\n"), after.split("\n")
    if max(map(len, lines)) > MOST_LINES:
        return f"--- {old}\n+++ {new}\nscripts of more than {MOST_LINES} lines are not compared"
    return "\n".join(difflib.unified_diff(*lines, fromfile=old, tofile=new, lineterm=""))


def _row(name: str, *columns: str) -> Row | None:
    projectdb, wanted = backend().config["projectdb"], columns or _COLUMNS
    found: Row | None = answered(lambda: projectdb.get(name, fields=wanted))
    return found


def _found(name: str, *columns: str) -> Row:
    row = _row(name, *columns)
    if row is None:
        raise NotFound(f"there is no project {name!r}")
    return row


def _check_replaced(name: str, row: Row | None, expected: str | None, script: str) -> None:
    """Refuse to replace another script than the expected one, or one that is locked.

    What is there may be this one already: then the answer to an earlier request was lost.

    Raises:
        LockedProjects, Conflict: naming the project.
    """
    if row and is_locked(row["group"]) and not user():
        raise LockedProjects([name])
    there = _md5(str(row["script"] or "")) if row else ""
    if expected is not None and there not in (expected, _md5(script)):
        what = "another script by now: look at it again" if row else "not been created, or is gone"
        raise Conflict(f"project {name!r} has {what}")


def _create(name: str, script: str) -> str:
    """Add a project; return its status.

    Raises:
        BadMessage: the database can have no tables of that name.
        Conflict: another one has just added it, with another script.
        Unavailable: the database does not answer; the project may have been added.
    """
    projectdb, config = backend().config["projectdb"], backend().config
    if not projectdb.verify_project_name(name):
        raise BadMessage(f"project name {name!r} is too long for the database")
    limits = {"rate": config.get("max_rate", 1), "burst": config.get("max_burst", 3)}
    status = "TODO"
    project = {"name": name, "script": script, "status": status, **limits}
    try:
        answered(lambda: projectdb.insert(name, project))
    except Unavailable as error:
        there = _row(name, "script")
        if there and str(there["script"] or "") != script:  # this very one may be by this request
            raise Conflict(f"project {name!r} has just been created: look at it") from error
        raise
    return status


def _replace(name: str, row: Row, script: str) -> str:
    """Change a project's script; return its status."""
    projectdb = backend().config["projectdb"]
    changed = {"status": "CHECKING"} if row["status"] in ACTIVE else {}
    if not answered(lambda: projectdb.update(name, {"script": script, **changed})):
        raise Conflict(f"project {name!r} has just been deleted")
    return str({**row, **changed}["status"])


def _announced() -> str:
    """Tell the schedulers, and return the result in words; they look by themselves as well."""
    try:
        backend().rpc.update_project()
    except (OSError, Fault):
        return "done, but no scheduler could be told"
    return "done"


def _fault(name: str, script: str) -> str | None:
    """Return why a script cannot be compiled."""
    try:
        compile(script, f"{name}.py", "exec", dont_inherit=True)
    except SyntaxError as error:
        return f"line {error.lineno}: {error.msg}"
    except (ValueError, RecursionError, MemoryError, OverflowError) as error:
        return f"{type(error).__name__}: {error}"
    return None


def _md5(script: str) -> str:
    return hashlib.md5(script.encode(), usedforsecurity=False).hexdigest()
