"""History: what was counted in the steps of a day, a week or two, of the cluster or a project."""

import time
from typing import Any

from marshmallow import Schema, fields, validate

from pyspider_zk.queues.history import SPANS, read_history
from pyspider_zk.webui.api.backend import backend
from pyspider_zk.webui.api.blueprint import Part
from pyspider_zk.webui.api.schemas import STORABLE, about, number_field, time_field

blueprint = Part("history", __name__, description="What was counted in the last two weeks")

_OF_CLUSTER = "null: not known, as of a project"


class HistoryQuerySchema(Schema):
    """Whose history, and how much of it."""

    project = fields.String(
        load_default="",
        validate=STORABLE,
        metadata=about("the name of one; without it the whole cluster's"),
    )
    span = fields.String(
        load_default="day", validate=validate.OneOf(SPANS), metadata=about("how far back")
    )


def _counts(text: str) -> fields.List[Any]:
    return fields.List(fields.Integer(strict=True), required=True, metadata=about(text))


def _measures(text: str) -> fields.List[Any]:
    told = about(f"{text}; {_OF_CLUSTER}")
    return fields.List(fields.Float(allow_none=True), required=True, metadata=told)


class HistorySchema(Schema):
    """What was counted in each step, the oldest first; the latest one lasts."""

    at = time_field("when the first step began, seconds since the epoch")
    step = number_field("seconds of each")
    success = _counts("tries that succeeded")
    failed = _counts("tries after which a task was given up")
    retry = _counts("tries that failed, and after which the task is tried again")
    fetch_time = _measures("seconds that a fetch took, on average")
    process_time = _measures("seconds that a call of a script took, on average")
    pending = _measures("tasks that were pending, on average")


@blueprint.route("/history")
@blueprint.query(HistoryQuerySchema)
@blueprint.tells(HistorySchema)
def get_history(query: dict[str, Any]) -> dict[str, Any]:
    """Return what was counted in the last day, week or fortnight.

    A scheduler adds once a minute what it has counted, so one that is killed takes a minute of it
    along. A project has steps of an hour, and its counts only; no project may have the name, or it
    may be deleted: what it counted is kept for two weeks.
    """
    return read_history(backend().history, query["project"], query["span"], time.time())
