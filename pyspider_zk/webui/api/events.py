"""Events: who did what, in the log of the cluster and in the archive of its project database."""

from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from itertools import chain
from typing import Any

from flask import Response
from marshmallow import Schema, fields, validate
from pyspider.libs.result_dump import csv_line

from pyspider_zk.asked import among
from pyspider_zk.cluster.event_archive import EventArchive, EventSearch
from pyspider_zk.cluster.event_filter import (
    EventFilter,
    EventGroup,
    Logged,
    Position,
    position_of,
)
from pyspider_zk.cluster.events import Event
from pyspider_zk.webui.api.backend import backend
from pyspider_zk.webui.api.blueprint import Part
from pyspider_zk.webui.api.schemas import (
    MOST_ITEMS,
    PART,
    SINCE_EPOCH,
    STORABLE,
    about,
    limit_field,
    mirrors,
    number_field,
    text_field,
)

blueprint = Part("events", __name__, description="Who did what, when, with what result")

_CURSOR = (
    r"^-?0x[01]\.[0-9a-f]{1,13}p-?([0-9]{1,3}|10[01][0-9]|102[0-3])"  # of any time
    r" -?[0-9]{1,10}\Z"
)
_COLUMNS = ("time", "kind", "who", "text", "details")


class EventQuerySchema(Schema):
    """Which events."""

    after = fields.Integer(
        validate=validate.Range(-(2**31), 2**31 - 1),
        metadata=about("the `last` of the answer before; without it the newest events"),
    )
    limit = limit_field(100)


@mirrors(
    Event,
    kind="such as joined, left, died, leader, moved, batch, cancel, ended",
    text="a sentence for people",
    at=SINCE_EPOCH,
)
class EventSchema(Schema):
    """Who did what, when, with what result."""

    sequence = number_field("its place in the log; it runs over to negative after 2147483647")


class EventsSchema(Schema):
    """Events, the oldest first."""

    items = fields.List(fields.Nested(EventSchema), required=True)
    last = number_field("`after` for the next question; null: there was never any", allow_none=True)


class EventFilterSchema(Schema):
    """Which events of the archive; all that is given must hold."""

    group = fields.Enum(
        EventGroup,
        by_value=True,
        metadata=about("what people asked for, saved and tried scripts, or what happened"),
    )
    kind = fields.String(validate=STORABLE, metadata=about("such as batch"))
    who = fields.String(validate=PART, metadata=about("part of it, in capitals or not"))
    q = fields.String(
        validate=PART, metadata=about("part of the text or the details, in capitals or not")
    )
    since = fields.Float(metadata=about(f"only those of this time or later, {SINCE_EPOCH}"))
    until = fields.Float(metadata=about(f"only those before this time, {SINCE_EPOCH}"))


class ArchiveQuerySchema(EventFilterSchema):
    """Which events of the archive, and how many."""

    cursor = fields.String(
        validate=validate.Regexp(_CURSOR),
        metadata=about("`next` of the page before"),
    )
    limit = limit_field(50)


class EventExportSchema(EventFilterSchema):
    """Which events of the archive, and for what."""

    style = fields.String(
        validate=validate.Equal("spreadsheet"),
        metadata=about("`spreadsheet`: it begins with a byte order mark, which Excel needs"),
    )


class ArchivePageSchema(Schema):
    """Events, the latest first."""

    items = fields.List(fields.Nested(EventSchema), required=True)
    missing = fields.List(
        fields.String(),
        required=True,
        metadata=about("why these are only from the log; empty: they are from the archive"),
    )
    next = text_field("cursor of the next page; null: no more", allow_none=True)


@blueprint.route("/events")
@blueprint.query(EventQuerySchema)
@blueprint.tells(EventsSchema)
def list_events(query: dict[str, Any]) -> dict[str, Any]:
    """List events of the log, which keeps the latest thousand, the oldest first."""
    found = backend().events.read(query.get("after"), query["limit"])
    items = list(map(_shown, found))
    return {"items": items, "last": items[-1]["sequence"] if items else query.get("after")}


@blueprint.route("/events/archive")
@blueprint.query(ArchiveQuerySchema)
@blueprint.tells(ArchivePageSchema)
def find_events(query: dict[str, Any]) -> dict[str, Any]:
    """Find events in the archive, which the leader keeps for 90 days, the latest first.

    While the archive does not answer, or if the project database keeps none, they are those of the
    log.
    """
    before = _position(query["cursor"]) if "cursor" in query else None
    search = EventSearch(backend().events, backend().archive)
    found = search.find(among(EventFilter, query), before, query["limit"])
    is_last = len(found.events) < query["limit"]
    return {
        "items": list(map(_shown, found.events)),
        "missing": [found.missing] if found.missing else [],
        "next": None if is_last else _cursor(position_of(found.events[-1])),
    }


@blueprint.route("/events/archive.csv")
@blueprint.query(EventExportSchema)
@blueprint.tells({"type": "string"}, content_type="text/csv")
def export_events(query: dict[str, Any]) -> Response:
    """Export events of the archive as CSV, the latest first."""
    mark = "\ufeff" if "style" in query else ""
    pages = _pages(backend().archive, among(EventFilter, query))
    first = next(pages)  # an archive that does not answer is told before anything is sent
    lines = (_line(each) for page in chain([first], pages) for each in page)
    content = chain([mark + csv_line(*_COLUMNS)], lines)
    disposition = {"Content-Disposition": "attachment; filename=events.csv"}
    return Response(content, headers=disposition, content_type="text/csv; charset=utf-8")


def _pages(archive: EventArchive, wanted: EventFilter) -> Iterator[list[Logged]]:
    before = None
    while True:
        page = archive.find(wanted, before, MOST_ITEMS)
        yield page
        if len(page) < MOST_ITEMS:
            return
        before = position_of(page[-1])


def _line(logged: Logged) -> str:
    event = logged[1]
    line: str = csv_line(_time(event.at), event.kind, event.who, event.text, event.data or "")
    return line


def _time(at: float) -> str:
    try:
        return datetime.fromtimestamp(at, UTC).isoformat(" ", "milliseconds")
    except (OverflowError, ValueError, OSError):
        return str(at)


def _shown(logged: Logged) -> dict[str, Any]:
    return {"sequence": logged[0], **asdict(logged[1])}


def _cursor(position: Position) -> str:
    return f"{position[0].hex().replace('+', '')} {position[1]}"


def _position(cursor: str) -> Position:
    at, sequence = cursor.split()
    return float.fromhex(at), int(sequence)
