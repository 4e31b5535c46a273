"""Projects: which there are, who schedules them, and the numbers that their owners hold."""

import time
from collections.abc import Collection
from typing import Any

from marshmallow import Schema, fields, validate

from pyspider_zk.cluster.records import Phase
from pyspider_zk.errors import NotFound, SessionLost, Unavailable
from pyspider_zk.groups.ids import MemberId
from pyspider_zk.jobs.answers import Project
from pyspider_zk.jobs.project_list import SORTS, ResultPage
from pyspider_zk.projects.selection import Selection
from pyspider_zk.webui.api.backend import backend
from pyspider_zk.webui.api.blueprint import Part, in_path
from pyspider_zk.webui.api.schemas import (
    PageOfSchema,
    PageQuerySchema,
    WhichSchema,
    about,
    measure_field,
    mirrors,
    number_field,
    owner_field,
    text_field,
    time_field,
)

blueprint = Part("projects", __name__, description="Projects and who schedules them")

workload = Part("workload", __name__, description="Projects with their owners' numbers")

Row = dict[str, Any]

_ORDERS = [*SORTS, *(f"-{key}" for key in SORTS)]


TROUBLES = ("cannot_start", "paused", "quarantined")

NUMBER_SORTS = ("pending", "due", "sent", "due_since", "next_due", "success", "failed", "rate_now")


class ProjectQuerySchema(WhichSchema, PageQuerySchema):
    """Which projects; all that is given must hold."""

    owner = fields.Integer(validate=validate.Range(0), metadata=about("number of a member"))
    sort = fields.String(
        load_default="name",
        validate=validate.OneOf(_ORDERS),
        metadata=about("with - before it the other way round"),
    )


class WorkloadQuerySchema(ProjectQuerySchema):
    """Which projects, in which order; all that is given must hold."""

    trouble = fields.String(
        validate=validate.OneOf(TROUBLES),
        metadata=about("which number of theirs must tell of one"),
    )
    sort = fields.String(
        load_default="name",
        validate=validate.OneOf([*_ORDERS, *NUMBER_SORTS, *(f"-{key}" for key in NUMBER_SORTS)]),
        metadata=about("with - before it the other way round; unknown numbers come last"),
    )


@mirrors(
    Project,
    status="TODO, STOP, CHECKING, DEBUG or RUNNING",
    rate="tasks per second; null: none, or infinite",
    burst="tasks at once; null: none, or infinite",
    updatetime="last change",
    slot="the slot that it belongs to",
)
class ProjectSchema(Schema):
    """A project without its script."""

    owner = owner_field(null=", or it is `missing`")


class ProjectPageSchema(PageOfSchema):
    """Projects, those from `offset` on."""

    items = fields.List(fields.Nested(ProjectSchema), required=True)
    missing = fields.List(fields.String(), required=True, metadata=about("what does not answer"))


class RouteSchema(ProjectSchema):
    """A project and who schedules it."""

    address = text_field("host:port of the owner's XML-RPC", allow_none=True)
    phase = fields.Enum(Phase, by_value=True, required=True)
    next = owner_field("number of the member that gets the slot once it is released")


class HourSchema(Schema):
    """Tries that ended within the last hour."""

    success = number_field()
    failed = number_field()
    retry = number_field()


class NumbersSchema(Schema):
    """What a project's owner holds."""

    pending = number_field("tasks in memory")
    due = number_field("of them, those that wait for nothing but their rate")
    sent = number_field("of them, those that fetcher and processor have")
    due_since = measure_field(
        "since when the oldest due task waits in its owner's memory", allow_none=True
    )
    next_due = measure_field("when the next of the others is due", allow_none=True)
    paused = fields.Boolean(required=True, metadata=about("after too many failures"))
    every = number_field(
        "seconds between the ticks of its @every; null: it has none", allow_none=True
    )
    next_tick = measure_field("when the next one is due", allow_none=True)
    cannot_start = text_field(
        "why its script does not run; null: it does, or nothing is known", allow_none=True
    )
    success = number_field("tasks in the database")
    failed = number_field("tasks in the database")
    hour = fields.Nested(HourSchema, required=True)
    rate_now = measure_field("tries that ended per second, over five minutes")
    quarantined = text_field("why it is in quarantine; null: it is not", allow_none=True)


class WorkloadSchema(ProjectSchema):
    """A project with its numbers."""

    numbers = fields.Nested(NumbersSchema, required=True, allow_none=True)
    history = fields.List(
        fields.Integer(strict=True),
        required=True,
        allow_none=True,
        metadata=about("tries that ended in each of the last 60 minutes; null: none, or unknown"),
    )


class WorkloadPageSchema(PageOfSchema):
    """Projects, those from `offset` on."""

    at = time_field("when this was reported, seconds since the epoch")
    items = fields.List(fields.Nested(WorkloadSchema), required=True)
    missing = fields.List(fields.String(), required=True, metadata=about("what does not answer"))


@blueprint.route("/projects")
@blueprint.query(ProjectQuerySchema)
@blueprint.tells(ProjectPageSchema)
def list_projects(query: dict[str, Any]) -> dict[str, Any]:
    """List projects; if ZooKeeper is away, without their owners, and `missing` says so."""
    paging = {name: query.pop(name) for name in ("sort", "offset", "limit")}
    page, missing = find(Selection(**query, all=True), **paging)
    return {**page.as_dict(), "missing": missing}


@blueprint.route("/projects/<string:name>", parameters=in_path("name"))
@blueprint.tells(RouteSchema, errors=(400, 404))
def get_project(name: str) -> dict[str, Any]:
    """Return one project and the member that schedules it."""
    found = backend().batch_service.projects.page(Selection(names=(name,)), with_owners=False).items
    if not found:
        raise NotFound(f"there is no project {name!r}")
    cluster, slot = backend().cluster(), found[0]["slot"]
    row, owner = cluster.assignment.slots[slot], cluster.owner(slot)
    return {
        **found[0],
        "owner": number(owner),
        "address": cluster.members[owner].address if owner else None,
        "phase": row.phase,
        "next": number(row.next),
    }


def find(selection: Selection, sort: str, **paging: Any) -> tuple[ResultPage, list[str]]:
    """Return projects and what is missing: their owners, unless the question is about those.

    Raises:
        Unavailable: the question is about owners, or the project database is away.
    """
    page = backend().batch_service.projects.page
    try:
        return page(selection, sort, **paging), []
    except (Unavailable, SessionLost) as error:
        if selection.owner is not None or sort.removeprefix("-") == "owner":
            raise
        return page(selection, sort, **paging, with_owners=False), [f"owners: {error}"]


def number(member: MemberId | None) -> int | None:
    """Return a member's number."""
    return member.number if member else None


@workload.route("/workload")
@workload.query(WorkloadQuerySchema)
@workload.tells(WorkloadPageSchema)
def list_workload(query: dict[str, Any]) -> dict[str, Any]:
    """List projects with what their owners have of them.

    The numbers are recomputed for each answer. They are null for a project whose owner does not
    answer; `missing` names such members. If ZooKeeper is away, it says so, and owners are null.
    """
    sort, offset, limit = (query.pop(name) for name in ("sort", "offset", "limit"))
    trouble, by_numbers = query.pop("trouble", None), sort.removeprefix("-") in NUMBER_SORTS
    found, missing = find(Selection(**query, all=True), "name" if by_numbers else sort)
    part = slice(offset, offset + limit)
    wanted = None if by_numbers or trouble else [row["name"] for row in found.items[part]]
    numbers, silent = _ask("local_project_numbers", missing, wanted)
    rows = [{**row, "numbers": numbers.get(row["name"])} for row in found.items]
    if trouble:
        rows = [row for row in rows if (row["numbers"] or {}).get(trouble)]
    shown = (_sorted(rows, sort) if by_numbers else rows)[part]
    names = [row["name"] for row in shown]
    history, _ = _ask("local_project_history", [], names, past=silent)  # they had their time
    items = [{**row, "history": history.get(row["name"])} for row in shown]
    missing += [f"member {member.number} does not answer" for member in silent]
    page = {"items": items, "total": len(rows), "offset": offset}
    return {**page, "at": time.time(), "missing": missing}


def _ask(
    method: str, missing: list[str], *args: Any, past: Collection[MemberId] = ()
) -> tuple[Row, list[MemberId]]:
    """Return what the owners say, by project, and who does not answer."""
    try:
        answers, silent = backend().rpc.ask(method, *args, past=past, shape=dict[str, Any])
    except OSError as error:
        missing.append(f"the schedulers cannot be asked: {error}")
        return {}, []
    union = {name: value for answer in answers.values() for name, value in answer.items()}
    return union, silent


def _sorted(rows: list[Row], sort: str) -> list[Row]:
    """Sort by a number; what is unknown comes last in any case."""
    key = sort.removeprefix("-")
    known = [row for row in rows if (row["numbers"] or {}).get(key) is not None]
    rest = [row for row in rows if (row["numbers"] or {}).get(key) is None]
    return sorted(known, key=lambda row: row["numbers"][key], reverse=sort.startswith("-")) + rest
