"""Results: those of a project, the latest first."""

from collections.abc import Mapping
from itertools import islice
from typing import Any

from marshmallow import Schema, fields

from pyspider_zk.projects.rows import is_number
from pyspider_zk.tasks.database import answered
from pyspider_zk.tasks.documents import UNREADABLE
from pyspider_zk.tasks.task_report import shown
from pyspider_zk.webui.api.backend import backend
from pyspider_zk.webui.api.blueprint import Part
from pyspider_zk.webui.api.schemas import (
    STORABLE,
    PageOfSchema,
    PageQuerySchema,
    about,
    measure_field,
    text_field,
)

blueprint = Part("results", __name__, description="Results of projects")

MOST_FIELDS, MOST_TEXT = 50, 200
"""Fields of a result, and characters of each."""


class ResultQuerySchema(PageQuerySchema):
    """Whose results, and which of them."""

    project = fields.String(required=True, validate=STORABLE, metadata=about("the name of one"))


class ResultSchema(Schema):
    """A result, as much of it as fits a list."""

    taskid = text_field()
    url = text_field()
    updatetime = measure_field("when it was saved, seconds since the epoch", allow_none=True)
    fields_ = fields.Dict(
        keys=fields.String(),
        values=fields.String(),
        required=True,
        data_key="fields",
        metadata=about("its fields as JSON, the beginnings; one without a name: it has no fields"),
    )


class ResultPageSchema(PageOfSchema):
    """Results, those from `offset` on."""

    items = fields.List(fields.Nested(ResultSchema), required=True)


@blueprint.route("/results")
@blueprint.query(ResultQuerySchema)
@blueprint.tells(ResultPageSchema)
def list_results(query: dict[str, Any]) -> dict[str, Any]:
    """List results of a project, the latest first; there are exports of whole ones."""
    project, offset, limit = query["project"], query["offset"], query["limit"]
    total, items = answered(lambda: _read(project, offset, limit))
    return {"items": items, "total": total, "offset": offset}


def _read(project: str, offset: int, limit: int) -> tuple[int, list[dict[str, Any]]]:
    """Read results one by one: each may be of many MB, of which a list has little."""
    resultdb = backend().config["resultdb"]
    if not resultdb:
        return 0, []
    resultdb.get(project, "any")  # looks for tables that were made since
    if project not in resultdb.projects:
        return 0, []
    taskids = [row["taskid"] for row in resultdb.select(project, ["taskid"], offset, limit)]
    items = [_listed(row) for taskid in taskids if (row := _one(resultdb, project, taskid))]
    return resultdb.count(project) or 0, items


def _one(resultdb: Any, project: str, taskid: Any) -> Mapping[str, Any] | None:
    """Return a result; one that cannot be read hides no other."""
    try:
        found: Mapping[str, Any] | None = resultdb.get(project, taskid)
    except UNREADABLE as error:
        return {"taskid": taskid, "url": "", "result": f"it cannot be read: {error!r:.100}"}
    return found


def _listed(row: Mapping[str, Any]) -> dict[str, Any]:
    result = row.get("result")
    named = result if isinstance(result, dict) else {"": result}
    updatetime = row.get("updatetime")
    return {
        "taskid": str(row.get("taskid")),
        "url": str(row.get("url")),
        "updatetime": updatetime if is_number(updatetime) else None,
        "fields_": {
            str(name)[:MOST_TEXT]: shown(value, MOST_TEXT)
            for name, value in islice(named.items(), MOST_FIELDS)
        },
    }
