"""A member's own life in ZooKeeper: join, renew, acknowledge, drain, leave."""

import logging
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace

from kazoo.exceptions import BadVersionError, NoNodeError

from pyspider_zk.core.names import Tree
from pyspider_zk.core.ownership import NOTHING, Rules, View, still_released, view_of
from pyspider_zk.core.records import Assignment, Load, Member, MemberId, encode_acks
from pyspider_zk.errors import SessionLost
from pyspider_zk.zookeeper.connection import (
    Connection,
    Step,
    Watch,
    check,
    create,
    delete,
    write,
)
from pyspider_zk.zookeeper.roster import Roster

logger = logging.getLogger("pyspider_zk.membership")


class Membership:
    """One incarnation of a member: from joining until leaving or the loss of its session.

    Threads: one thread calls the methods; ``view`` may be read from any.
    """

    def __init__(
        self,
        connection: Connection,
        tree: Tree,
        rules: Rules,
        clock: Callable[[], float],
        on_assignment: Watch,
    ) -> None:
        self._connection = connection
        self._tree = tree
        self._roster = Roster(connection, tree.ids, tree.members)
        self._rules = rules
        self._clock = clock
        self._on_assignment = on_assignment
        self._session: int | None = None
        self._assignment: tuple[Assignment, int] | None = None
        self._incarnation = uuid.uuid4().hex[:12]
        self._released: dict[int, int] = {}
        self._told: Mapping[int, int] = {}
        self._record: Member | None = None
        self.id: MemberId | None = None
        self.view: View = NOTHING

    @property
    def lost(self) -> bool:
        """Whether the session that this incarnation belongs to has ended."""
        return self._session is not None and self._connection.session != self._session

    def join(self, record: Member) -> MemberId:
        """Take a number and register; nothing is owned until it is granted.

        Raises:
            SessionLost: the session ended meanwhile; another incarnation must join.
        """
        self._session = self._connection.session
        member = self._standing() or self._take_number(record)
        if self.lost:  # the node may stand in the next session, where it would be a ghost
            self._connection.delete(self._tree.member(member))
            raise SessionLost("the ZooKeeper session ended while joining")
        self._record, self.id = record, member
        self._read_assignment()
        logger.info("joined as member %s at %s", member, record.address)
        return member

    def renew(self, load: Load) -> None:
        """Renew the lease by a quorum write that proves the view of the assignment current.

        The lease counts from before the sending: its reply may have been on its way for long.

        Raises:
            SessionLost: the member's node is gone; another incarnation must join.
            Unavailable: no answer; the lease simply runs on to its end.
        """
        member = self._me()
        while True:
            _, version = self._assignment or self._read_assignment()
            before = self._clock()
            try:
                self._connection.multi(
                    check(self._tree.member(member)),
                    check(self._tree.assignment, version),
                    write(self._tree.lease(member), load.encode()),
                )
            except BadVersionError:
                self._connection.sync(self._tree.assignment)
                self._read_assignment()
                continue
            except NoNodeError as error:
                raise SessionLost(f"member {member} is not registered any more") from error
            self.view = self.view.renewed(before + self._rules.open_for)
            return

    def refresh(self) -> None:
        """Read the assignment again, after a watch said that it changed."""
        self._read_assignment()

    def release(self, slots: Mapping[int, int]) -> None:
        """Remember slots as given up, by epoch, once nothing is done for them any more."""
        self._released.update(slots)
        self._show()

    def acknowledge(self) -> None:
        """Tell the leader what was given up, if it was not told yet."""
        if self._released != self._told:
            told = dict(self._released)
            self._connection.set(self._tree.ack(self._me()), encode_acks(told))
            self._told = told

    def drain(self) -> None:
        """Ask for all slots to be moved away."""
        if self._record is not None and not self._record.draining:
            draining = replace(self._record, draining=True)
            self._connection.set(self._tree.member(self._me()), draining.encode())
            self._record = draining

    def leave(self) -> None:
        """Close the gate for good, then delete the lease: that frees the slots at once."""
        member, self.view = self.id, NOTHING
        if member is None or self.lost:
            return
        self._connection.require()
        paths = (self._tree.lease(member), self._tree.ack(member), self._tree.member(member))
        try:
            self._connection.multi(*map(delete, paths))
        except NoNodeError as error:
            raise SessionLost(f"member {member} is not registered any more") from error
        self.id = None
        logger.info("member %s left", member)

    def _me(self) -> MemberId:
        if self.id is None or self.lost:
            raise SessionLost("not a member: the ZooKeeper session ended")
        return self.id

    def _standing(self) -> MemberId | None:
        """Return what an earlier attempt registered whose reply was lost."""
        return self._roster.standing(self._incarnation)

    def _take_number(self, record: Member) -> MemberId:
        """Take a number and create the nodes, all or none."""
        return self._roster.take(
            record.name, self._incarnation, lambda member: self._nodes(member, record)
        )

    def _nodes(self, member: MemberId, record: Member) -> list[Step]:
        return [
            create(self._tree.member(member), record.encode(), ephemeral=True),
            create(self._tree.lease(member), Load().encode()),
            create(self._tree.ack(member), encode_acks({})),
        ]

    def _read_assignment(self) -> tuple[Assignment, int]:
        data, version = self._connection.get(self._tree.assignment, self._on_assignment)
        self._assignment = (Assignment.decode(data), version)
        self._show()
        return self._assignment

    def _show(self) -> None:
        if self._assignment is not None and self.id is not None:
            table = self._assignment[0]
            self._released = still_released(table, self.id, self._released)
            self.view = view_of(table, self.id, self._released, self.view.lease_until)
