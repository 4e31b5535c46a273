"""Overview of everything; what cannot be asked is named and left out."""

import time
from collections.abc import Collection, Mapping
from dataclasses import asdict
from typing import Any

from marshmallow import Schema, fields

from pyspider_zk.cluster.alerts import Alert, Observation, alerts
from pyspider_zk.cluster.records import Cluster
from pyspider_zk.errors import ClusterError
from pyspider_zk.groups.ids import MemberId
from pyspider_zk.queues.queue_sizes import Waiting, answer_of
from pyspider_zk.webui.api import steering
from pyspider_zk.webui.api.backend import backend
from pyspider_zk.webui.api.blueprint import Part
from pyspider_zk.webui.api.cluster import ComponentSchema, MemberSchema
from pyspider_zk.webui.api.schemas import (
    about,
    measure_field,
    mirrors,
    number_field,
    owner_field,
    text_field,
    time_field,
)

blueprint = Part("overview", __name__, description="Everything at one look")

SHOWN = 100  # of the projects in quarantine, and of what cannot be read


@mirrors(
    Alert,
    text="a sentence for people",
    about="the member, component or database that it is about, or empty",
)
class AlertSchema(Schema):
    """Something to look at."""


class WatchedMemberSchema(MemberSchema):
    """A scheduler that runs, and how old its lease is."""

    lease_age = measure_field(
        "seconds since this web UI first saw the present renewal; it is at least as old"
    )
    suspect = fields.Boolean(
        required=True, metadata=about("no renewal for more than half of the lease")
    )


class QueueSchema(Schema):
    """Messages that wait."""

    name = text_field()
    length = number_field("how many; a kind of slot queue counts as one")
    oldest = measure_field(
        "seconds that the oldest message of a slot queue has waited; null: none does, or pyspider's"
        " own queue does not tell",
        allow_none=True,
    )


class QuarantinedSchema(Schema):
    """A project that is left alone because of its own fault."""

    project = text_field()
    member = owner_field("number of its owner")
    reason = text_field("what is wrong with it")
    since = time_field("when it came into quarantine, seconds since the epoch")
    failures = number_field("how often it was looked at in vain")
    next_look = measure_field("seconds until it is looked at again; sooner if its row changes")


class UnreadableSchema(Schema):
    """Something that nobody can read, and that is passed over."""

    place = text_field("a znode's path, or a key of the message queue")
    reason = text_field("what is wrong with it")


class ThroughputSchema(Schema):
    """Tries that ended in each of the last 60 minutes, the oldest first."""

    success = fields.List(fields.Integer(strict=True), required=True)
    failed = fields.List(fields.Integer(strict=True), required=True)
    retry = fields.List(fields.Integer(strict=True), required=True)


class OverviewSchema(Schema):
    """The whole cluster; null: unknown, `missing` says why."""

    at = time_field()
    missing = fields.List(fields.String(), required=True, metadata=about("what does not answer"))
    alerts = fields.List(fields.Nested(AlertSchema), required=True)
    leader = owner_field("number of the member that decides the assignment")
    epoch = number_field("of the assignment", allow_none=True)
    slots = number_field("how many there are", allow_none=True)
    moving = number_field("slots between two owners", allow_none=True)
    unserved = number_field("slots without a running owner", allow_none=True)
    members = fields.List(fields.Nested(WatchedMemberSchema), required=True, allow_none=True)
    components = fields.Dict(
        keys=fields.String(),
        values=fields.List(fields.Nested(ComponentSchema)),
        required=True,
        allow_none=True,
    )
    queues = fields.List(fields.Nested(QueueSchema), required=True, allow_none=True)
    dead_letters = number_field("messages that nobody could use", allow_none=True)
    settings = fields.Nested(steering.ClusterSettingsSchema, required=True, allow_none=True)
    quarantine = fields.List(
        fields.Nested(QuarantinedSchema), required=True, metadata=about("the first of them")
    )
    unreadable = fields.List(
        fields.Nested(UnreadableSchema), required=True, metadata=about("the first of them")
    )
    throughput = fields.Nested(ThroughputSchema, required=True, allow_none=True)


@blueprint.route("/overview")
@blueprint.tells(OverviewSchema)
def get_overview() -> dict[str, Any]:
    """Return an overview of the whole cluster.

    It answers even if ZooKeeper, the message queue or a scheduler does not: what is unknown is
    null, and `missing` says why.
    """
    faults: list[ClusterError] = []
    cluster = answer_of(backend().cluster, faults)
    ages = backend().leases.ages(cluster) if cluster else {}
    waiting = backend().queues.look(faults)
    missing = list(map(str, faults))
    throughput, silent = _throughput(missing)
    quarantine = _quarantine(cluster, silent)
    keys = backend().slot_queues.unreadable()
    sight = Observation(
        cluster,
        ages,
        backend().settings.lease,
        waiting.backlog,
        waiting.dead,
        tuple(sorted(member.number for member in silent)),
        {each["project"]: each["reason"] for each in quarantine},
        keys,
        waiting.full,
    )
    return {
        "at": time.time(),
        "missing": missing,
        "alerts": [asdict(alert) for alert in alerts(sight)],
        **_of_cluster(cluster, ages),
        "queues": None if waiting.lengths is None else _queues(waiting),
        "dead_letters": waiting.dead,
        "quarantine": quarantine[:SHOWN],
        "unreadable": _unreadable(cluster, keys)[:SHOWN],
        "throughput": throughput,
    }


def _throughput(missing: list[str]) -> tuple[dict[str, list[int]] | None, list[MemberId]]:
    """Return the sums over all members that answer, and those that do not."""
    try:
        answers, silent = backend().rpc.ask("local_throughput")
    except OSError as error:
        missing.append(f"the schedulers cannot be asked: {error}")
        return None, []
    if not answers:
        missing.append("no scheduler answers: throughput and numbers of projects are unknown")
        return None, silent
    without = "does not answer: throughput is without it"
    missing += [f"member {member.number} {without}" for member in silent]
    events = next(iter(answers.values()))
    minutes = {event: [found[event] for found in answers.values()] for event in events}
    sums = {event: list(map(sum, zip(*each, strict=True))) for event, each in minutes.items()}
    return sums, silent


def _quarantine(cluster: Cluster | None, silent: Collection[MemberId]) -> list[dict[str, Any]]:
    """Return the projects in quarantine, asking only the members that have some."""
    if cluster is None:
        return []
    clean = {member for member in cluster.members if not cluster.load(member).quarantined}
    if clean == cluster.members.keys():
        return []
    answers, _ = backend().rpc.ask("local_quarantine", past=clean.union(silent))
    found = [
        {"project": project, "member": member.number, **about}
        for member, answer in answers.items()
        for project, about in answer.items()
    ]
    return sorted(found, key=lambda each: str(each["project"]))


def _unreadable(cluster: Cluster | None, keys: Mapping[str, str]) -> list[dict[str, str]]:
    found = {**(cluster.unreadable if cluster else {}), **keys}
    return [{"place": place, "reason": reason} for place, reason in sorted(found.items())]


def _of_cluster(cluster: Cluster | None, ages: Mapping[MemberId, float]) -> dict[str, Any]:
    if cluster is None:
        return dict.fromkeys(
            ("leader", "epoch", "slots", "moving", "unserved", "members", "settings"), None
        ) | {"components": None}
    told = cluster.as_dict()
    mine = backend().settings.lease
    halves = {member.number: cluster.lease_of(member, mine) / 2 for member in cluster.members}
    renewed = {member.number: ages.get(member, 0.0) for member in cluster.members}
    members = [
        {**each, "lease_age": renewed[number], "suspect": renewed[number] > halves[number]}
        for each in told["members"]
        for number in [each["number"]]
    ]
    return {
        "leader": told["leader"],
        "epoch": told["epoch"],
        "slots": told["slots"],
        "moving": sum(row.next is not None for row in cluster.assignment.slots),
        "unserved": told["unserved_slots"],
        "members": members,
        "components": told["components"],
        "settings": steering.told(cluster.settings),
    }


def _queues(waiting: Waiting) -> list[dict[str, Any]]:
    oldest = waiting.oldest
    return [
        {"name": name, "length": length, "oldest": oldest.get(name)}
        for name, length in waiting.messages.items()
    ]
