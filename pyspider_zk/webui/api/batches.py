"""Batches: having something done to projects, and how far it came."""

from typing import Any

from flask import Response, jsonify, url_for
from marshmallow import Schema, fields, validate

from pyspider_zk.errors import LockedProjects
from pyspider_zk.jobs.answers import BATCH_STATES, BatchStatus, Plan
from pyspider_zk.jobs.model import GROUP_LIMIT, PRIORITIES, JobState
from pyspider_zk.jobs.operations import Operation, within_limits
from pyspider_zk.jobs.project_list import ResultPage
from pyspider_zk.projects.selection import Selection
from pyspider_zk.webui.api.backend import backend, user
from pyspider_zk.webui.api.blueprint import Part, in_path
from pyspider_zk.webui.api.schemas import (
    MOST_NAMES,
    SINCE_EPOCH,
    PageOfSchema,
    PageQuerySchema,
    Switch,
    WhichSchema,
    about,
    mirrors,
    number_field,
)

blueprint = Part(
    "batches", __name__, description="Requests for operations on projects, and their progress"
)

Answer = tuple[dict[str, Any], int, dict[str, str]]


class FilterSchema(WhichSchema):
    """Projects by what they are; all that is given must hold."""

    owner = fields.Integer(
        strict=True, validate=validate.Range(0), metadata=about("number of a member")
    )
    all = Switch(metadata=about("really all, if nothing else is given"))


class RequestSchema(Schema):
    """What to do to which projects."""

    operation = fields.String(required=True, validate=validate.OneOf(list(Operation)))
    names = fields.List(
        fields.String(),
        validate=validate.Length(1, MOST_NAMES),
        metadata=about("these projects; with a filter, those of them that it lets through"),
    )
    filter = fields.Nested(FilterSchema)
    arguments = fields.Dict(
        keys=fields.String(),
        load_default=dict,
        metadata=about(
            "delete: wait (for pyspider's 24 hours); rate: rate and burst;"
            " group: group; status: status;"
            " refetch: tasks (ids), state, callback (empty: none), error (text in the last one),"
            " status_code, kind (as failures have it), url (text in it)"
        ),
    )
    dry_run = Switch(load_default=False, metadata=about("only return what it would do"))
    id = fields.String(
        validate=[
            validate.Length(1, GROUP_LIMIT),
            validate.Regexp(r"[A-Za-z0-9_][A-Za-z0-9_.~+:-]*\Z"),
        ],
        metadata=about("the batch's id, so that it may be sent again when the answer was lost"),
    )
    plan = fields.String(
        metadata=about("a plan's digest: 409 if other projects are meant by now"),
    )
    priority = fields.Integer(
        strict=True,
        validate=validate.Range(PRIORITIES.start, PRIORITIES.stop - 1),
        metadata=about("the highest comes first"),
    )


JobCountsSchema = Schema.from_dict(
    {state.value: number_field() for state in JobState}, name="JobCountsSchema"
)
"""How many jobs a batch has in each place."""


@mirrors(
    BatchStatus,
    selection="the filter, or the first of the names that were given",
    user="who asked; empty: nobody was logged in",
    created=SINCE_EPOCH,
    total="projects",
    done="projects",
    failed="projects",
    remaining="projects",
    errors="the first projects that failed, with the reasons",
)
class BatchSchema(Schema):
    """One request for an operation; jobs of up to 2,000 projects of a slot carry it out."""

    state = fields.String(required=True, validate=validate.OneOf(BATCH_STATES))
    jobs = fields.Nested(JobCountsSchema, required=True)


class BatchPageSchema(PageOfSchema):
    """Batches, the newest first."""

    items = fields.List(fields.Nested(BatchSchema), required=True)


@mirrors(
    Plan,
    count="projects",
    names="the first of them",
    jobs="how many jobs it would become",
    digest="stands for all the names; send it as `plan` to have exactly these done",
    unknown="names that were given and that no project has: a batch is refused with them",
)
class PlanSchema(Schema):
    """What a request means, and what would be refused or fail."""


@blueprint.route("/batches")
@blueprint.query(PageQuerySchema)
@blueprint.tells(BatchPageSchema)
def list_batches(query: dict[str, Any]) -> ResultPage:
    """List the batches that are kept, the newest first."""
    return backend().batch_service.batches(**query)


@blueprint.route("/batches", methods=["POST"])
@blueprint.arguments(RequestSchema)
@blueprint.alt_response(200, schema=PlanSchema, content_type="application/json", success=True)
@blueprint.does(BatchSchema, 202, errors=(409,))
def submit_batch(asked: dict[str, Any]) -> Answer | Response:
    """Request an operation on projects; it is durable when this answers.

    With `dry_run` nothing is done; the answer is the plan.
    """
    operation = asked["operation"]
    selection = Selection.parse({"names": asked.get("names", ()), **asked.get("filter", {})})
    arguments = within_limits(operation, asked["arguments"], _limits())
    if asked["dry_run"]:
        return _planned(operation, selection, arguments)
    _check_locks(selection)
    more = {name: asked[name] for name in ("priority", "plan") if name in asked}
    return _accepted(
        backend().batch_service.submit(
            operation, selection, arguments, user(), asked.get("id", ""), **more
        )
    )


@blueprint.route("/batches/<path:id>", parameters=in_path("id"))
@blueprint.tells(BatchSchema, errors=(400, 404))
def get_batch(id: str) -> dict[str, Any]:  # noqa: A002 - the name in the path
    """Return the progress of a batch."""
    return backend().batch_service.batch(id)


@blueprint.route("/batches/<path:id>", methods=["DELETE"], parameters=in_path("id"))
@blueprint.does(BatchSchema, errors=(404,))
def cancel_batch(id: str) -> dict[str, Any]:  # noqa: A002 - the name in the path
    """Stop a batch before its next projects; what is done stays done."""
    return backend().batch_service.cancel(id, user())


@blueprint.route("/batches/<path:id>/retry", methods=["POST"], parameters=in_path("id"))
@blueprint.does(BatchSchema, 202, errors=(404, 422))
def retry_batch(id: str) -> Answer:  # noqa: A002 - the name in the path
    """Ask again for the projects that a batch failed for; the answer is the new batch."""
    failed = backend().batch_service.failed(id)
    if failed:
        _check_locks(Selection(names=tuple(failed)))
    return _accepted(backend().batch_service.retry(id, user()))


def _accepted(batch: dict[str, Any]) -> Answer:
    return batch, 202, {"Location": url_for(".get_batch", id=batch["id"])}


def _planned(operation: str, selection: Selection, arguments: dict[str, Any]) -> Response:
    plan = backend().batch_service.plan(operation, selection, arguments)
    locked = _locked(selection) if selection.given or selection.all else []
    if locked:
        plan["faults"].append(str(LockedProjects(locked)))
    return jsonify(PlanSchema().dump(plan))


def _check_locks(selection: Selection) -> None:
    """Leave locked projects to those who are logged in, as pyspider's pages do.

    Raises:
        LockedProjects: naming them.
    """
    selection.check()
    if locked := _locked(selection):
        raise LockedProjects(locked)


def _locked(selection: Selection) -> list[str]:
    """Return those of the projects that the user may not change."""
    if user():
        return []
    return backend().batch_service.projects.locked(selection)


def _limits() -> dict[str, float]:
    """Return the highest rate and burst that the web UI was started with."""
    given = backend().config
    limits = {name: given.get(f"max_{name}") for name in ("rate", "burst")}
    return {name: limit for name, limit in limits.items() if limit is not None}
