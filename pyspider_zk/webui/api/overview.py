"""Everything at one look; what cannot be asked is named and left out."""

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, TypeVar

from pyspider_zk.core.alerts import Sight, Waiting, alerts
from pyspider_zk.core.names import Kind
from pyspider_zk.core.records import Cluster, MemberId
from pyspider_zk.errors import ClusterError
from pyspider_zk.webui.api.backend import backend
from pyspider_zk.webui.api.blueprint import Part
from pyspider_zk.webui.api.schemas import Overview
from pyspider_zk.webui.lengths import DEAD_LETTERS

blueprint = Part("overview", __name__, description="Everything at one look")

Backlog = Mapping[tuple[Kind, int], Waiting]
T = TypeVar("T")


@blueprint.route("/overview")
@blueprint.tells(Overview)
def get_overview() -> dict[str, Any]:
    """Tell of the whole cluster.

    It answers also if ZooKeeper, the message queue or a scheduler does not: what is unknown is
    null, and `missing` says why.
    """
    missing: list[str] = []
    cluster = _or_none(backend().cluster, missing)
    ages = backend().leases.ages(cluster) if cluster else {}
    lengths = _or_none(backend().queues, missing)
    backlog = None if lengths is None else _or_none(backend().slot_queues.backlog, missing)
    throughput, silent = _throughput(missing)
    dead = None if lengths is None else lengths[DEAD_LETTERS]
    sight = Sight(cluster, ages, backend().settings.lease, backlog, dead, silent)
    return {
        "at": time.time(),
        "missing": missing,
        "alerts": [asdict(alert) for alert in alerts(sight)],
        **_of_cluster(cluster, ages),
        "queues": None if lengths is None else _queues(lengths, backlog or {}),
        "dead_letters": dead,
        "throughput": throughput,
    }


def _or_none(ask: Callable[[], T], missing: list[str]) -> T | None:
    try:
        return ask()
    except ClusterError as error:
        missing.append(str(error))
        return None


def _throughput(missing: list[str]) -> tuple[dict[str, list[int]] | None, tuple[int, ...]]:
    """Return the sums over all members that answer, and the numbers of those that do not."""
    try:
        answers, silent = backend().rpc.ask("local_throughput")
    except OSError as error:
        missing.append(f"the schedulers cannot be asked: {error}")
        return None, ()
    if not answers:
        missing.append("no scheduler answers: throughput and numbers of projects are unknown")
        return None, tuple(member.number for member in silent)
    without = "does not answer: throughput is without it"
    missing += [f"member {member.number} {without}" for member in silent]
    events = next(iter(answers.values()))
    minutes = {event: [found[event] for found in answers.values()] for event in events}
    sums = {event: list(map(sum, zip(*each, strict=True))) for event, each in minutes.items()}
    return sums, tuple(sorted(member.number for member in silent))


def _of_cluster(cluster: Cluster | None, ages: Mapping[MemberId, float]) -> dict[str, Any]:
    if cluster is None:
        return dict.fromkeys(
            ("leader", "epoch", "slots", "moving", "unserved", "members"), None
        ) | {"components": None}
    told = cluster.as_dict()
    half = backend().settings.lease / 2
    renewed = {member.number: ages.get(member, 0.0) for member in cluster.members}
    members = [
        {**each, "lease_age": renewed[each["number"]], "suspect": renewed[each["number"]] > half}
        for each in told["members"]
    ]
    return {
        "leader": told["leader"],
        "epoch": told["epoch"],
        "slots": told["slots"],
        "moving": sum(row.next is not None for row in cluster.assignment.slots),
        "unserved": told["unserved_slots"],
        "members": members,
        "components": told["components"],
    }


def _queues(lengths: Mapping[str, int], backlog: Backlog) -> list[dict[str, Any]]:
    oldest = {
        kind.value: max(waiting.age for (its, _), waiting in backlog.items() if its is kind)
        for kind in {kind for kind, _ in backlog}
    }
    return [
        {"name": name, "length": length, "oldest": oldest.get(name)}
        for name, length in lengths.items()
        if name != DEAD_LETTERS
    ]
