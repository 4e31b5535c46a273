"""Failures: what fails in all projects, grouped by kinds of errors."""

import time
from typing import Any

from marshmallow import Schema, fields, validate

from pyspider_zk.asked import among
from pyspider_zk.tasks.failures import FailedTask, FailureKind, Position
from pyspider_zk.tasks.filters import FailureFilter
from pyspider_zk.webui.api.backend import backend
from pyspider_zk.webui.api.blueprint import Part
from pyspider_zk.webui.api.schemas import (
    PART,
    SINCE_EPOCH,
    STORABLE,
    PageOfSchema,
    PageQuerySchema,
    about,
    limit_field,
    mirrors,
    number_field,
    text_field,
    time_field,
)

blueprint = Part("failures", __name__, description="Tasks that fail, in all projects")

MOST_PROJECTS = 100_000


class FailureFilterSchema(Schema):
    """Which failures; all that is given must hold."""

    project = fields.String(validate=STORABLE, metadata=about("the name of one"))
    kind = fields.String(validate=STORABLE, metadata=about("exactly this kind of error"))
    callback = fields.String(
        validate=STORABLE,
        metadata=about("the method of the script that got the page; empty: not known"),
    )
    status_code = fields.Integer(
        validate=validate.Range(0, 999), metadata=about("of the answer; 0: there was none")
    )
    since = fields.Float(
        metadata=about(f"only tasks that failed at this time or later, {SINCE_EPOCH}")
    )
    url = fields.String(validate=PART, metadata=about("part of it, in capitals or not"))
    error = fields.String(validate=PART, metadata=about("part of the last one, in capitals or not"))


class FailureKindQuerySchema(FailureFilterSchema, PageQuerySchema):
    """Which failures, and how many kinds of them."""


class FailedTaskQuerySchema(FailureFilterSchema):
    """Which failures, and how many tasks of them."""

    cursor = fields.String(
        validate=validate.Regexp(r"^0x1\.[0-9a-f]{13}p[0-9]{1,2} [^ \x00]+ [^\x00]+\Z"),
        metadata=about("`next` of the page before"),
    )
    limit = limit_field(25)


@mirrors(
    FailureKind,
    kind="the error, without what varies, such as numbers, times and addresses",
    callback="the method of the script that got the page; empty: not known",
    status_code="of the answer; 0: there was none",
    tasks="how many tasks fail so",
    given_up="of these, how many are not tried again",
    projects="how many projects they are of",
    first_at="when the first of these tasks began to fail, seconds since the epoch",
    last_at="when one of them failed last",
)
class FailureKindSchema(Schema):
    """Failures of one kind, callback and status code."""


class FailureKindPageSchema(PageOfSchema):
    """Kinds of failures, those of most tasks first."""

    at = time_field("when this was read, seconds since the epoch")
    items = fields.List(fields.Nested(FailureKindSchema), required=True)


@mirrors(
    FailedTask,
    error="of the last try",
    is_given_up="whether it is not tried again",
    first_at="since when it fails, seconds since the epoch",
    last_at="when it failed last",
)
class FailedTaskSchema(Schema):
    """A task that fails."""

    logs = text_field("what its script logged in the last try, the traceback among it")


class FailedTaskPageSchema(Schema):
    """Tasks that fail, the latest first."""

    items = fields.List(fields.Nested(FailedTaskSchema), required=True)
    next = text_field("cursor of the next page; null: no more", allow_none=True)


class FailingProjectSchema(Schema):
    """A project with tasks that fail."""

    name = text_field()
    tasks = number_field("how many of them")


class FailingProjectsSchema(Schema):
    """Projects with tasks that fail, those with most first."""

    items = fields.List(fields.Nested(FailingProjectSchema), required=True)


@blueprint.route("/failures")
@blueprint.query(FailureKindQuerySchema)
@blueprint.tells(FailureKindPageSchema)
def list_failures(query: dict[str, Any]) -> dict[str, Any]:
    """List kinds of failures, those of most tasks first."""
    wanted = among(FailureFilter, query)
    kinds, total = backend().reports.failures.kinds(wanted, query["offset"], query["limit"])
    return {"at": time.time(), "items": kinds, "total": total, "offset": query["offset"]}


@blueprint.route("/failures/tasks")
@blueprint.query(FailedTaskQuerySchema)
@blueprint.tells(FailedTaskPageSchema)
def list_failed_tasks(query: dict[str, Any]) -> dict[str, Any]:
    """List tasks that fail, the latest first, with their tracebacks."""
    after = _position(query["cursor"]) if "cursor" in query else None
    tasks = backend().reports.failures.tasks(among(FailureFilter, query), after, query["limit"])
    logs = backend().reports.failures.logs(tasks)
    is_last = len(tasks) < query["limit"]
    return {
        "items": [{**task._asdict(), "logs": each} for task, each in zip(tasks, logs, strict=True)],
        "next": None if is_last else _cursor(tasks[-1].position),
    }


@blueprint.route("/failures/projects")
@blueprint.query(FailureFilterSchema)
@blueprint.tells(FailingProjectsSchema)
def list_failing_projects(query: dict[str, Any]) -> dict[str, Any]:
    """List the projects of some failures, such as to have their tasks fetched again.

    A project that was removed from its database in another way than by a deletion is left out.
    """
    found = backend().reports.failures.projects(among(FailureFilter, query), MOST_PROJECTS)
    known = backend().batch_service.projects.rows()
    return {"items": [{"name": name, "tasks": found[name]} for name in found if name in known]}


def _cursor(position: Position) -> str:
    return " ".join((position[0].hex().replace("+", ""), *position[1:]))


def _position(cursor: str) -> Position:
    at, project, taskid = cursor.split(" ", 2)  # an id may have spaces
    return float.fromhex(at), project, taskid
