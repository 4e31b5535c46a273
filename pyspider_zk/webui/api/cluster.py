"""The cluster: members, components, assignment, queues."""

from typing import Any

from pyspider_zk.errors import NotFound
from pyspider_zk.queues.queue_sizes import DEAD_LETTERS
from pyspider_zk.webui.api.backend import backend
from pyspider_zk.webui.api.blueprint import Part
from pyspider_zk.webui.api.projects import number
from pyspider_zk.webui.api.schemas import (
    AssignmentSchema,
    ComponentsSchema,
    MemberSchema,
    MembersSchema,
    QueuesSchema,
)

blueprint = Part("cluster", __name__, description="Members, components, assignment, queues")


@blueprint.route("/members")
@blueprint.tells(MembersSchema)
def list_members() -> dict[str, Any]:
    """List the schedulers that run."""
    found = backend().cluster().as_dict()
    return {"leader": found["leader"], "items": found["members"]}


@blueprint.route("/members/<int:number>")
@blueprint.tells(MemberSchema, errors=(404,))
def get_member(number: int) -> dict[str, Any]:
    """Return one scheduler."""
    found: list[dict[str, Any]] = backend().cluster().as_dict()["members"]
    for member in found:
        if member["number"] == number:
            return member
    raise NotFound(f"no member {number} runs")


@blueprint.route("/components")
@blueprint.tells(ComponentsSchema)
def list_components() -> dict[str, Any]:
    """List processors, fetchers, result workers, renderers and web UIs that run."""
    return {"items": backend().cluster().as_dict()["components"]}


@blueprint.route("/assignment")
@blueprint.tells(AssignmentSchema)
def get_assignment() -> dict[str, Any]:
    """Return which member owns which slot, and which members there are."""
    cluster = backend().cluster()
    rows = cluster.assignment.slots
    return {
        "epoch": cluster.assignment.epoch,
        "unserved": sum(row.owner not in cluster.members for row in rows),
        "members": cluster.as_dict()["members"],
        "items": [
            {
                "slot": slot,
                "owner": number(row.owner),
                "epoch": row.epoch,
                "next": number(row.next),
                "phase": row.phase,
            }
            for slot, row in enumerate(rows)
        ],
    }


@blueprint.route("/queues")
@blueprint.tells(QueuesSchema)
def get_queues() -> dict[str, Any]:
    """Count the messages that wait."""
    lengths = dict(backend().queues())
    return {"dead_letters": lengths.pop(DEAD_LETTERS), "queues": lengths}
