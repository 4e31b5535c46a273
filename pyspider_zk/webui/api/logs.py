"""Logs: what all components of the cluster have warned of lately."""

from dataclasses import asdict
from typing import Any

from marshmallow import Schema, fields, validate

from pyspider_zk.queues.log_lines import LEVELS, LogFilter, LogLine, read_log
from pyspider_zk.webui.api.backend import backend
from pyspider_zk.webui.api.blueprint import Part
from pyspider_zk.webui.api.schemas import PART, SINCE_EPOCH, about, limit_field, mirrors, text_field

blueprint = Part("logs", __name__, description="What all components have warned of lately")


class LogQuerySchema(Schema):
    """Which lines; all that is given must hold."""

    level = fields.String(
        load_default=LEVELS[0], validate=validate.OneOf(LEVELS), metadata=about("the least")
    )
    component = fields.String(load_default="", metadata=about("its kind, such as processor"))
    project = fields.String(load_default="", metadata=about("the name of one"))
    q = fields.String(
        load_default="",
        validate=PART,
        metadata=about("part of the message or the traceback, in capitals or not"),
    )
    cursor = fields.String(
        load_default="",
        validate=validate.Regexp(r"^[0-9]{1,20}-[0-9]{1,20}\Z"),
        metadata=about("`next` of the page before"),
    )
    limit = limit_field(50)


@mirrors(
    LogLine,
    at=f"by the clock of its machine, {SINCE_EPOCH}",
    component="its kind; all: of what `pyspider-zk all` runs in one process",
    logger="who warned, in the component",
    message="in one line, 2,000 characters at most",
    project="that it is about; empty: not known",
    task="the id of one that it is about; empty: not known",
    traceback="its last 8,000 characters; empty: there is none",
)
class LogLineSchema(Schema):
    """What a component has warned of."""

    id = text_field("its place in the log")


class LogPageSchema(Schema):
    """Lines of the log, the latest first."""

    items = fields.List(fields.Nested(LogLineSchema), required=True)
    next = text_field(
        "cursor of the next page, which may have fewer lines; null: no more", allow_none=True
    )


@blueprint.route("/logs")
@blueprint.query(LogQuerySchema)
@blueprint.tells(LogPageSchema)
def list_log_lines(query: dict[str, Any]) -> dict[str, Any]:
    """List what all components have warned of lately, the latest first.

    Redis keeps the latest ten thousand warnings and errors; each component sends its own within a
    second or two. What a component logs otherwise is only in its own log.
    """
    wanted = LogFilter(query["level"], query["component"], query["project"], query["q"])
    found, following = read_log(backend().log, wanted, query["cursor"], query["limit"])
    return {"items": [{"id": tag, **asdict(line)} for tag, line in found], "next": following}
