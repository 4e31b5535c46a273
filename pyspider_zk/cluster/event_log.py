"""The event log in ZooKeeper: bounded, read by sequence number, watched."""

from collections.abc import Collection

from pyspider_zk.cluster.events import PREFIX, Event, age_order, event_name, in_order
from pyspider_zk.cluster.tree import Tree
from pyspider_zk.errors import BadMessage
from pyspider_zk.zookeeper.connection import Connection, Watch
from pyspider_zk.zookeeper.errors import NoNodeError
from pyspider_zk.zookeeper.steps import Create, Delete
from pyspider_zk.zookeeper.strays import do_despite_strays

TRIMMED_AT_ONCE = 500


class EventLog:
    """The latest events of a cluster.

    Threads: any; calls block for some seconds at most and raise ``Unavailable``.
    """

    def __init__(self, connection: Connection, tree: Tree) -> None:
        self._connection = connection
        self._path = tree.events
        self._strays: frozenset[str] = frozenset()

    def append(self, event: Event) -> int:
        """Write an event; return its sequence number.

        After ``Unavailable`` it may be written or not: a repetition may write it twice.
        """
        step = self.step(event)
        created = self._connection.create(step.path, step.data, sequence=True)
        return in_order([created.rpartition("/")[2]])[0]

    def step(self, event: Event) -> Create:
        """Return the step that writes an event, for the transaction that it reports."""
        return Create(f"{self._path}/{PREFIX}", event.encode(), sequence=True)

    def read(
        self, after: int | None = None, limit: int = 100, watch: Watch | None = None
    ) -> list[tuple[int, Event]]:
        """Return the next events after a sequence number, the oldest first.

        Args:
            after: None: the newest ones.
            watch: called once when there are more or fewer; see ``Watch``.
        """
        if watch is not None:
            self._connection.ensure([self._path])
        names = self._connection.children(self._path, watch)
        numbers = in_order(names)
        self._note_strays(names, numbers)
        if after is None:
            wanted = numbers[max(0, len(numbers) - limit) :]
        else:
            wanted = [each for each in numbers if age_order(each) > age_order(after)][:limit]
        return self._found(wanted)

    def trim(self, keep: int = 1000) -> int:
        """Delete the oldest events beyond a number, some hundreds at once; return how many."""
        numbers = in_order(self._connection.children(self._path))
        excess = numbers[: max(0, len(numbers) - keep)][:TRIMMED_AT_ONCE]
        try:
            do_despite_strays(self._connection, *(Delete(self._event(each)) for each in excess))
        except NoNodeError:
            return 0  # another process trims too
        return len(excess)

    def _found(self, numbers: list[int]) -> list[tuple[int, Event]]:
        found = self._connection.find_all(list(map(self._event, numbers)))
        events = zip(numbers, map(self._decoded, numbers, found), strict=True)
        return [(number, event) for number, event in events if event is not None]

    def _decoded(self, number: int, record: tuple[bytes, int] | None) -> Event | None:
        path = self._event(number)
        try:
            event = None if record is None else Event.decode(record[0])
        except BadMessage as error:
            self._connection.unreadable.note(path, error)
            return None
        self._connection.unreadable.forget(path)
        return event

    def _note_strays(self, names: Collection[str], numbers: Collection[int]) -> None:
        """Record the children that are not events; forget those that are gone."""
        strays = frozenset(names) - frozenset(map(event_name, numbers))
        for name in strays:
            self._connection.unreadable.note(f"{self._path}/{name}", "it is no event's name")
        gone = self._strays - strays
        self._connection.unreadable.forget(*(f"{self._path}/{name}" for name in gone))
        self._strays = strays

    def _event(self, sequence: int) -> str:
        return f"{self._path}/{event_name(sequence)}"
