"""Alerts for operators, derived from the state of a cluster at one moment. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from pyspider_zk.cluster.cluster_settings import Maintenance
from pyspider_zk.cluster.records import Cluster, ComponentKind
from pyspider_zk.errors import brief
from pyspider_zk.groups.ids import MemberId
from pyspider_zk.queues.api import SlotBacklog
from pyspider_zk.queues.names import QueueKind

_NEEDED = {
    ComponentKind.FETCHER: "nothing is fetched",
    ComponentKind.PROCESSOR: "no script is run",
    ComponentKind.RESULT_WORKER: "no result is stored",
}
_MAINTENANCE = {
    Maintenance.ON: "maintenance: slots are not evened out",
    Maintenance.HOLD: "maintenance: no slot moves, not even those of dead members",
}
_NAMED = 5  # things of one kind in a sentence

FAILED, FAILED_SHARE = 20, 0.2
"""Tasks that must have failed in five minutes, and their share of all, for an alert."""


class Severity(StrEnum):
    """Severity of an alert."""

    SERIOUS = "serious"  # work has stopped
    WARNING = "warning"  # work may stop soon, or something was set aside


class AlertKind(StrEnum):
    """Kind of an alert."""

    NO_LEADER = "no-leader"
    NO_MEMBER = "no-member"
    UNSERVED = "unserved-slots"
    UNREAD = "unread-queue"
    SUSPECT = "suspect-member"
    UNREACHABLE = "unreachable-member"
    NO_COMPONENT = "no-component"
    DEAD_LETTERS = "dead-letters"
    AWAY = "database-away"
    QUARANTINE = "quarantine"
    PARKED = "parked-full"
    UNREADABLE = "unreadable"
    MAINTENANCE = "maintenance"
    LOST = "lost-processor"
    BROKEN = "broken-projects"
    PAUSED = "paused-projects"
    FAILING = "failing-tasks"


@dataclass(frozen=True)
class Alert:
    """A problem that an operator should look at.

    Attributes:
        text: a sentence for people.
        about: the member, component or database that it is about; empty: there is one of the kind.
    """

    kind: AlertKind
    severity: Severity
    text: str
    about: str = ""


@dataclass(frozen=True)
class Observation:
    """The known state; None for a source that did not answer.

    Attributes:
        cluster: its state in ZooKeeper.
        lease_ages: seconds since the current renewal of each member was first seen.
        lease: seconds that a renewal lasts if its member does not report it.
        backlog: slot queues that are not empty.
        dead_letters: how many there are.
        unreachable: numbers of members that did not answer by XML-RPC.
        quarantine: projects that are in quarantine, with the reasons.
        unreadable: keys of the message queue that cannot be read, with what is wrong with them.
        full: slots for which no more messages can be parked.
    """

    cluster: Cluster | None = None
    lease_ages: Mapping[MemberId, float] = field(default_factory=dict)
    lease: float = 4.0
    backlog: Mapping[tuple[QueueKind, int], SlotBacklog] | None = None
    dead_letters: int | None = None
    unreachable: tuple[int, ...] = ()
    quarantine: Mapping[str, str] = field(default_factory=dict)
    unreadable: Mapping[str, str] = field(default_factory=dict)
    full: tuple[int, ...] = ()


def alerts(sight: Observation) -> list[Alert]:
    """Return the alerts, the most serious first."""
    found = [
        *_of_cluster(sight),
        *_of_members(sight),
        *_of_processors(sight),
        *_of_databases(sight),
        *_of_queues(sight),
        *_of_projects(sight),
        *_of_failures(sight),
        *_of_unreadable(sight),
    ]
    return sorted(found, key=lambda alert: alert.severity is not Severity.SERIOUS)


def _of_cluster(sight: Observation) -> Iterator[Alert]:
    cluster = sight.cluster
    if cluster is None:
        return
    if not cluster.members:
        yield _serious(AlertKind.NO_MEMBER, "no scheduler runs: nothing is scheduled")
    elif cluster.leader is None:
        yield _serious(AlertKind.NO_LEADER, "nobody leads: no slot gets another owner")
    unserved = sum(slot.owner not in cluster.members for slot in cluster.assignment.slots)
    if unserved and cluster.members:
        text = f"{_count(unserved, 'slot')} without a running owner: their projects stand still"
        yield _serious(AlertKind.UNSERVED, text)
    if cluster.settings.maintenance is not Maintenance.OFF:
        text = _MAINTENANCE[cluster.settings.maintenance]
        yield Alert(AlertKind.MAINTENANCE, Severity.WARNING, text)
    for kind, consequence in _NEEDED.items():
        if not cluster.components.get(kind):
            name = kind.value.replace("-", " ")
            unless = "unless by one that does not register"  # as pyspider's own do not
            text = f"no {name} is registered: {consequence}, {unless}"
            yield _serious(AlertKind.NO_COMPONENT, text, kind.value)


def _of_members(sight: Observation) -> Iterator[Alert]:
    for member, age in sorted(sight.lease_ages.items()):
        lease = sight.cluster.lease_of(member, sight.lease) if sight.cluster else sight.lease
        if age > lease:
            text = f"member {member.number} has not renewed its lease for {age:.0f} s"
            yield _serious(AlertKind.SUSPECT, f"{text}: its slots go to others", str(member))
        elif age > lease / 2:
            text = f"member {member.number} is suspect: no renewal of its lease for {age:.1f} s"
            yield Alert(AlertKind.SUSPECT, Severity.WARNING, text, str(member))
    for number in sight.unreachable:
        text = f"member {number} does not answer by XML-RPC: its numbers are missing"
        yield Alert(AlertKind.UNREACHABLE, Severity.WARNING, text, str(number))


def _of_processors(sight: Observation) -> Iterator[Alert]:
    components = sight.cluster.components if sight.cluster else {}
    for each in components.get(ComponentKind.PROCESSOR, {}).values():
        if each.lost:
            about = f"{each.host}:{each.pid}"
            yield Alert(AlertKind.LOST, Severity.WARNING, brief(each.lost), about)


def _of_databases(sight: Observation) -> Iterator[Alert]:
    """Return an alert for each database that does not answer."""
    loads = sight.cluster.loads if sight.cluster else {}
    for name in sorted({name for load in loads.values() for name in load.away}):
        members = sorted(member.number for member, load in loads.items() if name in load.away)
        who = f"member {members[0]}" if len(members) == 1 else f"members {_some(members)}"
        yield _serious(AlertKind.AWAY, f"{name} does not answer {who}: what needs it waits", name)


def _of_projects(sight: Observation) -> Iterator[Alert]:
    loads = sight.cluster.loads if sight.cluster else {}
    number = max(len(sight.quarantine), sum(load.quarantined for load in loads.values()))
    if number:
        reasons = [f"{name} ({reason})" for name, reason in sorted(sight.quarantine.items())]
        named = f": {_some(reasons, '; ')}" if reasons else ""
        text = f"{_count(number, 'project')} in quarantine{named}"
        yield Alert(AlertKind.QUARANTINE, Severity.WARNING, text)
    if sight.full:
        text = f"no more messages can be parked for {_count(len(sight.full), 'slot')}"
        waiting = "repair or delete its projects in quarantine, or processors wait"
        yield _serious(AlertKind.PARKED, f"{text} ({_some(sight.full)}): {waiting}")


def _of_failures(sight: Observation) -> Iterator[Alert]:
    loads = sight.cluster.loads.values() if sight.cluster else ()
    if broken := sum(load.broken for load in loads):
        named = _some(sorted(name for load in loads for name in load.broken_names))
        text = f"{_count(broken, 'project')} cannot start, for the scripts do not run: {named}"
        yield Alert(AlertKind.BROKEN, Severity.WARNING, text)
    if paused := sum(load.paused for load in loads):
        named = _some(sorted(name for load in loads for name in load.paused_names))
        text = f"{_count(paused, 'project')} paused, because the latest tasks failed: {named}"
        yield Alert(AlertKind.PAUSED, Severity.WARNING, text)
    ended, failed = (sum(getattr(load, name) for load in loads) for name in ("ended", "failed"))
    if failed >= FAILED and failed >= FAILED_SHARE * ended:
        named = _some(sorted(name for load in loads for name in load.failing_names))
        text = f"{failed} of {_count(ended, 'task')} failed in five minutes, most of {named}"
        yield Alert(AlertKind.FAILING, Severity.WARNING, text)


def _of_unreadable(sight: Observation) -> Iterator[Alert]:
    znodes = sight.cluster.unreadable if sight.cluster else {}
    for what, found in (("znode", znodes), ("key", sight.unreadable)):
        if found:
            reasons = [f"{path} ({reason})" for path, reason in sorted(found.items())]
            text = f"{_count(len(found), what)} passed over as unreadable: {_some(reasons, '; ')}"
            yield Alert(AlertKind.UNREADABLE, Severity.WARNING, text, what)


def _of_queues(sight: Observation) -> Iterator[Alert]:
    unread = _unread(sight)
    if unread:
        messages = sum(unread.values())
        slots = _some(sorted(unread))
        text = f"{_count(messages, 'message')} in slot queues that nobody reads: slots {slots}"
        yield _serious(AlertKind.UNREAD, text)
    if sight.dead_letters:
        text = f"{_count(sight.dead_letters, 'dead letter')}: messages that nobody could use"
        yield Alert(AlertKind.DEAD_LETTERS, Severity.WARNING, text)


def _unread(sight: Observation) -> dict[int, int]:
    """Return the messages by slot, of slots that no running member owns, or that do not exist."""
    if sight.cluster is None or sight.backlog is None:
        return {}
    members, rows = sight.cluster.members, sight.cluster.assignment.slots
    unread: dict[int, int] = {}
    for (_, slot), waiting in sight.backlog.items():
        if slot >= len(rows) or rows[slot].owner not in members:
            unread[slot] = unread.get(slot, 0) + waiting.length
    return unread


def _serious(kind: AlertKind, text: str, about: str = "") -> Alert:
    return Alert(kind, Severity.SERIOUS, text, about)


def _some(found: Sequence[object], between: str = ", ") -> str:
    """Return a phrase with the first of these, and how many more there are."""
    more = [] if len(found) <= _NAMED else ["..."]
    return between.join([*map(str, found[:_NAMED]), *more])


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


AlertKey = tuple[str, str, str]
"""What makes two alerts the same one."""


@dataclass(frozen=True)
class AlertChanges:
    """What changed between two looks.

    Attributes:
        raised: the alerts that are new.
        cleared: those that are gone.
        current: all that are raised now.
    """

    raised: tuple[Alert, ...] = ()
    cleared: tuple[Alert, ...] = ()
    current: Mapping[AlertKey, Alert] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.raised or self.cleared)


def changes(
    before: Mapping[AlertKey, Alert], found: Iterable[Alert], *, is_whole: bool
) -> AlertChanges:
    """Return what changed.

    Args:
        before: the alerts of the last look.
        found: those of this one.
        is_whole: whether everything answered; if not, alerts may be missing, so none is cleared.
    """
    now = {(each.kind.value, each.about, each.severity.value): each for each in found}
    kept = now if is_whole else {**before, **now}
    raised = tuple(alert for key, alert in now.items() if key not in before)
    cleared = tuple(alert for key, alert in before.items() if key not in kept)
    return AlertChanges(raised, cleared, kept)
