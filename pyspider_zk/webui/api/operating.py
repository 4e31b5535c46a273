"""Operating the cluster: what would move, and draining a member."""

import time
from collections import Counter
from typing import Any

from pyspider_zk.cluster.cluster_settings import Maintenance
from pyspider_zk.cluster.events import Event, EventKind
from pyspider_zk.cluster.rebalancing import SlotMove, preview, without_maintenance
from pyspider_zk.errors import Conflict
from pyspider_zk.jobs.rules import digest_of
from pyspider_zk.projects.rows import ACTIVE
from pyspider_zk.projects.selection import Selection
from pyspider_zk.rpc.draining import request_drain
from pyspider_zk.webui.api.backend import backend, tell, user
from pyspider_zk.webui.api.blueprint import Part
from pyspider_zk.webui.api.projects import number
from pyspider_zk.webui.api.schemas import (
    DrainedSchema,
    DrainSchema,
    PreviewQuerySchema,
    PreviewSchema,
    RebalanceProgressSchema,
    RebalanceSchema,
)

blueprint = Part("operating", __name__, description="Changing who owns what")


@blueprint.route("/assignment/preview")
@blueprint.query(PreviewQuerySchema)
@blueprint.tells(PreviewSchema, errors=(404,))
def preview_assignment(query: dict[str, Any]) -> dict[str, Any]:
    """Return which slots would move if members joined or left; nothing is changed.

    These are the leader's rules. It moves slots in steps, so on the way the cluster may differ.
    """
    cluster = backend().cluster()
    leaves = [query["leaves"]] if "leaves" in query else []
    for each in leaves:
        cluster.numbered(each)
    if query["without_maintenance"]:
        cluster = without_maintenance(cluster)
    moves = preview(cluster, _active_projects(), query["joins"], leaves)
    items = list(map(_move, moves))
    return {"total": len(moves), "digest": digest_of(items), "pairs": _pairs(moves), "items": items}


@blueprint.route("/assignment/rebalance")
@blueprint.tells(RebalanceProgressSchema)
def get_rebalance() -> dict[str, Any]:
    """Return how far the last rebalancing is that this web UI was asked for."""
    return backend().rebalancer.progress()._asdict()


@blueprint.route("/assignment/rebalance", methods=["POST"])
@blueprint.arguments(RebalanceSchema)
@blueprint.does(RebalanceProgressSchema, 202, errors=(409,))
def rebalance(asked: dict[str, Any]) -> tuple[dict[str, Any], int]:
    """Even the slots out once, even if maintenance is on, which goes on when they are.

    Without maintenance the leader does so by itself, and this only tells how far it is.
    """
    projects = _active_projects()
    moves = preview(without_maintenance(backend().cluster()), projects)
    digest = digest_of(list(map(_move, moves)))
    if asked.get("plan", digest) != digest:
        raise Conflict("other slots would move by now: look again")
    begun = backend().rebalancer.start(user(), projects, len(moves), asked["timeout"])
    return begun._asdict(), 202


@blueprint.route("/members/<int:number>/drain", methods=["POST"])
@blueprint.arguments(DrainSchema)
@blueprint.does(DrainedSchema, 202, errors=(404, 409))
def drain_member(asked: dict[str, Any], number: int) -> tuple[dict[str, Any], int]:
    """Move a member's slots to others; then its process ends, on hold at once.

    A repeated request changes nothing.
    """
    cluster = backend().cluster()
    member, record = cluster.numbered(number)
    if asked.get("incarnation", member.incarnation) != member.incarnation:
        raise Conflict(f"member {number} is another process by now: look again")
    request_drain(number, record, backend().settings, user())
    others = sum(not each.draining for each in cluster.members.values() if each is not record)
    if cluster.settings.maintenance is Maintenance.HOLD:
        others = 0
    text = f"member {member} was asked to drain"
    tell(Event(EventKind.DRAIN, text, time.time(), user(), {"member": str(member)}))
    return {"number": number, "others": others}, 202


def _active_projects() -> dict[int, int]:
    """Return the active projects of the slots that have any."""
    rows = backend().batch_service.projects.page(Selection(all=True), with_owners=False).items
    return dict(Counter(row["slot"] for row in rows if row["status"] in ACTIVE))


def _pairs(moves: list[SlotMove]) -> list[dict[str, Any]]:
    counts = Counter((number(move.source), number(move.target)) for move in moves)
    return [
        {"source": source, "target": target, "slots": slots}
        for (source, target), slots in counts.most_common()
    ]


def _move(move: SlotMove) -> dict[str, Any]:
    return {"slot": move.slot, "source": number(move.source), "target": number(move.target)}
