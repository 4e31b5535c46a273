"""The event log in ZooKeeper: bounded, read by sequence number, watched."""

import logging

from kazoo.exceptions import NoNodeError

from pyspider_zk.core.events import PREFIX, Event, age_order, event_name, in_order
from pyspider_zk.core.job_moves import Create
from pyspider_zk.core.names import Tree
from pyspider_zk.errors import BadMessage
from pyspider_zk.zookeeper.connection import Connection, Watch, delete

logger = logging.getLogger("pyspider_zk.events")

TRIMMED_AT_ONCE = 500


class Events:
    """What happened in a cluster, the last of it.

    Threads: any; calls block for some seconds at most and raise ``Unavailable``.
    """

    def __init__(self, connection: Connection, tree: Tree) -> None:
        self._connection = connection
        self._path = tree.events

    def append(self, event: Event) -> int:
        """Write an event; return its sequence number.

        After ``Unavailable`` it may be written or not: who repeats it may have it twice.
        """
        step = self.step(event)
        created = self._connection.create(step.path, step.data, sequence=True)
        return in_order([created.rpartition("/")[2]])[0]

    def step(self, event: Event) -> Create:
        """Return the step that writes an event, for a transaction with what it tells of."""
        return Create(f"{self._path}/{PREFIX}", event.encode(), sequence=True)

    def read(
        self, after: int | None = None, limit: int = 100, watch: Watch | None = None
    ) -> list[tuple[int, Event]]:
        """Return the next events after a sequence number, the oldest first.

        Args:
            after: None: the newest ones, so many.
            watch: called once when there are more or fewer; see ``Watch``.
        """
        if watch is not None:
            self._connection.ensure([self._path])
        numbers = in_order(self._connection.children(self._path, watch))
        if after is None:
            wanted = numbers[max(0, len(numbers) - limit) :]
        else:
            wanted = [each for each in numbers if age_order(each) > age_order(after)][:limit]
        return self._found(wanted)

    def trim(self, keep: int = 1000) -> int:
        """Delete the oldest beyond so many, some hundreds at once; return how many."""
        numbers = in_order(self._connection.children(self._path))
        excess = numbers[: max(0, len(numbers) - keep)][:TRIMMED_AT_ONCE]
        try:
            self._connection.multi(*(delete(self._event(each)) for each in excess))
        except NoNodeError:
            return 0  # another trims too
        return len(excess)

    def _found(self, numbers: list[int]) -> list[tuple[int, Event]]:
        found = self._connection.find_all(list(map(self._event, numbers)))
        events = []
        for number, record in zip(numbers, found, strict=True):
            if record is None:
                continue
            try:
                events.append((number, Event.decode(record[0])))
            except BadMessage as error:
                logger.warning("event %s is passed over: %s", number, error)
        return events

    def _event(self, sequence: int) -> str:
        return f"{self._path}/{event_name(sequence)}"
