"""Event filter: which events are meant, and those that were found. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Self

from pyspider_zk.asked import Part, parsed
from pyspider_zk.cluster.events import Event, EventKind
from pyspider_zk.zookeeper.codec import plain

Logged = tuple[int, Event]
"""An event, behind its number in the log."""

Position = tuple[float, int]
"""Of an event among others: its time, and its number in the log."""


class FoundEvents(NamedTuple):
    """Events, the latest first.

    Attributes:
        missing: why these are only from the log; empty: they are from the archive.
    """

    events: Sequence[Logged]
    missing: str = ""


class EventGroup(StrEnum):
    """Events that are looked for together."""

    ORDERS = "orders"
    SCRIPTS = "scripts"
    CLUSTER = "cluster"


_SCRIPTS = frozenset({EventKind.SCRIPT, EventKind.TRIAL})
_CLUSTER = frozenset(
    {
        *(EventKind.JOINED, EventKind.LEFT, EventKind.DIED, EventKind.LEADER, EventKind.MOVED),
        *(EventKind.ENDED, EventKind.PROCESSOR),
    }
)

KINDS: Mapping[EventGroup, frozenset[EventKind]] = {
    EventGroup.ORDERS: frozenset(EventKind) - _SCRIPTS - _CLUSTER,
    EventGroup.SCRIPTS: _SCRIPTS,
    EventGroup.CLUSTER: _CLUSTER,
}
"""The kinds of each group; every kind has one."""


@dataclass(frozen=True)
class EventFilter:
    """Which events are meant; all that is given must hold.

    Attributes:
        who: part of it, in capitals or not.
        q: part of the text or the details, in capitals or not.
        since: only those of this time or later, in seconds since the epoch.
        until: only those before it.
    """

    group: EventGroup | None = None
    kind: str | None = None
    who: Part | None = None
    q: Part | None = None
    since: float | None = None
    until: float | None = None

    @classmethod
    def parse(cls, asked: object) -> Self:
        """Read the plain form, a mapping of the attributes, or raise ``BadRequest``."""
        return parsed(cls, "a filter of events", asked)

    def holds(self, event: Event) -> bool:
        """Return whether an event is meant."""
        return (
            (self.group is None or event.kind in KINDS[self.group])
            and (self.kind is None or event.kind == self.kind)
            and (self.who is None or self.who.lower() in event.who.lower())
            and (self.q is None or self.q.lower() in _searched(event).lower())
            and (self.since is None or event.at >= self.since)
            and (self.until is None or event.at < self.until)
        )


def _searched(event: Event) -> str:
    return f"{event.text}\n{plain(event.data).decode()}"


def position_of(logged: Logged) -> Position:
    """Return where an event stands among others."""
    return logged[1].at, logged[0]
