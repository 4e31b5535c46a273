"""A ZooKeeper that is far away: everything takes long, and deaths are noticed all the same."""

import queue
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import pytest

from pyspider_zk.cluster.records import Load
from pyspider_zk.cluster.tree import Tree
from pyspider_zk.config import Settings
from pyspider_zk.groups.ids import MemberId
from pyspider_zk.zookeeper.connection import Connection
from tests.support.crew import Cable, Crew
from tests.support.waiting import eventually

pytestmark = pytest.mark.zk


class LongCable(Cable):
    """A cable on which everything travels for some time, in each direction."""

    def __init__(self, target: str, delay: float) -> None:
        self._delay = delay
        super().__init__(target)

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        travelling: queue.Queue[tuple[float, bytes]] = queue.Queue()
        arrival = threading.Thread(target=self._deliver, args=(travelling, target), daemon=True)
        arrival.start()
        with suppress(OSError):
            while data := source.recv(65536):
                travelling.put((time.monotonic() + self._delay, data))
        travelling.put((time.monotonic() + self._delay, b""))
        arrival.join()

    def _deliver(self, travelling: "queue.Queue[tuple[float, bytes]]", target) -> None:
        with suppress(OSError):
            while True:
                due, data = travelling.get()
                time.sleep(max(0.0, due - time.monotonic()))
                if not data:
                    target.shutdown(socket.SHUT_RDWR)
                    return
                target.sendall(data)


@pytest.fixture
def far_crew(settings: Settings, round_trip: float) -> Iterator[Crew]:
    """Give schedulers that are so far away from ZooKeeper; ownership must never overlap."""
    cable = LongCable(settings.hosts, round_trip / 2)
    crew = Crew(replace(settings, hosts=cable.address, session=20.0))
    try:
        yield crew
    finally:
        crew.stop()
        cable.close()
    assert crew.overlaps == []


@pytest.mark.parametrize("round_trip", [0.08])  # for a lease of 1 s; as 320 ms are for one of 4 s
def test_a_death_is_noticed_behind_a_long_way(far_crew: Crew):
    members = far_crew.start_and_share(3, mortal=[2])

    members[2].die()

    far_crew.shared_by(*members[:2])


@pytest.mark.parametrize("round_trip", [0.08])
def test_the_leftovers_of_many_cost_the_leader_no_lease(
    far_crew: Crew, connection: Connection, settings: Settings
):
    leader, other = far_crew.start_and_share(2)
    before, tree = far_crew.table(), Tree(settings.root)
    for number in range(100, 200):
        gone = MemberId(number, "gone")
        connection.create(tree.lease(gone), Load(lease=1.0).encode())
        connection.create(tree.ack(gone), b"{}")
    connection.create(f"{tree.lease(MemberId(150, 'gone'))}/left/behind/far/below", b"")
    record, _ = connection.get(tree.member(other.member))
    connection.set(tree.member(other.member), record)  # so that the leader looks

    eventually(lambda: len(connection.children(tree.leases)) == 2, "sweeping")

    assert len(connection.children(tree.acks)) == 2
    assert leader.coordinator.leading
    assert far_crew.table() == before


@pytest.mark.soak
@pytest.mark.parametrize("round_trip", [0.32])
@pytest.mark.parametrize("dies", [0, 2])
def test_a_death_is_noticed_behind_a_long_way_with_the_times_of_the_defaults(far_crew: Crew, dies):
    far_crew.settings = replace(far_crew.settings, renewal=1.0, lease=4.0, hang=30.0)
    members = far_crew.start_and_share(3)

    members.pop(dies).die()

    far_crew.shared_by(*members)


@pytest.mark.parametrize("round_trip", [0.08])
def test_a_turn_of_the_leader_costs_a_few_round_trips_however_many_members(far_crew: Crew):
    members = far_crew.start_and_share(3)
    leader = next(member for member in members if member.coordinator.leading)
    turns = asks_per_turn(leader)

    eventually(lambda: len(turns) >= 5)

    assert sorted(turns)[len(turns) // 2] <= 3  # renew, look at the names, look at what they say


def asks_per_turn(scheduler) -> list[int]:
    """Count how often each turn waits for ZooKeeper."""
    connection, turns = scheduler.coordinator.connection, []
    asked, step = [0], scheduler.coordinator._step

    def counted(call):
        def wrapper(*args, **kwargs):
            asked[0] += bool(args[0])  # of nothing nothing is asked
            return call(*args, **kwargs)

        return wrapper

    for name in ("look", "multi", "get", "find_all", "children", "sync"):
        setattr(connection, name, counted(getattr(connection, name)))

    def turn() -> None:
        asked[0] = 0
        step()
        turns.append(asked[0])

    scheduler.coordinator._step = turn
    return turns
