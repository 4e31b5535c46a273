"""Tasks: all that is known of one, and the latest tries of all."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, get_args

from marshmallow import Schema, fields, validate

from pyspider_zk.asked import among
from pyspider_zk.rpc.router import ACTIVE_TASKS, Entry, newest
from pyspider_zk.tasks.filters import State, TaskFilter
from pyspider_zk.tasks.task_report import tried
from pyspider_zk.tasks.task_search import CURSOR, FoundTask
from pyspider_zk.webui.api.backend import backend
from pyspider_zk.webui.api.blueprint import Part
from pyspider_zk.webui.api.schemas import (
    PART,
    SINCE_EPOCH,
    STORABLE,
    about,
    limit_field,
    measure_field,
    mirrors,
    number_field,
    text_field,
    time_field,
)

blueprint = Part("tasks", __name__, description="Tasks and their tries")

Row = Mapping[str, Any]

INFO = "_on_get_info"
"""The id of what asks a script for its settings: no task, and without a row."""


class TasksQuerySchema(Schema):
    """Which tasks; all that is given must hold."""

    project = fields.String(validate=STORABLE, metadata=about("the name of one"))
    url = fields.String(
        validate=PART, metadata=about("part of it, in capitals or not; or a task id")
    )
    state = fields.String(validate=validate.OneOf(get_args(State)))
    since = fields.Float(
        metadata=about(f"only tasks that were tried at this time or later, {SINCE_EPOCH}")
    )
    cursor = fields.String(
        load_default="",
        validate=validate.Regexp(CURSOR),
        metadata=about("`next` of the look before"),
    )
    limit = limit_field(25, 100, "a look ends when it has found about so many")


@mirrors(
    FoundTask,
    state="ACTIVE, SUCCESS, FAILED or BAD",
    crawled_at="when its last try ended, seconds since the epoch; null: it had none",
)
class FoundTaskSchema(Schema):
    """A task that was found."""


class FoundTasksSchema(Schema):
    """What one look at the tasks found; it lasts some tenths of a second."""

    items = fields.List(fields.Nested(FoundTaskSchema), required=True)
    next = text_field("cursor of the next look; null: that is all", allow_none=True)
    rows = number_field("how many tasks this look has seen")
    projects = number_field("of how many projects all tasks were seen")
    of = number_field("how many projects there are")


class TriesQuerySchema(Schema):
    """Which tries."""

    project = fields.String(
        load_default="", validate=STORABLE, metadata=about("the name of one; empty: all")
    )
    limit = limit_field(25, 100)


class TrySchema(Schema):
    """A try of a task."""

    project = text_field()
    taskid = text_field()
    url = text_field()
    ok = fields.Boolean(required=True, allow_none=True, metadata=about("null: it has not ended"))
    status_code = number_field("of the answer", allow_none=True)
    fetch_time = measure_field("seconds that fetching took", allow_none=True)
    process_time = measure_field("seconds that its script took", allow_none=True)
    follows = number_field("links that its script followed", allow_none=True)


class LatestTrySchema(TrySchema):
    """A try and when it was."""

    at = time_field("when it was sent, or ended, seconds since the epoch")


class TriesSchema(Schema):
    """Tries, the latest first."""

    items = fields.List(fields.Nested(LatestTrySchema), required=True)
    missing = fields.List(fields.String(), required=True, metadata=about("what does not answer"))


class TaskQuerySchema(Schema):
    """Which task."""

    project = fields.String(required=True, validate=STORABLE, metadata=about("its project's name"))
    id = fields.String(required=True, validate=STORABLE, metadata=about("its id"))


class TaskSchema(TrySchema):
    """A task: its last try, its next one, and what is stored of it."""

    state = text_field("ACTIVE, SUCCESS, FAILED or BAD")
    callback = text_field("the method of the script that gets the page; empty: not known")
    crawled_at = measure_field("last try's end", allow_none=True)
    due_at = measure_field(
        "when an ACTIVE task is due; null: at once, or the task is not ACTIVE", allow_none=True
    )
    retried = number_field("failed tries since it was requested", allow_none=True)
    retries = number_field("tries more that it may have; null: the usual", allow_none=True)
    priority = measure_field("the highest comes first", allow_none=True)
    error = text_field("of the last try")
    logs = text_field("what its script logged in the last try")
    documents = fields.Dict(
        keys=fields.String(),
        values=fields.String(),
        required=True,
        metadata=about("the stored columns and the result, as JSON, or its beginning"),
    )


@blueprint.route("/tasks")
@blueprint.query(TasksQuerySchema)
@blueprint.tells(FoundTasksSchema)
def search_tasks(query: dict[str, Any]) -> dict[str, Any]:
    """Search tasks by URL, project, state and time, some with each look.

    Tasks whose whole URL is given come first, then each project's in turn.
    """
    wanted = among(TaskFilter, query)
    look = backend().reports.search.look(wanted, query["cursor"], query["limit"])
    return {**look._asdict(), "items": look.tasks, "next": look.cursor or None}


@blueprint.route("/tries")
@blueprint.query(TriesQuerySchema)
@blueprint.tells(TriesSchema)
def list_tries(query: dict[str, Any]) -> dict[str, Any]:
    """List the latest tries; of those that have ended it is not told that they were sent.

    Owners have them in memory, a hundred of each project at most.
    """
    try:
        project, limit = query["project"] or None, query["limit"]
        answers, silent = backend().rpc.ask(ACTIVE_TASKS, project, limit, shape=list[Entry])
    except OSError as error:
        return {"items": [], "missing": [f"the schedulers cannot be asked: {error}"]}
    found = newest(answers.values(), limit)
    tries = [{"at": at, **tried(task)} for at, task in found if task.get("taskid") != INFO]
    missing = [f"member {member.number} does not answer" for member in silent]
    if not (answers or silent):
        missing.append("no scheduler can be reached")
    return {"items": list(_without_sent(tries)), "missing": missing}


def _without_sent(tries: Iterable[Row]) -> Iterator[Row]:
    """Yield tries, the latest first, but for the sending of those that have ended since."""
    later: set[tuple[str, str]] = set()
    for each in tries:
        key = each["project"], each["taskid"]
        if each["ok"] is not None or key not in later:
            yield each
        later.add(key)


@blueprint.route("/task")
@blueprint.query(TaskQuerySchema)
@blueprint.tells(TaskSchema, errors=(404,))
def get_task(query: dict[str, str]) -> dict[str, Any]:
    """Return a task."""
    return backend().reports.task.find(query["project"], query["id"])
