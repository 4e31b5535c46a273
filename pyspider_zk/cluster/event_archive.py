"""Event archive: the events of a cluster in its project database, where operators look them up."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pyspider.database.sqlalchemy.tables import KEY, MYSQL, NUMBER, TEXT, WHOLE
from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    MetaData,
    Table,
    and_,
    delete,
    insert,
    literal,
    or_,
    select,
)

from pyspider_zk.cluster.event_filter import (
    KINDS,
    EventFilter,
    FoundEvents,
    Logged,
    Position,
    position_of,
)
from pyspider_zk.cluster.event_log import EventLog
from pyspider_zk.cluster.events import Event
from pyspider_zk.databases.archive import Archive
from pyspider_zk.errors import Unavailable
from pyspider_zk.zookeeper.codec import decode, plain

PART = 100
"""Events that one statement writes: a server takes no statement of any length."""

LOG = 1000
"""Events of the log that are looked through, the latest."""

_MOST_KIND = 255  # characters; those that there are have fewer

_TABLE = Table(
    "pyspider-zk-events",
    MetaData(),
    Column("at", NUMBER, primary_key=True),
    Column("sequence", WHOLE, primary_key=True, autoincrement=False),
    Column("kind", KEY, nullable=False),
    Column("who", TEXT, nullable=False),
    Column("text", TEXT, nullable=False),
    Column("data", TEXT, nullable=False),
    **MYSQL,
)
_EVENT = _TABLE.c

_LATEST_FIRST = (_EVENT.at.desc(), _EVENT.sequence.desc())


class EventArchive:
    """Events as they were in the log.

    An event is known by its time and either its number in the log or what it says: a log that was
    restored has other numbers.

    Threads: any; calls block for the database and raise ``Unavailable`` if it does not answer, or
    keeps no archive.

    Args:
        projectdb: pyspider's.
    """

    def __init__(self, projectdb: Any) -> None:
        self._archive = Archive(projectdb, _TABLE)

    def append(self, events: Sequence[Logged]) -> None:
        """Write those that are not there yet."""
        for start in range(0, len(events), PART):
            rows = [_row(*each) for each in events[start : start + PART]]
            known = self._known({row["at"] for row in rows})
            if new := [row for row in rows if known.isdisjoint(_names(row))]:
                self._archive.change(insert(_TABLE).values(new))

    def find(
        self, wanted: EventFilter, before: Position | None = None, limit: int = 100
    ) -> list[Logged]:
        """Return events, the latest first, behind a position."""
        conditions = (*_holding(wanted), *(() if before is None else [_behind(before)]))
        found = select(_TABLE).where(*conditions).order_by(*_LATEST_FIRST).limit(limit)
        return [_logged(row) for row in self._archive.rows(found)]

    def trim(self, before: float) -> int:
        """Delete what is older than a time; return how many."""
        return self._archive.change(delete(_TABLE).where(_EVENT.at < before))

    def close(self) -> None:
        """Close its connections."""
        self._archive.close()

    def _known(self, times: Iterable[float]) -> set[tuple[object, ...]]:
        found = self._archive.rows(select(_TABLE).where(_EVENT.at.in_(times)))
        return {name for row in found for name in _names(row)}


class EventSearch:
    """Search of a cluster's events: in the archive, or in the log while that does not answer.

    Threads: any; calls block for both, and raise ``Unavailable`` if neither answers.
    """

    def __init__(self, log: EventLog, archive: EventArchive) -> None:
        self.log = log
        self._archive = archive

    def find(
        self, wanted: EventFilter, before: Position | None = None, limit: int = 100
    ) -> FoundEvents:
        """Return events, the latest first, behind a position."""
        try:
            return FoundEvents(self._archive.find(wanted, before, limit))
        except Unavailable as error:
            found = sorted(self.log.read(limit=LOG), key=position_of, reverse=True)
            behind = (each for each in found if before is None or position_of(each) < before)
            held = [each for each in behind if wanted.holds(each[1])]
            return FoundEvents(held[:limit], f"these are only the latest events: {error}")


def _holding(wanted: EventFilter) -> Iterable[ColumnElement[bool]]:
    """Yield the conditions of a filter; see ``EventFilter.holds``."""
    if wanted.group is not None:
        yield _EVENT.kind.in_(sorted(KINDS[wanted.group]))
    if wanted.kind is not None:
        yield _EVENT.kind == wanted.kind
    if wanted.who is not None:
        yield _EVENT.who.icontains(wanted.who, autoescape=True)
    if wanted.q is not None:
        yield or_(*(each.icontains(wanted.q, autoescape=True) for each in _SEARCHED))
    if wanted.since is not None:
        yield _EVENT.at >= wanted.since
    if wanted.until is not None:
        yield _EVENT.at < wanted.until


_SEARCHED = (_EVENT.text, _EVENT.data)


def _behind(position: Position) -> ColumnElement[bool]:
    at, sequence = position[0], literal(position[1], BigInteger)  # whoever asks may give any
    return and_(_EVENT.at <= at, or_(_EVENT.at < at, _EVENT.sequence < sequence))


def _names(row: Mapping[str, Any]) -> Iterable[tuple[object, ...]]:
    """Return what an event is known by, each of the two."""
    return (row["at"], row["sequence"]), (row["at"], row["kind"], row["who"], row["text"])


def _row(sequence: int, event: Event) -> Mapping[str, Any]:
    return {
        "at": event.at,
        "sequence": sequence,
        "kind": _storable(event.kind)[:_MOST_KIND],
        "who": _storable(event.who),
        "text": _storable(event.text),
        "data": plain(event.data).decode(),
    }


def _storable(text: str) -> str:
    """Return a text without NUL, which PostgreSQL takes in none."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}")


def _logged(row: Mapping[str, Any]) -> Logged:
    data = decode(dict[str, Any], row["data"].encode())
    return row["sequence"], Event(row["kind"], row["text"], row["at"], row["who"], data)
