"""Event recorder: writes each change of the cluster to the event log once, whoever leads."""

import time
from collections.abc import Callable, Mapping, Sequence

from pyspider_zk.cluster.events import (
    PREFIX,
    Checkpoint,
    LeaderObservation,
    Moves,
    gone,
    is_told,
    new_events,
)
from pyspider_zk.cluster.records import LeaseTerms, Member
from pyspider_zk.cluster.tree import Tree
from pyspider_zk.errors import BadMessage
from pyspider_zk.groups.ids import MemberId
from pyspider_zk.zookeeper.connection import Connection
from pyspider_zk.zookeeper.steps import Create, Write


class EventRecorder:
    """Recorder of the changes since the last checkpoint, whichever leader wrote that.

    The checkpoint is the data of the events' parent znode, and is written in one transaction with
    the events. So neither a lost reply nor another leader duplicates an event, and when a leader
    dies the next one writes the events that it had not written; only its last moves may be missing.

    Threads: one thread calls the methods.
    """

    def __init__(
        self, connection: Connection, tree: Tree, clock: Callable[[], float] = time.time
    ) -> None:
        self._connection = connection
        self._tree = tree
        self._path = tree.events
        self._clock = clock
        self._checkpoint: tuple[Checkpoint, int] | None = None
        self._moves: list[Moves] = []

    def note(self, moves: Moves) -> None:
        """Remember moves until their events are written."""
        self._moves.append(moves)

    def forget(self) -> None:
        """Forget the checkpoint: another leader may write events from now on."""
        self._checkpoint = None
        self._moves = []

    def record(self, leader: MemberId, members: Mapping[MemberId, Member]) -> bool:
        """Write the next events of what has changed; return whether those were all.

        Raises:
            BadVersionError: another leader has written events meanwhile.
        """
        checkpoint, version = self._checkpoint or self._read()
        leases = self._leases(gone(checkpoint, members))
        observation = LeaderObservation(leader, members, leases, self._moves)
        after, events = new_events(checkpoint, observation, self._clock())
        if events:
            steps = [Create(f"{self._path}/{PREFIX}", e.encode(), sequence=True) for e in events]
            self._checkpoint = None  # until there is a reply
            self._connection.multi(Write(self._path, after.encode(), version), *steps)
            self._checkpoint = (after, version + 1)
        if not is_told(after, members):
            return False
        self._moves = []
        return True

    def _leases(self, members: Sequence[str]) -> dict[str, LeaseTerms]:
        """Return the leases of these members; they are swept only after the event of their end."""
        found = self._connection.find_all(list(map(self._tree.lease, members)))
        leases = zip(members, found, strict=True)
        return {member: _terms(lease[0]) for member, lease in leases if lease}

    def _read(self) -> tuple[Checkpoint, int]:
        self._connection.ensure([self._path])
        data, version = self._connection.get(self._path)
        try:
            self._checkpoint = (Checkpoint.decode(data), version)
        except BadMessage:
            self._checkpoint = (Checkpoint(), version)  # no event was written yet
        return self._checkpoint


def _terms(data: bytes) -> LeaseTerms:
    try:
        return LeaseTerms.decode(data)
    except BadMessage:
        return LeaseTerms()
