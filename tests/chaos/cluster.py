"""All processes of a run, and what ZooKeeper says about them."""

import itertools
import logging
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError

from pyspider_zk.cluster.reader import Reader
from pyspider_zk.cluster.records import Assignment, Member
from pyspider_zk.cluster.tree import Tree, candidate_of, leader_of
from pyspider_zk.local.child import Child
from pyspider_zk.zookeeper.unreadable import Unreadable
from tests.chaos.foreign_client import ForeignClient
from tests.chaos.services import (
    CLIENT_PORT,
    ENSEMBLE,
    SEATS,
    SeatedScheduler,
    ZooKeeperMember,
    component_child,
    redis_child,
)
from tests.support.network import Network
from tests.support.waiting import eventually

COMPONENTS = {
    "processor-0": "processor",
    "processor-1": "processor",
    "fetcher-0": "fetcher",
    "result-worker-0": "result-worker",
}
START_PATIENCE = 180.0
LOOK = 0.05  # seconds between two looks: it is asked over the network


class Watcher:
    """Looks at the cluster's znodes; empty answers while ZooKeeper is away."""

    def __init__(self, hosts: str) -> None:
        self._tree = Tree()
        self._reader = Reader(self._tree, Unreadable())
        quiet = logging.getLogger("tests.chaos.kazoo")
        quiet.setLevel(logging.CRITICAL)  # that servers die is what a run is about
        retry = {"max_tries": -1, "max_delay": 0.5}
        self._client = KazooClient(hosts, timeout=5.0, connection_retry=retry, logger=quiet)

    def start(self) -> None:
        self._client.start(START_PATIENCE)

    def stop(self) -> None:
        """Disconnect."""
        self._client.stop()
        self._client.close()

    def moving(self) -> bool:
        """Return whether a slot is between two owners."""
        found = self._assignment()
        return found is not None and any(slot.next is not None for slot in found.slots)

    def settled(self, schedulers: int) -> bool:
        """Return whether so many schedulers share all slots and none moves."""
        found = self._assignment()
        if found is None or any(slot.next is not None for slot in found.slots):
            return False
        return len({slot.owner for slot in found.slots}) == schedulers

    def leader_pid(self) -> int | None:
        """Return the process id of the leading scheduler."""
        first = leader_of(self._reader.candidates(self._children(self._tree.election)))
        data = self._get(self._tree.member(candidate_of(first))) if first else None
        return Member.decode(data).pid if data else None

    def address_of(self, pid: int) -> str | None:
        """Return where the scheduler of a process id answers."""
        for number in self._children(self._tree.members):
            data = self._get(f"{self._tree.members}/{number}")
            member = Member.decode(data) if data else None
            if member is not None and member.pid == pid:
                return member.address
        return None

    def _assignment(self) -> Assignment | None:
        data = self._get(self._tree.assignment)
        return Assignment.decode(data) if data else None

    def _get(self, path: str) -> bytes | None:
        with suppress(KazooException, KazooTimeoutError):
            return bytes(self._client.get_async(path).get(timeout=0.3)[0])
        return None

    def _children(self, path: str) -> list[str]:
        with suppress(KazooException, KazooTimeoutError):
            return list(self._client.get_children_async(path).get(timeout=0.3))
        return []


class ChaosCluster:
    """The processes. Threads: the main one only.

    Attributes:
        seated: the scheduler that was started last on each seat.
        leaving: labels of those that were told to end, or were ended by a fault.

    Args:
        leases: seconds, seat by seat and then again from the first; none: the product's default.
    """

    def __init__(self, network: Network, folder: Path, leases: Sequence[float] = ()) -> None:
        self.network = network
        self._leases = dict(zip(SEATS, itertools.cycle(leases), strict=False))
        self.folder = folder
        self._logs = folder / "logs"
        data = folder / "data"
        self.ensemble = [ZooKeeperMember(name, network, data, self._logs) for name in ENSEMBLE]
        self.redis = redis_child(data / "redis", self._logs)
        self.components = [
            component_child(name, command, folder, self._logs)
            for name, command in COMPONENTS.items()
        ]
        self.seated: dict[str, SeatedScheduler] = {}
        self.leaving: set[str] = set()
        self._started: list[SeatedScheduler] = []
        self._numbers = itertools.count()
        hosts = ",".join(f"{network.address(name)}:{CLIENT_PORT}" for name in ENSEMBLE)
        self.watcher = Watcher(hosts)
        self.foreign_client = ForeignClient(hosts)

    def start(self, schedulers: int) -> None:
        """Start everything; blocks until the schedulers share the slots."""
        for child in (self.redis, *(member.child for member in self.ensemble)):
            child.start()
        eventually(
            lambda: all(member.serves() for member in self.ensemble), "ZooKeeper serves", look=LOOK
        )
        self.watcher.start()
        self.foreign_client.start(START_PATIENCE)
        for seat in SEATS[:schedulers]:
            self.seat(seat)
        for child in self.components:
            child.start()
        eventually(lambda: self.watcher.settled(schedulers), "the slots are shared", look=LOOK)

    def stop(self) -> None:
        """End everything; schedulers first, in order."""
        self.watcher.stop()
        self.foreign_client.stop()
        running = [one.child for one in self._started if one.child.running]
        for child in (*running, *self.components):
            child.terminate()
        deadline = time.monotonic() + 10
        for child in (*running, *self.components):
            child.wait(deadline - time.monotonic())
        for child in self._children():
            child.kill()

    def seat(self, seat: str) -> SeatedScheduler:
        label = f"{seat}-{next(self._numbers)}"
        lease = self._leases.get(seat)
        self.seated[seat] = SeatedScheduler(
            label, seat, self.network, self.folder, self._logs, lease
        )
        self._started.append(self.seated[seat])
        return self.seated[seat]

    def free_seat(self) -> str | None:
        """Return a seat where no process is."""
        return next((seat for seat in SEATS if not self._taken(seat)), None)

    def staying(self) -> list[SeatedScheduler]:
        """Return the schedulers that run and are not about to end, by seat."""
        return [
            self.seated[seat]
            for seat in SEATS
            if self._taken(seat) and self.seated[seat].label not in self.leaving
        ]

    def leader(self) -> SeatedScheduler | None:
        pid = self.watcher.leader_pid()
        return next((one for one in self.staying() if one.child.pid == pid), None)

    def fallen(self) -> Iterator[SeatedScheduler]:
        """Return those that ended though nobody ended them, each once."""
        for scheduler in self._started:
            if not scheduler.child.running and scheduler.label not in self.leaving:
                self.leaving.add(scheduler.label)
                yield scheduler

    def _taken(self, seat: str) -> bool:
        return seat in self.seated and self.seated[seat].child.running

    def _children(self) -> Iterator[Child]:
        yield from (scheduler.child for scheduler in self._started)
        yield from self.components
        yield from (member.child for member in self.ensemble)
        yield self.redis


def signal_of(scheduler: SeatedScheduler, number: int) -> None:
    """Send a signal to a scheduler; one that ended is left alone."""
    if scheduler.child.running:
        os.kill(scheduler.child.pid, number)
