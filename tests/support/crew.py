"""Schedulers without pyspider, a cable that can be cut, and fixtures that give both to a test.

Whatever a test does, ownership never overlaps.
"""

import socket
import threading
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace

import pytest

from pyspider_zk.cluster.coordinator import Coordinator
from pyspider_zk.cluster.directory import Directory
from pyspider_zk.cluster.records import Assignment, Cluster, Load, Member, Slot
from pyspider_zk.config import Settings
from pyspider_zk.errors import ClusterError, Unavailable
from pyspider_zk.groups.ids import MemberId
from pyspider_zk.zookeeper.connection import Connection
from pyspider_zk.zookeeper.waiting import boottime
from tests.support.connected import connected, patient
from tests.support.waiting import eventually

ROUND = 0.02  # seconds

MORTAL = {"lease": 1.0, "hang": 1.0}
"""The times of one that is to die, hang or be cut off: it is soon taken for dead."""


def record(name: str = "") -> Member:
    return Member("127.0.0.1:23333", "host", 1, "0", 0.0, name)


class BareScheduler:
    """A scheduling loop that does nothing but hold slots: like pyspider's, it polls.

    ``hold_on`` keeps it from releasing, ``hang`` stops its rounds, ``die`` stops everything but
    the session, as SIGSTOP does; ``history`` is what it saw as owned, in order.
    """

    def __init__(
        self,
        settings: Settings,
        name: str = "",
        projects: dict[int, int] | None = None,
        rates: dict[int, int] | None = None,
    ) -> None:
        self.coordinator = Coordinator(
            *(settings, record(name)), lambda: projects or {}, lambda: self._load(rates)
        )
        self.hold_on = threading.Event()
        self.failure: ClusterError | None = None
        self._halt = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> "BareScheduler":
        self.coordinator.start()
        self._thread.start()
        eventually(lambda: self.coordinator.member, "joining")
        return self

    def _run(self) -> None:
        while not self._halt.wait(ROUND):
            try:
                self.coordinator.beat()
            except ClusterError as error:
                self.failure = error
                return
            releasing = self.coordinator.view.releasing
            if releasing and not self.hold_on.is_set():
                self.coordinator.released(releasing)

    def _load(self, rates: dict[int, int] | None) -> Load:
        """Return a load with what is told of the slots that it has."""
        known = None if rates is None else {s: rates[s] for s in self.owned if s in rates}
        return Load(1, 2, slot_rates=known)

    @property
    def member(self) -> MemberId:
        assert self.coordinator.member is not None
        return self.coordinator.member

    @property
    def owned(self) -> dict[int, int]:
        return dict(self.coordinator.view.owned)

    @property
    def open(self) -> set[tuple[int, int]]:
        """The slots whose fence is open, with their epochs."""
        view = self.coordinator.view
        held = [*view.owned.items(), *view.releasing.items()]
        return {(slot, epoch) for slot, epoch in held if self.coordinator.open(slot, epoch)}

    def hang(self) -> None:
        self._halt.set()
        if self._thread.is_alive():
            self._thread.join()

    def die(self) -> None:
        """Stop both threads and tell nobody; the session lives on."""
        self.hang()
        self.coordinator._loop.stop()

    def stop(self, returns_within: float = 0.0) -> None:
        """Leave; again, that changes nothing."""
        self.hang()
        self.coordinator.stop(returns_within)


class FenceWatch(threading.Thread):
    """Looks all the time whether a slot's fence is open to two schedulers at once.

    Looks one after the other are no proof, so each is made thrice: a fence open in the first and
    the third was open in the second too, for a fence never opens again at the same epoch unless
    its lease was never taken for dead.
    """

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.schedulers: list[BareScheduler] = []
        self.overlaps: list[tuple[int, MemberId, MemberId]] = []
        self._halt = threading.Event()

    def run(self) -> None:
        while not self._halt.wait(ROUND / 4):
            crew = list(self.schedulers)
            first, second, third = ([one.open for one in crew] for _ in range(3))
            for i, one in enumerate(crew):
                sure = {slot for slot, _ in first[i] & third[i]}
                for j, other in enumerate(crew):
                    both = sure & {slot for slot, _ in second[j]} if i != j else set()
                    self.overlaps += [(slot, one.member, other.member) for slot in both]

    def stop(self) -> None:
        self._halt.set()
        self.join()


class OpenTimes(threading.Thread):
    """Notes when each slot was first and last seen open at an epoch, on the clock of leases.

    In between it may have been shut, but nobody else may have had it: that takes another epoch.
    """

    def __init__(self, scheduler: BareScheduler) -> None:
        super().__init__(daemon=True)
        self._scheduler = scheduler
        self._seen: dict[tuple[int, int], tuple[float, float]] = {}
        self._halt = threading.Event()

    def run(self) -> None:
        while not self._halt.wait(ROUND / 4):
            before = boottime()
            found = self._scheduler.open
            after = boottime()
            for key in found:
                self._seen[key] = (self._seen.get(key, (after,))[0], before)

    def as_list(self) -> list[tuple[int, int, float, float]]:
        """Return slot, epoch, first and last time."""
        return [(*key, *times) for key, times in list(self._seen.items())]

    def stop(self) -> None:
        self._halt.set()
        self.join()


class Crew:
    """All schedulers of one test, watched for overlaps."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._watch = FenceWatch()
        self._watch.start()
        self._reader = Directory(settings, patient(settings))
        self._reader.start()

    def start(
        self,
        name: str = "",
        hosts: str = "",
        projects: dict[int, int] | None = None,
        rates: dict[int, int] | None = None,
        **times: float,
    ) -> BareScheduler:
        """Start one, with other times than the settings' if any are given."""
        return self.make(name, hosts, projects, rates, **times).start()

    def make(
        self,
        name: str = "",
        hosts: str = "",
        projects: dict[int, int] | None = None,
        rates: dict[int, int] | None = None,
        **times: float,
    ) -> BareScheduler:
        settings = replace(self.settings, hosts=hosts or self.settings.hosts, **times)
        scheduler = BareScheduler(settings, name, projects, rates)
        self._watch.schedulers.append(scheduler)
        return scheduler

    def start_and_share(self, count: int, mortal: Collection[int] = ()) -> list[BareScheduler]:
        """Start some and wait until they share all slots.

        Args:
            mortal: which of them have the times of one that is to die.
        """
        times = [MORTAL if number in mortal else {} for number in range(count)]
        crew = [self.start(f"scheduler{number}", **times[number]) for number in range(count)]
        self.shared_by(*crew)
        return crew

    def cluster(self) -> Cluster:
        return self._reader.read()

    def table(self) -> tuple[Slot, ...]:
        return self._reader.read().assignment.slots

    def assignment(self) -> Assignment:
        return self._reader.read().assignment

    def shared_by(self, *schedulers: BareScheduler) -> None:
        """Wait until these have all slots, evenly, with open fences, and nothing is moving."""
        eventually(lambda: self._is_shared_by(schedulers), f"sharing by {len(schedulers)}")

    def _is_shared_by(self, schedulers: Iterable[BareScheduler]) -> bool:
        try:
            table = self.table()
        except Unavailable:  # the reader too has to find a ZooKeeper that was away
            return False
        counts = [len(one.open) for one in schedulers]
        is_still = all(row.next is None for row in table)
        return is_still and sum(counts) == len(table) and max(counts) - min(counts) <= 2

    @property
    def overlaps(self) -> list[tuple[int, MemberId, MemberId]]:
        return self._watch.overlaps

    def stop(self) -> None:
        self._watch.stop()
        for scheduler in self._watch.schedulers:
            scheduler.stop()
        self._reader.stop()


class Cable:
    """TCP connections to a server that can be cut without either end being told."""

    def __init__(self, target: str) -> None:
        host, _, port = target.partition(":")
        self._target = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self._links: list[socket.socket] = []
        self._whole = threading.Event()
        self._whole.set()
        self._threads: list[threading.Thread] = []
        self._spawn(self._accept)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    @property
    def connected(self) -> int:
        """How many connections there have been."""
        return len(self._links) // 2

    def cut(self) -> None:
        self._whole.clear()

    def drop(self) -> None:
        """Reset what is connected now; a new connection gets through."""
        for link in self._links:
            with suppress(OSError):
                link.shutdown(socket.SHUT_RDWR)

    def mend(self) -> None:
        self._whole.set()

    def close(self) -> None:
        self.mend()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._threads[0].join()
        self._listener.close()
        self.drop()
        for thread in self._threads:
            thread.join()

    def _spawn(self, act: Callable[..., None], *args: object) -> threading.Thread:
        thread = threading.Thread(target=act, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()
        return thread

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(self._target, 2.0)
            except OSError:  # the server is away
                near.close()
                continue
            far.settimeout(None)
            self._links += [near, far]
            self._spawn(self._connect, near, far)

    def _connect(self, near: socket.socket, far: socket.socket) -> None:
        with near, far:
            back = self._spawn(self._pump, far, near)
            self._pump(near, far)
            back.join()

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                self._whole.wait()
                self._pass_on(data, source, target)
        with suppress(OSError):
            self._whole.wait()
            target.shutdown(socket.SHUT_RDWR)

    def _pass_on(self, data: bytes, source: socket.socket, target: socket.socket) -> None:  # noqa: ARG002
        target.sendall(data)


def expire(connection: Connection) -> None:
    """End a session behind its owner's back: open it a second time and close it properly.

    Its owner may take it back before it is closed, so that is done until there is no such session:
    then the server gives another.
    """
    from kazoo.client import KazooClient

    known = connection._client.client_id
    is_there = True
    while is_there:
        other = KazooClient(hosts=connection._settings.hosts, client_id=known)
        other.start()
        is_there = other.client_id[0] == known[0]
        other.stop()
        other.close()


@pytest.fixture
def settings(cluster_settings: Settings) -> Settings:
    """Give the settings of a cluster with few slots."""
    return replace(cluster_settings, slots=12)


@pytest.fixture
def crew(settings: Settings) -> Iterator[Crew]:
    """Give schedulers; stop them afterwards and look whether ownership ever overlapped."""
    crew = Crew(settings)
    try:
        yield crew
    finally:
        crew.stop()
    assert crew.overlaps == []


@pytest.fixture
def connection(settings: Settings) -> Iterator[Connection]:
    with connected(settings) as connection:
        yield connection


@pytest.fixture
def cable(settings: Settings) -> Iterator[Cable]:
    """Give a cable to ZooKeeper."""
    cable = Cable(settings.hosts)
    yield cable
    cable.close()
