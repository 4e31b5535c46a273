"""Event recorder: writes what happened to the cluster into its event log, once, whoever leads."""

import time
from collections.abc import Callable, Mapping, Sequence

from pyspider_zk.cluster.events import PREFIX, Checkpoint, LeaderObservation, Moves, gone, news
from pyspider_zk.cluster.records import Member
from pyspider_zk.cluster.tree import Tree
from pyspider_zk.errors import BadMessage
from pyspider_zk.groups.ids import MemberId
from pyspider_zk.zookeeper.connection import Connection
from pyspider_zk.zookeeper.steps import Create, Write


class EventRecorder:
    """Tells what changed in the cluster since whoever led told something last.

    What was told stands in the data of the events' parent and is written in one transaction with
    the events. So a reply that was lost, or another leader, makes no event twice, and a leader
    that dies leaves what it had not told to the next; only its last moves may be missing then.

    Threads: one thread calls the methods.
    """

    def __init__(
        self, connection: Connection, tree: Tree, clock: Callable[[], float] = time.time
    ) -> None:
        self._connection = connection
        self._tree = tree
        self._path = tree.events
        self._clock = clock
        self._roll: tuple[Checkpoint, int] | None = None
        self._moves: list[Moves] = []

    def note(self, moves: Moves) -> None:
        """Remember moves until they are told."""
        self._moves.append(moves)

    def forget(self) -> None:
        """Forget what was told: another may tell it from now on."""
        self._roll = None
        self._moves = []

    def tell(self, leader: MemberId, members: Mapping[MemberId, Member]) -> None:
        """Write what changed, if anything did.

        Raises:
            BadVersionError: another leader has told something meanwhile.
        """
        roll, version = self._roll or self._read()
        leases = self._leases(gone(roll, members))
        sight = LeaderObservation(leader, members, leases, self._moves)
        after, events = news(roll, sight, self._clock())
        if events:
            steps = [Create(f"{self._path}/{PREFIX}", e.encode(), sequence=True) for e in events]
            self._roll = None  # until there is a reply
            self._connection.multi(Write(self._path, after.encode(), version), *steps)
            self._roll = (after, version + 1)
        self._moves = []

    def _leases(self, members: Sequence[str]) -> list[str]:
        """Return who of these has a lease; a lease is swept only after its end was told."""
        found = self._connection.find_all(list(map(self._tree.lease, members)))
        return [member for member, lease in zip(members, found, strict=True) if lease]

    def _read(self) -> tuple[Checkpoint, int]:
        self._connection.ensure([self._path])
        data, version = self._connection.get(self._path)
        try:
            self._roll = (Checkpoint.decode(data), version)
        except BadMessage:
            self._roll = (Checkpoint(), version)  # nothing was told yet
        return self._roll
