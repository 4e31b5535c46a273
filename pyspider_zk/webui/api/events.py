"""Events: who did what."""

from dataclasses import asdict
from typing import Any

from pyspider_zk.webui.api.backend import backend
from pyspider_zk.webui.api.blueprint import Part
from pyspider_zk.webui.api.schemas import EventQuerySchema, EventsSchema

blueprint = Part("events", __name__, description="Who did what, when, with what result")


@blueprint.route("/events")
@blueprint.query(EventQuerySchema)
@blueprint.tells(EventsSchema)
def list_events(query: dict[str, Any]) -> dict[str, Any]:
    """List events, the oldest first."""
    found = backend().events.read(query.get("after"), query["limit"])
    items = [{"sequence": sequence, **asdict(event)} for sequence, event in found]
    return {"items": items, "last": items[-1]["sequence"] if items else query.get("after")}
