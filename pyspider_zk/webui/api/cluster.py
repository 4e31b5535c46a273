"""The cluster: members, components, assignment, queues; draining and rebalancing."""

import time
from collections import Counter
from typing import Any

from marshmallow import Schema, fields, validate

from pyspider_zk.cluster.cluster_settings import (
    Maintenance,
)
from pyspider_zk.cluster.events import Event, EventKind
from pyspider_zk.cluster.rebalancing import SlotMove, preview, without_maintenance
from pyspider_zk.cluster.records import Component, Load, Member, Phase, Slot
from pyspider_zk.errors import Conflict, NotFound
from pyspider_zk.groups.ids import MemberId
from pyspider_zk.jobs.rules import digest_of
from pyspider_zk.projects.rows import ACTIVE
from pyspider_zk.projects.selection import Selection
from pyspider_zk.queues.queue_sizes import DEAD_LETTERS
from pyspider_zk.rpc.client import request_drain
from pyspider_zk.webui.api.backend import backend, tell, user
from pyspider_zk.webui.api.blueprint import Part
from pyspider_zk.webui.api.projects import number
from pyspider_zk.webui.api.schemas import (
    SINCE_EPOCH,
    about,
    measure_field,
    mirrors,
    number_field,
    owner_field,
    text_field,
)
from pyspider_zk.webui.rebalancer import RebalanceProgress

blueprint = Part("cluster", __name__, description="Members, components, assignment, queues")

operating = Part("operating", __name__, description="Changing who owns what")

LONGEST_REBALANCE = 3600.0  # seconds


@mirrors(
    MemberId,
    Member,
    Load,
    number="small and stable",
    incarnation="its life within one ZooKeeper session",
    address="host:port of its XML-RPC; with https:// before it if it speaks TLS",
    started=SINCE_EPOCH,
    name="its identity, if it was given one",
    draining="its slots are moving away",
    protocols="the lowest and the highest protocol that it speaks",
    projects="how many projects it has in memory",
    pending="how many tasks it has in memory",
    tasks_per_s="tasks that ended per second, over the last seconds",
    cpu="share of one processor that its process used meanwhile",
    quarantined="how many of its projects are in quarantine",
    away="databases that do not answer it",
    paused="how many of its projects rest, because their latest tasks have failed",
    paused_names="some of these",
    broken="how many of its projects cannot start, for their scripts do not run",
    broken_names="some of these",
    ended="tasks that ended for good in five minutes, as of a minute ago or less",
    failed="how many of these failed",
    failing_names="projects to which most of these belong",
    without=("slot_rates",),
)
class MemberSchema(Schema):
    """A scheduler that runs."""

    leader = fields.Boolean(required=True)
    slots = number_field("how many slots it owns")
    lease = measure_field("seconds that its lease lasts from one renewal", allow_none=True)


class MembersSchema(Schema):
    """The schedulers that run."""

    leader = owner_field("number of the member that decides the assignment")
    items = fields.List(fields.Nested(MemberSchema), required=True)


@mirrors(
    Component,
    started=SINCE_EPOCH,
    address="host:port, if it serves",
    protocols="the lowest and the highest protocol that it speaks",
    tasks_per_s="tasks that it ended per second, over the last ten seconds",
    memory="bytes that its process has resident; 0: unknown",
    under_way="tasks that it has begun",
    oldest="project and id, or URL, of the one that it began first; empty: none",
    oldest_began=SINCE_EPOCH + "; 0: none",
)
class ComponentSchema(Schema):
    """A processor, fetcher, result worker, renderer or web UI that runs."""

    id = text_field()


class ComponentsSchema(Schema):
    """Those that run, by kind."""

    items = fields.Dict(
        keys=fields.String(), values=fields.List(fields.Nested(ComponentSchema)), required=True
    )


@mirrors(Slot, epoch="grows by one with every grant")
class SlotSchema(Schema):
    """One row of the assignment."""

    slot = number_field("its number")
    owner = owner_field("number of the member that owns it, even if it has just died")
    next = owner_field("number of the member that gets it once it is released")
    phase = fields.Enum(Phase, by_value=True, required=True)


class AssignmentSchema(Schema):
    """Which member owns which slot."""

    epoch = number_field("grows by one with every write of the assignment")
    unserved = number_field("slots without a running owner")
    members = fields.List(fields.Nested(MemberSchema), required=True)
    items = fields.List(fields.Nested(SlotSchema), required=True)


class QueuesSchema(Schema):
    """How many messages wait."""

    queues = fields.Dict(keys=fields.String(), values=fields.Integer(strict=True), required=True)
    dead_letters = number_field("messages that nobody could use")


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
    lengths = backend().queues.read()
    return {"dead_letters": lengths.pop(DEAD_LETTERS), "queues": lengths}


class PreviewQuerySchema(Schema):
    """What would happen."""

    joins = fields.Integer(
        load_default=0, validate=validate.Range(0, 100), metadata=about("so many new members")
    )
    leaves = fields.Integer(
        validate=validate.Range(0), metadata=about("number of a member that would drain")
    )
    without_maintenance = fields.Boolean(
        load_default=False, metadata=about("as if maintenance were off: what a rebalancing moves")
    )


class PreviewPairSchema(Schema):
    """How many slots would move between two members."""

    source = owner_field("number of the present owner")
    target = owner_field("number of the next owner; of one that would join, a free one")
    slots = number_field("how many")


@mirrors(SlotMove, slot="its number")
class PreviewMoveSchema(Schema):
    """A slot that would move."""

    source = owner_field("number of the present owner")
    target = owner_field("number of the next owner; of one that would join, a free one")


class PreviewSchema(Schema):
    """Which slots would move."""

    total = number_field("how many slots")
    digest = text_field("stands for these moves")
    pairs = fields.List(fields.Nested(PreviewPairSchema), required=True)
    items = fields.List(fields.Nested(PreviewMoveSchema), required=True)


class RebalanceSchema(Schema):
    """Which moves are meant, and how long they may take."""

    plan = fields.String(
        metadata=about("the preview's digest, without maintenance: 409 if other slots would move")
    )
    timeout = fields.Float(
        load_default=120.0,
        validate=validate.Range(1, LONGEST_REBALANCE),
        metadata=about("seconds after which maintenance goes on in any case"),
    )


@mirrors(
    RebalanceProgress,
    total="slots that were to move",
    left="of them, those that have not arrived",
    fault="why it failed, and the remedy; empty: it did not",
)
class RebalanceProgressSchema(Schema):
    """How far a rebalancing is."""


class DrainSchema(Schema):
    """Which process is meant; a number may have gone to another."""

    incarnation = fields.String(metadata=about("as `/members` tells; 409 if it is another by now"))


class DrainedSchema(Schema):
    """A member that was asked to drain."""

    number = number_field("of the member")
    others = number_field(
        "members that can take its slots; 0: they wait for one, on hold for itself"
    )


@operating.route("/assignment/preview")
@operating.query(PreviewQuerySchema)
@operating.tells(PreviewSchema, errors=(404,))
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


@operating.route("/assignment/rebalance")
@operating.tells(RebalanceProgressSchema)
def get_rebalance() -> dict[str, Any]:
    """Return how far the last rebalancing is that this web UI was asked for."""
    return backend().rebalancer.progress()._asdict()


@operating.route("/assignment/rebalance", methods=["POST"])
@operating.arguments(RebalanceSchema)
@operating.does(RebalanceProgressSchema, 202, errors=(409,))
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


@operating.route("/members/<int:number>/drain", methods=["POST"])
@operating.arguments(DrainSchema)
@operating.does(DrainedSchema, 202, errors=(404, 409))
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
