"""The leader archives the events of a real ZooKeeper, whatever leads or is away meanwhile."""

import logging
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from kazoo.exceptions import NoNodeError, NotEmptyError, QuotaExceededError
from pyspider.database import connect_database

from pyspider_zk.cluster.event_archive import EventArchive
from pyspider_zk.cluster.event_filter import EventFilter
from pyspider_zk.cluster.event_log import EventLog
from pyspider_zk.cluster.events import Event
from pyspider_zk.cluster.tree import Tree
from pyspider_zk.config import Settings
from pyspider_zk.errors import Unavailable
from pyspider_zk.projects.script_versions import ScriptVersions
from pyspider_zk.scheduling import event_archiving
from pyspider_zk.scheduling.event_archiving import KEPT, KEPT_FOR, TIDYING, EventArchiving
from pyspider_zk.zookeeper.connection import Connection
from tests.support.live_cluster import LiveCluster
from tests.support.zk_faults import Refusal, Refusing

pytestmark = pytest.mark.zk

Eventually = Callable[..., Any]
NOW = 1_790_000_000.0


class ArchivedLog:
    """A log in ZooKeeper, and the archive of an sqlite file.

    Attributes:
        leads: whether who archives is the leader.
        now: the time of who archives.
        tidied: when something else was tidied.
    """

    def __init__(self, connection: Connection, settings: Settings, folder: Path) -> None:
        self.leads = True
        self.now = NOW
        self.tidied: list[float] = []
        self.path = folder / "project.db"
        self.log = EventLog(connection, Tree(settings.root))
        self._connection = connection
        self._projectdb = connect_database(f"sqlite+projectdb:///{self.path}")

    def archive(self) -> EventArchive:
        return EventArchive(self._projectdb)

    def archiving(self) -> EventArchiving:
        """Return a new leader's."""
        tidy, now = lambda: self.tidied.append(self.now), lambda: self.now
        return EventArchiving(lambda: self.leads, self.log, self.archive(), tidy, now)

    def write(self, *numbers: int) -> None:
        """Write events of the group of scripts, all at once."""
        for start in range(0, len(numbers), 500):
            events = [Event("script", str(n), NOW + n) for n in numbers[start : start + 500]]
            self._connection.multi(*map(self.log.step, events))

    def archived(self) -> list[int]:
        with closing(self.archive()) as archive:
            found = archive.find(EventFilter(kind="script"), limit=100_000)
        return [int(event.text) for _, event in reversed(found)]

    def logged(self) -> list[int]:
        return [int(event.text) for _, event in self.log.read(limit=100_000)]


@pytest.fixture
def cluster(connection: Connection, settings: Settings, tmp_path: Path) -> ArchivedLog:
    made = ArchivedLog(connection, settings, tmp_path)
    connection.ensure([Tree(settings.root).events])
    return made


def test_all_events_are_archived_once_though_the_leader_changes(cluster: ArchivedLog) -> None:
    old = cluster.archiving()
    cluster.write(*range(700))
    old.look()
    cluster.write(*range(700, 1700))
    cluster.archiving().look()
    cluster.write(*range(1700, 1800))
    old.look()  # it has not heard yet that it leads no more

    assert cluster.archived() == [*range(1800)]
    assert cluster.logged() == [*range(1800 - KEPT, 1800)]


@pytest.fixture
def away(cluster: ArchivedLog) -> Iterator[Callable[[], None]]:
    """Let the database be away until the function is called, which is given."""
    aside = cluster.path.rename(cluster.path.with_suffix(".aside"))
    cluster.path.mkdir()

    def back() -> None:
        cluster.path.rmdir()
        aside.rename(cluster.path)

    return back


def test_nothing_is_lost_while_the_database_is_away(
    cluster: ArchivedLog, away: Callable[[], None], eventually: Eventually, caplog: Any
) -> None:
    caplog.set_level(logging.INFO, "scheduler")
    cluster.write(*range(1500))
    archiving = cluster.archiving()
    archiving.loop.start()
    eventually(lambda: "no event is archived" in caplog.text)
    assert len(cluster.logged()) == 1500
    away()
    eventually(lambda: len(cluster.logged()) == KEPT)
    cluster.write(1500)
    eventually(lambda: cluster.archived() == [*range(1501)])
    archiving.loop.stop(1.0)
    assert [each.split(":")[0] for each in caplog.messages] == [
        "no event is archived",
        "events are archived again",
    ]


@pytest.mark.parametrize("refusal", [NotEmptyError, NoNodeError, QuotaExceededError])
def test_what_zookeeper_refuses_is_an_outage(
    cluster: ArchivedLog,
    connection: Connection,
    refusal: Refusal,
    eventually: Eventually,
    caplog: Any,
) -> None:
    archiving = cluster.archiving()
    with Refusing(connection).refusing("create", refusal):
        archiving.loop.start()
        eventually(lambda: "no event is archived: ZooKeeper" in caplog.text)
    cluster.write(1)
    eventually(lambda: cluster.archived() == [1])
    archiving.loop.stop(1.0)
    assert [each.levelname for each in caplog.records] == ["WARNING"]


def test_the_oldest_go_rather_than_fill_zookeeper_which_is_said_once(
    cluster: ArchivedLog, away: Callable[[], None], caplog: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr(event_archiving, "MOST", 1200)
    archiving = cluster.archiving()
    for numbers in (range(1300), range(1300, 1400)):
        cluster.write(*numbers)
        with pytest.raises(Unavailable):
            archiving.look()
    away()
    cluster.archiving().look()

    assert cluster.archived() == [*range(200, 1400)]
    assert len([each for each in caplog.messages if "its oldest events are lost" in each]) == 1


def test_a_table_that_is_gone_is_made_anew(cluster: ArchivedLog) -> None:
    archiving = cluster.archiving()
    cluster.write(0)
    archiving.look()
    with closing(sqlite3.connect(cluster.path)) as other:
        other.execute("DROP TABLE `pyspider-zk-events`")
    cluster.write(1)
    with pytest.raises(Unavailable):
        archiving.look()
    archiving.look()

    assert cluster.archived() == [1]


def test_what_cannot_be_tidied_keeps_no_event_from_the_archive(
    cluster: ArchivedLog, caplog: Any
) -> None:
    with closing(sqlite3.connect(cluster.path)) as damaged:
        damaged.execute("CREATE TABLE `pyspider-zk-scripts` (other)")
    with closing(ScriptVersions(connect_database(f"sqlite+projectdb:///{cluster.path}"))) as kept:
        archiving = EventArchiving(lambda: True, cluster.log, cluster.archive(), kept.forget_gone)
        cluster.write(*range(KEPT + 1))
        archiving.look()

    assert cluster.archived() == [*range(KEPT + 1)]
    assert len(cluster.logged()) == KEPT
    assert "what is old is not deleted from the archive: " in caplog.text


def test_events_written_by_hand_hold_no_others_up(cluster: ArchivedLog, connection: Any) -> None:
    archiving = cluster.archiving()
    path = cluster.log.step(Event("script", "7000", NOW + 7000)).path
    connection.create(f"{path}0000007000", Event("script", "7000", NOW + 7000).encode())
    connection.create(f"{path}0000007001", b"?")
    archiving.look()
    cluster.write(1)
    archiving.look()

    assert cluster.archived() == [1, 7000]


def test_the_archive_forgets_what_is_old(cluster: ArchivedLog) -> None:
    archiving = cluster.archiving()
    cluster.write(0, 10)
    archiving.look()
    cluster.now = NOW + KEPT_FOR + 5
    archiving.look()
    assert cluster.archived() == [10]
    cluster.now += TIDYING
    archiving.look()
    assert cluster.archived() == []
    assert cluster.tidied == [NOW, NOW + KEPT_FOR + 5, cluster.now]


def test_a_database_that_keeps_none_leaves_the_log(cluster: ArchivedLog, caplog: Any) -> None:
    caplog.set_level(logging.INFO, "scheduler")
    cluster.write(*range(KEPT + 3))
    cluster.leads = False
    archiving = EventArchiving(lambda: cluster.leads, cluster.log, None)
    archiving.loop.start()
    archiving.look()
    archiving.loop.stop(1.0)

    assert cluster.logged() == [*range(3, KEPT + 3)]
    assert "the project database keeps no events: only the latest 1000 are kept" in caplog.text


@pytest.mark.slow
def test_two_thousand_events_outlive_two_leaders(
    cluster: ArchivedLog, settings: Settings, tmp_path: Path, eventually: Eventually
) -> None:
    live = LiveCluster(tmp_path, settings)
    with ExitStack() as first, ExitStack() as second:
        leader = first.enter_context(live.scheduler())
        eventually(lambda: len(leader.fence.held) == settings.slots)
        second.enter_context(live.scheduler())
        for start in range(0, 2000, 100):
            cluster.write(*range(start, start + 100))
            if start == 1000:
                first.close()
        eventually(lambda: cluster.archived() == [*range(2000)], look=1.0)
        eventually(lambda: len(cluster.log.numbers()) == KEPT)
