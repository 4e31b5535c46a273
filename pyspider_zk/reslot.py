"""Reslotting: another number of slots for a cluster that is stopped."""

import time
from collections.abc import Callable, Collection

from pyspider_zk.cluster.meta import Wait, close_cluster, slots_of
from pyspider_zk.cluster.protocols import CLOSED
from pyspider_zk.cluster.records import Assignment, Meta
from pyspider_zk.cluster.tree import Tree
from pyspider_zk.errors import BadMessage, BadRequest, Conflict, NotFound
from pyspider_zk.jobs.model import JobName, JobState
from pyspider_zk.jobs.transactions import JobTree
from pyspider_zk.limits import MOST_SLOTS
from pyspider_zk.queues.redis_reslotting import RedisReslotting, Reslotting
from pyspider_zk.scheduling.slot_record import regrouped
from pyspider_zk.zookeeper.connection import Connection
from pyspider_zk.zookeeper.errors import BadVersionError
from pyspider_zk.zookeeper.steps import Write
from pyspider_zk.zookeeper.strays import delete_below


class Reslotter:
    """Changes the number of slots, in steps that may be interrupted and done again.

    Threads: one. Blocks for as long as it takes.

    Args:
        queues: what belongs to slots in the message queue.
        wait: for the leases of processes that died.
        clock: seconds since the epoch.
    """

    def __init__(
        self,
        connection: Connection,
        root: str,
        queues: RedisReslotting,
        wait: Wait = time.sleep,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._connection = connection
        self._tree = Tree(root)
        self._queues = queues
        self._wait = wait
        self._clock = clock

    def change(self, slots: int, sealed: int = 0) -> Reslotting:
        """Give the cluster another number of slots; return what was done.

        Args:
            sealed: the highest epoch that the task database knows.

        Raises:
            BadRequest: it has that many, or cannot have so many.
            Conflict: processes run, operations are not done, or another change was begun.
            NotFound: there is no cluster, or none that can be changed.
        """
        begun = self._checked(slots)
        version = close_cluster(self._connection, self._tree, self._wait)
        table, table_version = self._table()
        plan = begun or self._plan(table, slots, sealed)
        self._queues.begin(plan)
        self._queues.move_messages(plan)
        self._queues.move_parked(plan)
        self._move_records(table, plan)
        self._queues.move_dead_letters()
        self._queues.clear(plan)
        self._open(plan, table, version, table_version)
        self._queues.end()
        return plan

    def unfinished(self) -> Reslotting | None:
        """Return a change that cannot go on before a restore; None if none was interrupted.

        Raises:
            Conflict: one was, and can go on now.
        """
        begun = self._queues.under_way()
        if begun is None or slots_of(self._connection, self._tree) is None:
            return begun
        try:
            self._table()
        except NotFound:
            return begun
        raise _interrupted(begun)

    def _checked(self, slots: int) -> Reslotting | None:
        """Return what was begun before; check that it may go on, or something else begin."""
        if not 1 <= slots <= MOST_SLOTS:
            raise BadRequest(f"{slots} slots are not possible: name 1 to {MOST_SLOTS}")
        found = slots_of(self._connection, self._tree)
        if found is None:
            raise NotFound(f"there is no cluster at {self._tree.root}, or its meta is unreadable")
        begun = self._queues.under_way()
        if begun is not None and begun.after != slots:
            raise _interrupted(begun)
        if begun is None and found == slots and not self._is_closed():
            raise BadRequest(f"the cluster at {self._tree.root} has {slots} slots already")
        self._check_jobs()
        self._table()  # once closed, no scheduler could write one
        return begun

    def _is_closed(self) -> bool:
        data, _ = self._connection.get(self._tree.meta)
        return Meta.decode(data).protocol == CLOSED

    def _check_jobs(self) -> None:
        """Check that no job waits: each is for projects of one slot."""
        jobs = JobTree(self._tree.jobs)
        places = [jobs.place(state) for state in (JobState.PENDING, JobState.RUNNING)]
        waiting = sum(len(self._jobs_in(place)) for place in places)
        if waiting:
            raise Conflict(
                f"{waiting} jobs of operations are not done: start the schedulers and let them end,"
                " or cancel them, see `pyspider-zk batches`"
            )

    def _jobs_in(self, place: str) -> Collection[str]:
        names = self._connection.children(place)
        return self._connection.unreadable.parsed(place, names, JobName.parse)

    def _table(self) -> tuple[Assignment, int]:
        """Return the assignment of the old slots.

        Raises:
            NotFound: there is none, as while a restore is incomplete.
        """
        found = self._connection.find(self._tree.assignment)
        try:
            if found is not None:
                return Assignment.decode(found[0]), found[1]
        except BadMessage:
            pass
        raise NotFound(
            f"the cluster at {self._tree.root} has no readable assignment: complete its restore, or"
            " start a scheduler, which writes one"
        )

    def _plan(self, table: Assignment, slots: int, sealed: int) -> Reslotting:
        epoch = max(_highest(table), sealed, int(self._clock()))
        return Reslotting(len(table.slots), slots, epoch)

    def _move_records(self, table: Assignment, plan: Reslotting) -> None:
        epochs = {number: slot.epoch for number, slot in enumerate(table.slots)}
        for records in self._queues.old_records(plan):
            self._queues.save_records(regrouped(records, epochs, plan.after, plan.epoch))

    def _open(self, plan: Reslotting, table: Assignment, version: int, table_version: int) -> None:
        """Write the new table, and let processes join; nothing is known of the new slots."""
        delete_below(self._connection, [self._tree.slot_rates])
        self._connection.delete(self._tree.slot_rates)
        vacant = Assignment.vacant(plan.after, max(plan.epoch, _highest(table)))
        protocol = Meta.decode(self._connection.get(self._tree.meta)[0]).reopens
        following = Assignment(table.epoch + 1, vacant.slots)
        try:
            self._connection.multi(
                Write(self._tree.assignment, following.encode(), table_version),
                Write(self._tree.meta, Meta(plan.after, protocol).encode(), version),
            )
        except BadVersionError:
            raise Conflict(f"somebody else writes to {self._tree.root}: try again") from None


def _interrupted(begun: Reslotting) -> Conflict:
    return Conflict(
        f"a change from {begun.before} to {begun.after} slots was interrupted: complete it"
        f" first, with `pyspider-zk slots {begun.after}`"
    )


def _highest(table: Assignment) -> int:
    return max((slot.epoch for slot in table.slots), default=0)
