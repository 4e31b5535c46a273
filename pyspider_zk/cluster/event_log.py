"""The event log in ZooKeeper: bounded, read by number, watched; and what the leader records."""

import time
from collections import deque
from collections.abc import Callable, Container, Mapping, Sequence

from pyspider_zk.cluster.events import (
    PREFIX,
    Checkpoint,
    Event,
    LeaderObservation,
    Moves,
    age_order,
    event_name,
    gone,
    is_told,
    new_events,
    sequence_of,
)
from pyspider_zk.cluster.records import LeaseTerms, Member, terms_of
from pyspider_zk.cluster.tree import Tree
from pyspider_zk.errors import BadMessage
from pyspider_zk.groups.ids import MemberId
from pyspider_zk.zookeeper.connection import Connection, Watch
from pyspider_zk.zookeeper.errors import NoNodeError
from pyspider_zk.zookeeper.steps import Create, Delete, Write
from pyspider_zk.zookeeper.strays import do_despite_strays

READ_AT_ONCE = 100  # at least, by one round trip
TRIMMED_AT_ONCE = 500
MOVES_KEPT = 1000  # writes of the assignment; a quota may refuse their events for any time


class EventLog:
    """The latest events of a cluster.

    Threads: any; calls block for some seconds at most and raise ``Unavailable``.
    """

    def __init__(self, connection: Connection, tree: Tree) -> None:
        self._connection = connection
        self._path = tree.events
        self._unreadable = connection.unreadable

    def append(self, event: Event) -> int:
        """Write an event; return its sequence number.

        After ``Unavailable`` it may be written or not: a repetition may write it twice.
        """
        step = self.step(event)
        created = self._connection.create(step.path, step.data, sequence=True)
        return sequence_of(created.rpartition("/")[2])

    def step(self, event: Event) -> Create:
        """Return the step that writes an event, for the transaction that it reports."""
        return Create(f"{self._path}/{PREFIX}", event.encode(), sequence=True)

    def read(self, after: int | None = None, limit: int = 100) -> list[tuple[int, Event]]:
        """Return the next events after a sequence number, the oldest first.

        Args:
            after: None: the newest ones.
        """
        numbers = self.numbers()
        if after is None:
            return self.found(numbers[max(0, len(numbers) - limit) :])
        later = [each for each in numbers if age_order(each) > age_order(after)]
        events: list[tuple[int, Event]] = []
        while later and len(events) < limit:
            size = max(limit - len(events), READ_AT_ONCE)  # any number may be unreadable
            events += self.found(later[:size])
            later = later[size:]
        return events[:limit]

    def numbers(self, watch: Watch | None = None) -> list[int]:
        """Return the numbers of all events, the oldest first; other numbers call ``watch`` once."""
        if watch is not None:
            self._connection.ensure([self._path])
        names = self._connection.children(self._path, watch)
        numbers = self._unreadable.parsed(self._path, names, sequence_of).values()
        return sorted(numbers, key=age_order)

    def found(self, numbers: Sequence[int]) -> list[tuple[int, Event]]:
        """Return the events of these numbers that are there and can be read."""
        paths = list(map(self._event, numbers))
        found = zip(numbers, paths, self._connection.find_all(paths), strict=True)
        events = (
            (number, self._unreadable.decoded(path, data, Event.decode))
            for number, path, data in found
        )
        return [(number, event) for number, event in events if event is not None]

    def trim(self, keep: int = 1000, of: Container[int] | None = None) -> int:
        """Delete the oldest events beyond a number, some hundreds at once; return how many.

        Args:
            of: only those among these; None: any.
        """
        numbers = self.numbers()
        beyond = numbers[: max(0, len(numbers) - keep)]
        excess = [each for each in beyond if of is None or each in of][:TRIMMED_AT_ONCE]
        if not excess:
            return 0
        try:
            do_despite_strays(self._connection, *(Delete(self._event(each)) for each in excess))
        except NoNodeError:
            return 0  # another process trims too
        return len(excess)

    def _event(self, sequence: int) -> str:
        return f"{self._path}/{event_name(sequence)}"


class EventRecorder:
    """Recorder of each change of the cluster, once, whoever leads.

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
        self._events = EventLog(connection, tree)
        self._clock = clock
        self._checkpoint: tuple[Checkpoint, int] | None = None
        self._moves: deque[Moves] = deque(maxlen=MOVES_KEPT)

    def note(self, moves: Moves) -> None:
        """Remember moves until their events are written, of very many the latest."""
        if moves.counts:
            self._moves.append(moves)

    def forget(self) -> None:
        """Forget the checkpoint: another leader may write events from now on."""
        self._checkpoint = None
        self._moves.clear()

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
            self._checkpoint = None  # until there is a reply
            told = Write(self._tree.events, after.encode(), version)
            self._connection.multi(told, *map(self._events.step, events))
            self._checkpoint = (after, version + 1)
        while self._moves and self._moves[0].epoch <= after.epoch:
            self._moves.popleft()
        return is_told(after, members) and not self._moves

    def _leases(self, members: Sequence[str]) -> dict[str, LeaseTerms]:
        """Return the leases of these members; they are swept only after the event of their end."""
        found = self._connection.find_all(list(map(self._tree.lease, members)))
        leases = zip(members, found, strict=True)
        return {member: terms_of(lease[0]) for member, lease in leases if lease}

    def _read(self) -> tuple[Checkpoint, int]:
        self._connection.ensure([self._tree.events])
        data, version = self._connection.get(self._tree.events)
        try:
            self._checkpoint = (Checkpoint.decode(data), version)
        except BadMessage:
            self._checkpoint = (Checkpoint(), version)  # no event was written yet
        return self._checkpoint
