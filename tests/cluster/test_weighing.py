"""What slots are weighed by follows the reports, but not their noise; the next leader continues."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kazoo.security import OPEN_ACL_UNSAFE, make_acl

from pyspider_zk.cluster.cluster_settings import with_values
from pyspider_zk.cluster.events import EventKind
from pyspider_zk.cluster.orders import Orders
from pyspider_zk.cluster.placement import Rated, place
from pyspider_zk.cluster.rebalancing import preview
from pyspider_zk.cluster.records import Assignment, Cluster, Load, Slot
from pyspider_zk.cluster.tree import Tree
from pyspider_zk.cluster.weighing import MOST_RATE, SlotRates, followed, moved_since
from pyspider_zk.config import Settings
from pyspider_zk.errors import BadMessage
from pyspider_zk.groups.ids import MemberId
from pyspider_zk.zookeeper.connection import Connection
from tests.support.connected import looking
from tests.support.crew import BareScheduler, Crew
from tests.support.waiting import eventually

A, B = MemberId(0, "a"), MemberId(1, "b")
OF_A = Assignment(1, (Slot(A, 1),) * 4)
ANY_NUMBER = 10**6


def reported(rates: dict[int, int] | None, by: MemberId = A) -> dict[MemberId, Load]:
    return {by: Load(slot_rates=rates)}


@pytest.mark.parametrize(
    ("known", "found", "after"),
    [
        (0, 2, 0),
        (0, 3, 3),
        (100, 130, 100),
        (100, 140, 140),
        (100, 76, 100),
        (100, 70, 70),
        (3, 0, 0),
        (2, 0, 2),
        (100, -5, 0),
        (0, 10**12, MOST_RATE),
    ],
)
def test_a_rate_follows_a_report_that_is_far_from_it(known: int, found: int, after: int) -> None:
    rates = followed({0: known}, OF_A, OF_A, reported({0: found}))

    assert rates.get(0, 0) == after


UNTOLD = {
    "the owner's report is missing": (OF_A, {}),
    "the owner is of a version that reports none": (OF_A, reported(None)),
    "another member reports it": (OF_A, reported({0: 7}, by=B)),
    "the slot was granted since the last look": (Assignment(2, (Slot(A, 2),) * 4), reported({})),
    "the slot is being released": (Assignment(2, (Slot(A, 1, B),) * 4), reported({})),
    "nobody owns it": (Assignment(2, (Slot(None, 1),) * 4), reported({0: 7})),
}


@pytest.mark.parametrize("case", UNTOLD)
def test_a_slot_of_which_nothing_is_known_keeps_its_rate(case: str) -> None:
    assert followed({0: 500}, OF_A, *UNTOLD[case]) == {0: 500}


def test_slots_that_do_not_exist_are_left_out() -> None:
    assert followed({}, OF_A, OF_A, reported({-1: 9, 4: 9, 10**9: 9, 3: 9})) == {3: 9}


tables = st.dictionaries(st.integers(0, 16_383), st.integers(0, MOST_RATE), max_size=50)


@given(tables)
def test_rates_are_read_as_they_were_written(rates) -> None:
    assert SlotRates.decode(SlotRates(rates).encode()) == SlotRates(rates)


@pytest.mark.parametrize(
    "junk",
    [
        b"",
        b"[]",
        b'{"rates": null}',
        b'{"rates": {"0": -1}}',
        b'{"rates": {"0": 1e99}}',
        b'{"rates": {"0": 1.5}}',
        b'{"rates": {"zero": 1}}',
        b'{"rates": {"16384": 1}}',
        b'{"rates": {"-1": 1}}',
        b'{"rates": {"0": 1000001}}',
    ],
)
def test_what_are_no_rates_is_refused(junk: bytes) -> None:
    with pytest.raises(BadMessage):
        SlotRates.decode(junk)


class Simulated:
    """A cluster whose slots do what they do, measured with noise, and a leader that looks."""

    def __init__(self, members: int, projects: list[int], true_rates: list[int]) -> None:
        self.members = [MemberId(number, f"{number:x}") for number in range(members)]
        self.projects = {slot: count for slot, count in enumerate(projects) if count}
        self.true = true_rates
        slots = dict.fromkeys(range(len(projects)))
        owners = place(slots, self.members, self.projects, ANY_NUMBER)
        self.table = Assignment(1, tuple(Slot(owners[slot], 1) for slot in slots))
        self._before = self.table
        self.rates: dict[int, int] = {}

    def look(self, factors: list[float]) -> None:
        """Let the leader look at reports that are wrong by these factors."""
        found = {slot: round(rate * factors[slot]) for slot, rate in enumerate(self.true)}
        loads = {
            member: Load(slot_rates={s: r for s, r in found.items() if self._is_of(s, member)})
            for member in self.members
        }
        self.rates = followed(self.rates, self._before, self.table, loads)
        self._before = self.table

    def move(self, moves: int = ANY_NUMBER) -> set[int]:
        """Do what the leader decides, as far as so many moves go; return the slots that moved."""
        before = {slot: row.owner for slot, row in enumerate(self.table.slots)}
        rated = Rated(self.rates, moved_since(self._before, self.table), self.members)
        after = place(before, self.members, self.projects, moves, {}, rated)
        moved = {slot for slot in before if before[slot] != after[slot]}
        rows = (
            replace_owner(row, after[slot]) if slot in moved else row
            for slot, row in enumerate(self.table.slots)
        )
        self.table = Assignment(self.table.epoch + 1, tuple(rows))
        return moved

    def _is_of(self, slot: int, member: MemberId) -> bool:
        return self.table.slots[slot].owner == member


def replace_owner(row: Slot, owner: MemberId) -> Slot:
    return Slot(owner, row.epoch + 1)


slots = st.integers(1, 30)
noise = st.floats(0.9, 1.1)


@st.composite
def clusters(draw) -> Simulated:
    count = draw(slots)
    projects = st.lists(st.integers(0, 9), min_size=count, max_size=count)
    rates = st.lists(st.integers(0, 3) | st.integers(0, 5000), min_size=count, max_size=count)
    return Simulated(draw(st.integers(1, 6)), draw(projects), draw(rates))


def factors(cluster: Simulated) -> st.SearchStrategy[list[float]]:
    count = len(cluster.true)
    return st.lists(noise, min_size=count, max_size=count)


@given(clusters(), st.data())
def test_noisy_rates_come_to_rest_and_then_move_nothing(cluster, data) -> None:
    """The first look moves some; those are measured by their new owners at the third."""
    for _ in range(3):
        cluster.look(data.draw(factors(cluster)))
        cluster.move()
    rested, rates = cluster.table.slots, cluster.rates

    for _ in range(5):
        cluster.look(data.draw(factors(cluster)))
        assert not cluster.move()

    assert (cluster.table.slots, cluster.rates) == (rested, rates)


@given(clusters(), st.data())
def test_a_look_moves_no_slot_twice_and_then_comes_to_rest(cluster, data) -> None:
    cluster.look(data.draw(factors(cluster)))
    moves = data.draw(st.integers(1, 4))

    moved = [slot for _ in range(len(cluster.true) + 1) for slot in cluster.move(moves)]

    assert not cluster.move()
    assert len(moved) == len(set(moved))


@given(clusters(), st.data())
def test_what_the_next_leader_reads_moves_nothing(cluster, data) -> None:
    """It goes by the record of its predecessor, also if nobody reports anything any more."""
    for _ in range(3):
        cluster.look(data.draw(factors(cluster)))
        cluster.move()
    assert not cluster.move()
    cluster.rates = dict(SlotRates.decode(SlotRates(cluster.rates).encode()).rates)
    assert not cluster.move()

    after = followed(cluster.rates, cluster.table, cluster.table, {})

    assert after == {slot: rate for slot, rate in cluster.rates.items() if rate}


def test_loads_with_rates_are_read_by_versions_that_know_none() -> None:
    """An unknown key is ignored; a load without one says that nothing is known."""
    assert Load.decode(b"{}").slot_rates is None
    told = Load(projects=3, slot_rates={5: 70})
    assert Load.decode(told.encode()) == told
    assert replace(told, slot_rates=None).encode() != told.encode()


PROJECTS = dict.fromkeys(range(12), 1)
BUSY = {0: 500}


class WeighedCluster:
    """A cluster of which one slot is busy, and its operator."""

    def __init__(self, crew: Crew, connection: Connection, settings: Settings) -> None:
        self.crew = crew
        self.connection = connection
        self.tree = Tree(settings.root)
        self._orders = Orders(connection, self.tree, "me")
        self.rates = dict(BUSY)
        self.members = [self.start(name) for name in ("one", "two")]
        crew.shared_by(*self.members)

    def start(self, name: str) -> BareScheduler:
        return self.crew.start(name, projects=PROJECTS, rates=self.rates)

    def set(self, **values: object) -> None:
        """Set cluster-wide settings, and wait until everybody goes by them."""
        wanted = self._orders.change(
            EventKind.SETTINGS, "set", lambda found: with_values(found, values)
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


@pytest.mark.zk
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


@pytest.mark.zk
def test_at_rest_nothing_moves_at_further_looks(weighed: WeighedCluster) -> None:
    weighed.set(weigh_every=1)
    weighed.await_alone()
    before = weighed.crew.table()

    weighed.rates[0] = 450
    weighed.await_looks()

    assert weighed.crew.table() == before
    assert SlotRates.decode(weighed.written) == SlotRates(BUSY)


@pytest.mark.zk
def test_reports_are_not_looked_at_until_it_is_time(weighed: WeighedCluster) -> None:
    """Until then the rates are as at the cluster's birth, when nobody had reported anything."""
    table = weighed.crew.table()
    weighed.set(weigh_every=3600)
    leader = next(each for each in weighed.members if each.coordinator.leading)
    until = leader.coordinator.view.lease_until

    eventually(lambda: leader.coordinator.view.lease_until > until + 2, "renewals")

    assert weighed.crew.table() == table
    assert SlotRates.decode(weighed.written) == SlotRates({})


@pytest.mark.zk
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


@pytest.mark.zk
def test_where_projects_alone_count_a_busy_slot_is_like_any_other(weighed: WeighedCluster) -> None:
    weighed.set(weigh_every=1)
    weighed.await_alone()

    weighed.set(weigh_by="projects")
    weighed.crew.shared_by(*weighed.members)
    assert weighed.cluster().slot_rates == {}

    weighed.set(weigh_by="load")
    weighed.await_alone()


@pytest.mark.zk
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


@pytest.mark.zk
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


@pytest.mark.zk
def test_a_deleted_record_is_made_anew(weighed: WeighedCluster) -> None:
    weighed.set(weigh_every=1)
    weighed.await_alone()

    weighed.connection.delete(weighed.tree.slot_rates)

    eventually(lambda: weighed.connection.find(weighed.tree.slot_rates))
    assert SlotRates.decode(weighed.written) == SlotRates(BUSY)


@pytest.mark.zk
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


@pytest.mark.zk
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
