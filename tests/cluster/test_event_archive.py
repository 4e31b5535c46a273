"""The archive of events, in the project databases of every backend."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyspider.database import connect_database
from pyspider.database.local.projectdb import ProjectDB

from pyspider_zk.cluster.event_archive import PART, EventArchive
from pyspider_zk.cluster.event_filter import KINDS, EventFilter, EventGroup, Logged, position_of
from pyspider_zk.cluster.events import Event, EventKind
from pyspider_zk.errors import Unavailable
from tests.patches.databases import Databases, backend, databases

__all__ = ["backend", "databases"]  # fixtures

AT = 1_790_000_000.123457
ALL = EventFilter()

EVENTS = [
    (1, Event("batch", "stop of 2 projects was asked for", AT, "Ann", {"projects": ["news_1"]})),
    (2, Event("script", "save the script of Über_100%", AT, "bob@host", {"result": "done"})),
    (-3, Event("joined", "member 0-a joined", AT + 1, "0-a")),
    (4, Event("of a newer version", "x", AT + 2)),
]
FILTERS = [
    *(EventFilter(group=group) for group in EventGroup),
    EventFilter(kind="joined"),
    EventFilter(kind="none"),
    *(EventFilter(who=who) for who in ("ANN", "host", "0-A", "%")),
    *(EventFilter(q=text) for text in ("STOP", "NEWS_1", "news11", "100%", "Über", "_", "\\")),
    EventFilter(since=AT + 1),
    EventFilter(until=AT + 1),
    EventFilter(group=EventGroup.ORDERS, who="ann", q="stop", since=AT, until=AT + 1),
    EventFilter(group=EventGroup.SCRIPTS, who="ann"),
]


@pytest.fixture
def archive(backend: Databases) -> Iterator[EventArchive]:
    with closing(EventArchive(backend.connect("project"))) as made:
        yield made


def latest_first(events: list[Logged]) -> list[Logged]:
    return sorted(events, key=position_of, reverse=True)


def test_events_are_archived_once_and_found_page_by_page(archive: EventArchive) -> None:
    many = [(n, Event("script", f"number {n}", AT + n // 7 / 3)) for n in range(PART * 2 + 10)]

    archive.append(many[: PART + 5])
    archive.append(many)
    archive.append(many)

    found: list[Logged] = []
    while page := archive.find(ALL, position_of(found[-1]) if found else None, limit=64):
        found += page
    assert found == latest_first(many)


def test_a_position_may_have_any_number(archive: EventArchive) -> None:
    archive.append(EVENTS)

    assert archive.find(ALL, (AT, 9_999_999_999)) == latest_first(EVENTS)[2:]
    assert archive.find(ALL, (AT, -9_999_999_999)) == []


def test_the_archive_finds_what_a_filter_holds_of(archive: EventArchive) -> None:
    archive.append(EVENTS)

    found = {wanted: archive.find(wanted) for wanted in FILTERS}

    held = {each: [one for one in EVENTS if each.holds(one[1])] for each in FILTERS}
    assert found == {wanted: latest_first(events) for wanted, events in held.items()}
    assert {len(events) for events in held.values()} == {0, 1, 2}


def test_a_restored_log_whose_numbers_are_others_is_known(archive: EventArchive) -> None:
    archive.append(EVENTS)
    archive.append([(number, event) for number, (_, event) in enumerate(EVENTS)])
    archive.append([(1, Event("batch", "written by hand over the first", AT))])

    assert archive.find(ALL) == latest_first(EVENTS)


def test_whatever_an_event_says_is_archived(archive: EventArchive) -> None:
    data: dict[str, Any] = {"\0": ["\0", 10**30, None, {"a": {}}], "emoji": "\U0001f577"}
    odd = Event("k" * 300, "a\0b", 1.7976931348623157e308, "\0", data)
    plain = [(-(2**31), Event("", "", at)) for at in (1e300, 5e-324, 0.0, -1e300)]

    archive.append([(2**31 - 1, odd), *plain])
    archive.append([(2**31 - 1, odd), *plain])

    (_, found), *others = archive.find(ALL)
    assert found == Event("k" * 255, "a\ufffdb", odd.at, "\ufffd", data)
    assert others == plain


def test_old_events_go(archive: EventArchive) -> None:
    archive.append(EVENTS)

    assert archive.trim(AT + 1) == 2

    assert archive.find(ALL) == latest_first(EVENTS[2:])


def test_a_database_that_is_away_or_keeps_none_says_so(tmp_path: Path) -> None:
    projectdb = connect_database(f"sqlite+projectdb:///{tmp_path}/project.db")
    projectdb.path = str(tmp_path)

    with pytest.raises(Unavailable, match="the archive cannot be used"):
        EventArchive(projectdb).find(ALL)
    with pytest.raises(Unavailable, match="of class ProjectDB keeps no archive"):
        EventArchive(ProjectDB([])).append(EVENTS)


def test_orders_are_told_from_scripts_and_from_what_happens() -> None:
    orders = {*EventKind} - KINDS[EventGroup.SCRIPTS] - KINDS[EventGroup.CLUSTER]
    assert KINDS[EventGroup.ORDERS] == orders
    assert {EventKind.RUN, EventKind.CHANGE, EventKind.DEAD_LETTERS} <= orders
    assert not {EventKind.ENDED, EventKind.TRIAL} & orders
