"""The leader weighs slots by what their owners report, now and then, and the next continues."""

from dataclasses import replace

import pytest
from kazoo.security import OPEN_ACL_UNSAFE, make_acl

from pyspider_zk.cluster.cluster_settings import with_values
from pyspider_zk.cluster.events import EventKind
from pyspider_zk.cluster.orders import SettingsStore
from pyspider_zk.cluster.rebalancing import preview
from pyspider_zk.cluster.records import Cluster
from pyspider_zk.cluster.tree import Tree
from pyspider_zk.cluster.weighing import SlotRates
from pyspider_zk.config import Settings
from pyspider_zk.zookeeper.connection import Connection
from tests.support.connected import looking
from tests.support.crew import BareScheduler, Crew
from tests.support.waiting import eventually

pytestmark = pytest.mark.zk

PROJECTS = dict.fromkeys(range(12), 1)
BUSY = {0: 500}


class WeighedCluster:
    """A cluster of which one slot is busy, and its operator."""

    def __init__(self, crew: Crew, connection: Connection, settings: Settings) -> None:
        self.crew = crew
        self.connection = connection
        self.tree = Tree(settings.root)
        self._store = SettingsStore(connection, self.tree)
        self.rates = dict(BUSY)
        self.members = [self.start(name) for name in ("one", "two")]
        crew.shared_by(*self.members)

    def start(self, name: str) -> BareScheduler:
        return self.crew.start(name, projects=PROJECTS, rates=self.rates)

    def set(self, **values: object) -> None:
        """Set cluster-wide settings, and wait until everybody goes by them."""
        wanted = self._store.change(
            lambda found: with_values(found, values), EventKind.SETTINGS, "set", "me"
        )
        eventually(
            lambda: all(each.coordinator._leadership._settings == wanted for each in self.members)
        )

    def cluster(self) -> Cluster:
        return self.crew.cluster()

    @property
    def written(self) -> bytes:
        return self.connection.get(self.tree.slot_rates)[0]

    @property
    def owner_of_busy(self) -> BareScheduler:
        (owner,) = (each for each in self.members if 0 in each.owned)
        return owner

    def await_alone(self) -> None:
        """Wait until the busy slot is alone with its owner."""
        eventually(lambda: sorted(len(each.open) for each in self.members) == [1, 11])
        assert set(self.owner_of_busy.owned) == {0}

    def await_looks(self, count: int = 3) -> None:
        """Wait until the leader has looked some more times."""
        path = self.tree.slot_rates
        version = self.connection.get(path)[1]
        eventually(lambda: self.connection.get(path)[1] >= version + count, "looks")


@pytest.fixture
def weighed(crew: Crew, connection: Connection, settings: Settings) -> WeighedCluster:
    return WeighedCluster(crew, connection, settings)


def test_the_neighbours_of_a_busy_slot_move_away_and_it_stays(weighed: WeighedCluster) -> None:
    before, owner = weighed.crew.table(), weighed.owner_of_busy

    weighed.set(weigh_every=1)
    weighed.await_alone()

    after = weighed.crew.table()
    assert weighed.owner_of_busy is owner
    moved = [slot for slot in range(12) if after[slot] != before[slot]]
    assert len(moved) == 5
    assert all(after[slot].epoch == before[slot].epoch + 1 for slot in moved)
    assert SlotRates.decode(weighed.written) == SlotRates(BUSY)


def test_at_rest_nothing_moves_at_further_looks(weighed: WeighedCluster) -> None:
    weighed.set(weigh_every=1)
    weighed.await_alone()
    before = weighed.crew.table()

    weighed.rates[0] = 450
    weighed.await_looks()

    assert weighed.crew.table() == before
    assert SlotRates.decode(weighed.written) == SlotRates(BUSY)


def test_reports_are_not_looked_at_until_it_is_time(weighed: WeighedCluster) -> None:
    """Until then the rates are as at the cluster's birth, when nobody had reported anything."""
    table = weighed.crew.table()
    weighed.set(weigh_every=3600)
    leader = next(each for each in weighed.members if each.coordinator.leading)
    until = leader.coordinator.view.lease_until

    eventually(lambda: leader.coordinator.view.lease_until > until + 2, "renewals")

    assert weighed.crew.table() == table
    assert SlotRates.decode(weighed.written) == SlotRates({})


def test_the_next_leader_moves_nothing_because_nothing_is_reported(weighed: WeighedCluster) -> None:
    """It goes by what the last one wrote."""
    weighed.set(weigh_every=1)
    weighed.await_alone()
    weighed.set(weigh_every=3600)
    weighed.rates.clear()
    eventually(lambda: all(load.slot_rates == {} for load in weighed.cluster().loads.values()))
    leader, other = sorted(weighed.members, key=lambda each: not each.coordinator.leading)

    leader.stop()
    eventually(lambda: len(other.open) == 12)
    back = weighed.start(leader.coordinator._record.name)
    weighed.members = [other, back]

    weighed.await_alone()


def test_where_projects_alone_count_a_busy_slot_is_like_any_other(weighed: WeighedCluster) -> None:
    weighed.set(weigh_every=1)
    weighed.await_alone()

    weighed.set(weigh_by="projects")
    weighed.crew.shared_by(*weighed.members)
    assert weighed.cluster().slot_rates == {}

    weighed.set(weigh_by="load")
    weighed.await_alone()


@pytest.mark.parametrize("junk", [b"", b"\xff\x00", b'{"rates": {"0": -5}}', b'{"rates": 7}'])
def test_junk_in_the_record_changes_nothing_and_is_written_over(
    weighed: WeighedCluster, junk: bytes
) -> None:
    weighed.set(weigh_every=1)
    weighed.await_alone()
    weighed.set(weigh_every=3600)
    before = weighed.crew.table()

    weighed.connection.set(weighed.tree.slot_rates, junk)
    assert weighed.tree.slot_rates in weighed.cluster().unreadable
    weighed.set(weigh_every=1)
    eventually(lambda: weighed.written == SlotRates(BUSY).encode())

    assert weighed.crew.table() == before
    assert weighed.cluster().unreadable == {}


def test_a_leader_that_finds_junk_looks_at_once(weighed: WeighedCluster) -> None:
    weighed.set(weigh_every=1)
    weighed.await_alone()
    weighed.set(weigh_every=3600)
    before = weighed.crew.table()
    leader, other = sorted(weighed.members, key=lambda each: not each.coordinator.leading)

    weighed.connection.set(weighed.tree.slot_rates, b"junk")
    leader.coordinator._leadership.withdraw()
    eventually(lambda: other.coordinator.leading)

    eventually(lambda: weighed.written == SlotRates(BUSY).encode())
    assert weighed.crew.table() == before


def test_a_deleted_record_is_made_anew(weighed: WeighedCluster) -> None:
    weighed.set(weigh_every=1)
    weighed.await_alone()

    weighed.connection.delete(weighed.tree.slot_rates)

    eventually(lambda: weighed.connection.find(weighed.tree.slot_rates))
    assert SlotRates.decode(weighed.written) == SlotRates(BUSY)


@pytest.mark.parametrize("may_read", [True, False])
def test_a_record_that_others_locked_keeps_no_leader_from_its_duty(
    weighed: WeighedCluster, may_read: bool
) -> None:
    allowed = [make_acl("world", "anyone", read=may_read, admin=True)]
    weighed.set(weigh_every=1)
    weighed.await_alone()
    weighed.connection._client.set_acls(weighed.tree.slot_rates, allowed)
    leader, other = sorted(weighed.members, key=lambda each: not each.coordinator.leading)

    leader.stop()

    eventually(lambda: len(other.open) == 12, "a takeover")
    weighed.connection._client.set_acls(weighed.tree.slot_rates, OPEN_ACL_UNSAFE)


def test_a_preview_weighs_as_the_leader_does(weighed: WeighedCluster, settings: Settings) -> None:
    with looking(settings) as directory:
        assert preview(directory.read(), PROJECTS) == []
        weighed.set(weigh_every=1)
        weighed.await_alone()
        cluster = directory.read()

    assert preview(cluster, PROJECTS) == []
    others = {slot for slot in range(12) if slot} - set(weighed.owner_of_busy.owned)
    by_projects = preview(replace(cluster, slot_rates={}), PROJECTS)
    assert len(by_projects) == 5
    assert {move.slot for move in by_projects} < others
