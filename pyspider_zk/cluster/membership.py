"""Membership: one member's own life in ZooKeeper. Join, renew, acknowledge, drain, leave."""

import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from pyspider_zk.cluster.reader import Table
from pyspider_zk.cluster.records import Assignment, Load, Member, terms_of
from pyspider_zk.cluster.rules import (
    NOTHING,
    Hold,
    Rules,
    Stamp,
    View,
    is_suspect,
    observe,
    still_released,
    view_of,
)
from pyspider_zk.cluster.transactions import (
    acknowledge_steps,
    drain_steps,
    join_steps,
    leave_steps,
    renew_steps,
)
from pyspider_zk.cluster.tree import Tree
from pyspider_zk.errors import OverQuota, SessionLost
from pyspider_zk.groups.id_allocator import IdAllocator
from pyspider_zk.groups.ids import MemberId
from pyspider_zk.zookeeper.connection import Connection, Watch
from pyspider_zk.zookeeper.errors import BadVersionError, NoNodeError
from pyspider_zk.zookeeper.steps import Check, Delete, Step
from pyspider_zk.zookeeper.strays import do_despite_strays

logger = logging.getLogger(__name__)

AFTER = 0.001  # seconds after the moment at which a lease becomes suspect


class Membership:
    """One incarnation of a member: from joining until leaving or the loss of its session.

    Threads: one thread calls the methods; ``view`` may be read from any. Methods that write raise
    ``SessionLost`` once the session ended or a znode of the member is gone: another incarnation
    must join then.

    Attributes:
        view: what it owns, as far as it knows.
        hold: the period in which its lease holds.
        rules: that it goes by from the next renewal on.
        former_self: the registration that its name may have already.
    """

    def __init__(
        self,
        connection: Connection,
        tree: Tree,
        rules: Rules,
        clock: Callable[[], float],
        on_assignment: Watch,
        table: Table,
    ) -> None:
        self._connection = connection
        self._tree = tree
        self._id_allocator = IdAllocator(connection, tree.ids, tree.members)
        self.former_self = FormerSelf(connection, tree, self._id_allocator, clock, on_assignment)
        self.rules = rules
        self._clock = clock
        self._on_assignment = on_assignment
        self._table = table
        self._session: int | None = None
        self._assignment: tuple[Assignment, int] | None = None
        self._incarnation = uuid.uuid4().hex[:12]
        self._released: dict[int, int] = {}
        self._acknowledged: Mapping[int, int] = {}
        self._record: Member | None = None
        self._written = Load()
        self.id: MemberId | None = None
        self.view: View = NOTHING
        self.hold = Hold()

    @property
    def lost(self) -> bool:
        """Whether the session that this incarnation belongs to has ended."""
        return self._session is not None and self._connection.session != self._session

    @property
    def epoch(self) -> int | None:
        """The epoch of the assignment as last read; None before that."""
        return None if self._assignment is None else self._assignment[0].epoch

    def pause(self, name: str) -> float | None:
        """Return the seconds until joining is worth a try, because of a former self; None: now."""
        if not name or self._id_allocator.standing(self._incarnation) is not None:
            return None
        return self.former_self.pause(name)

    def join(self, record: Member) -> MemberId:
        """Take a number and register; nothing is owned until it is granted."""
        self._session = self._connection.session
        member = self._id_allocator.standing(self._incarnation) or self._take_number(record)
        if self.lost:  # the node may exist in the next session, where it would be stale
            self._connection.delete(self._tree.member(member))
            raise SessionLost("the ZooKeeper session ended while joining")
        self._record, self.id = record, member
        self.read_assignment()
        logger.info("joined as member %s at %s", member, record.address)
        return member

    def renew(self, load: Load) -> bool:
        """Renew the lease by a quorum write that proves the view of the assignment current.

        The lease counts from before the request was sent, because the reply may take long. One that
        gets shorter does so before it is sent: others go by the new length from then on. After
        ``Unavailable`` the lease simply runs on to its end.

        If the assignment is unreadable nothing is renewed, and the lease runs on to its end: the
        unreadable one may have replaced a table that we have not seen. Returns whether it was
        renewed. If a quota does not allow that, the load before is written again, and nothing else.
        """
        member = self._me()
        load = replace(load, lease=self.rules.lease)
        may_grow = True
        while (known := self._assignment or self.read_assignment()) is not None:
            before = self._clock()
            self._hold_until(min(self.hold.until, before + self.rules.open_for))
            released = self._released if may_grow else {}
            steps = renew_steps(self._tree, member, known[1], load, released)
            try:
                self._do(steps)
            except BadVersionError:
                self._connection.sync(self._tree.assignment)
                newer = self.read_assignment()
                if newer is None:
                    return False
                if newer[1] == known[1]:
                    raise  # it is not our view that is outdated
                continue
            except OverQuota:
                if not may_grow:
                    raise
                # Of the same size, which a quota allows. Releases can wait, a lease cannot.
                load, may_grow = replace(self._written, lease=self.rules.lease), False
                continue
            self._written = load
            if before >= self.hold.until:
                self.hold = self.hold._replace(since=before)
            self._hold_until(before + self.rules.open_for)
            return True
        return False

    def release(self, slots: Mapping[int, int]) -> None:
        """Remember slots as given up, by epoch, once all work for them has ended."""
        self._released.update(slots)
        self._show()

    def acknowledge(self) -> None:
        """Write the releases for the leader, unless they are written already."""
        if self._released != self._acknowledged:
            released = dict(self._released)
            self._do(acknowledge_steps(self._tree, self._me(), released))
            self._acknowledged = released

    def drain(self) -> None:
        """Request that all slots are moved away."""
        if self._record is not None and not self._record.draining:
            self._do(drain_steps(self._tree, self._me(), self._record))
            self._record = replace(self._record, draining=True)

    def leave(self, returns_within: float = 0.0) -> None:
        """Close the fence for good, then delete the lease: that frees the slots at once.

        Args:
            returns_within: seconds that the slots wait for this number; then the lease stays.
        """
        member, self.view = self.id, NOTHING
        if member is None or self.lost:
            return
        self._connection.require()
        self._do(leave_steps(self._tree, member, returns_within))
        self.id = None
        logger.info("member %s left", member)

    def read_assignment(self) -> tuple[Assignment, int] | None:
        """Return the current assignment, None if it cannot be read.

        Then the last readable one applies as long as our lease holds.

        Raises:
            SessionLost: it is gone, and whoever joins founds it anew.
        """
        path = self._tree.assignment
        found = self._connection.find(path, self._on_assignment)
        if found is None:
            raise SessionLost(f"{path} is gone: whoever joins founds it anew")
        data, version = found
        table = self._table.take(data, version)
        if table is None:
            return None
        self._assignment = (table, version)
        self._show()
        return self._assignment

    def _do(self, steps: Sequence[Step]) -> None:
        """Do these steps on znodes of this member, all or none.

        Nobody else deletes them while their member is alive, so its number may be another's if one
        is gone.
        """
        try:
            do_despite_strays(self._connection, *steps)
        except NoNodeError as error:
            raise SessionLost(f"member {self.id} is not registered any more") from error

    def _hold_until(self, until: float) -> None:
        self.hold = self.hold._replace(until=until)
        self.view = self.view.renewed(until)

    def _me(self) -> MemberId:
        if self.id is None or self.lost:
            raise SessionLost("not a member: the ZooKeeper session ended")
        return self.id

    def _take_number(self, record: Member) -> MemberId:
        """Take a number and create the nodes, all or nothing."""
        load = Load(lease=self.rules.lease)

        def steps(member: MemberId) -> list[Step]:
            return join_steps(self._tree, member, record, load)

        return self._id_allocator.take(record.name, self._incarnation, steps)

    def _show(self) -> None:
        if self._assignment is not None and self.id is not None:
            table = self._assignment[0]
            self._released = still_released(table, self.id, self._released)
            self.view = view_of(table, self.id, self._released, self.view.lease_until)


class FormerSelf:
    """What a process that was killed left registered, and with it the number of its name.

    Whoever starts under the name again takes the number back as soon as the former lease falls
    silent. It waits no longer than a session: one whose lease is renewed is somebody else.

    Threads: one thread calls the methods; they block for some seconds at most.
    """

    def __init__(
        self,
        connection: Connection,
        tree: Tree,
        id_allocator: IdAllocator,
        clock: Callable[[], float],
        on_change: Watch,
    ) -> None:
        self._connection = connection
        self._tree = tree
        self._id_allocator = id_allocator
        self._clock = clock
        self._on_change = on_change
        self._patience_ends: float | None = None
        self._stamps: Mapping[MemberId, Stamp] = {}

    def pause(self, name: str) -> float | None:
        """Return the seconds until the next look is worth it, None once the number is free.

        Deletes the registration of one that is suspect. The watch tells if it ends before.
        """
        bearer = self._id_allocator.bearer(name, self._on_change)
        if bearer is None:
            return None
        now = self._look(bearer)
        if self._patience_ends is None:
            self._patience_ends = now + self._connection.times.end
        stamp = self._stamps.get(bearer)
        if stamp is None or is_suspect(stamp, now):
            self._remove(bearer, stamp)
            return None
        left = min(self._patience_ends, stamp.first_seen + stamp.lease / 2 + AFTER) - now
        return left if now < self._patience_ends else None

    def _look(self, bearer: MemberId) -> float:
        """Stamp the lease; return when, which is after it was read: it must not seem older."""
        found = self._connection.find(self._tree.lease(bearer))
        now = self._clock()
        version = {bearer: found[1]} if found else {}
        lengths = {bearer: terms_of(found[0]).lease} if found else {}
        self._stamps = observe(self._stamps, version, now, lengths)
        return now

    def _remove(self, bearer: MemberId, stamp: Stamp | None) -> None:
        """Delete the registration, unless its lease was renewed meanwhile."""
        judged = [Check(self._tree.lease(bearer), stamp.version)] if stamp else []
        do_despite_strays(self._connection, *judged, Delete(self._tree.member(bearer)))
        logger.info("member %s does not renew its lease: its number is taken back", bearer)
