"""Standing for election, and the leader's one duty: writing the assignment."""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping

from kazoo.exceptions import BadVersionError, NoNodeError

from pyspider_zk.core.events import Moves, moves_between
from pyspider_zk.core.names import Tree
from pyspider_zk.core.ownership import (
    Decision,
    Rules,
    Snapshot,
    Stamp,
    Standing,
    candidate_of,
    decide,
    leftovers,
    line_of,
    next_death,
    observe,
    standing_of,
)
from pyspider_zk.core.records import Assignment, Member, MemberId, decode_acks
from pyspider_zk.zookeeper.chronicle import Chronicle
from pyspider_zk.zookeeper.connection import Connection, Step, Watch, check, delete, write
from pyspider_zk.zookeeper.events import Events
from pyspider_zk.zookeeper.jobs import JobQueue

logger = logging.getLogger("pyspider_zk.leadership")

WATCHED = 3  # how many before them candidates watch: a leader and two next in line may die at once
TIDYING = 60.0  # seconds between two looks at what need not be kept any longer


class Leadership:
    """One member's candidacy, and what it does while it leads.

    Threads: one thread calls the methods.
    """

    def __init__(
        self,
        connection: Connection,
        tree: Tree,
        rules: Rules,
        clock: Callable[[], float],
        on_change: Watch,
    ) -> None:
        self._connection = connection
        self._tree = tree
        self._rules = rules
        self._clock = clock
        self._on_change = on_change
        self._candidacy: str | None = None
        self._stamps: dict[MemberId, Stamp] = {}
        self._looked = self._tidied = float("-inf")
        self._chronicle = Chronicle(connection, tree)
        self._events = Events(connection, tree)
        self._jobs = JobQueue(connection, tree.jobs)
        self.leading = False

    def withdraw(self) -> None:
        """Give the candidacy up, so that the next in line leads at once."""
        if self._candidacy is not None:
            self._connection.delete(f"{self._tree.election}/{self._candidacy}")
        self._candidacy, self._stamps, self.leading = None, {}, False
        self._chronicle.forget()

    def lead(self, member: MemberId, weights: Callable[[], Mapping[int, int]]) -> None:
        """Stand for election; if this member leads, bring the assignment one step further.

        Those in line keep stamps too, so that they can go on at once.
        """
        line = self._line(member)
        place = line.index(str(self._candidacy))
        self._say_whether_leading(place == 0)
        if self.leading:
            self._assign(member, weights)
            self._tidy()
        else:
            self._watch_over(line[:place])

    def next_death(self, now: float) -> float:
        """Return the moment to look again at the latest, to find a member dead that goes silent."""
        return next_death(self._stamps.values(), now, self._rules)

    def _assign(self, member: MemberId, weights: Callable[[], Mapping[int, int]]) -> None:
        snapshot, version = self._snapshot(weights())
        decision = decide(snapshot, self._rules)
        if decision is not None:
            self._write(decision, version)
            moves = moves_between(snapshot.assignment, decision.assignment)
            _log(moves)
            self._chronicle.note(moves)
        self._chronicle.tell(member, snapshot.members)
        self._sweep(leftovers(snapshot, self._rules))

    def _tidy(self) -> None:
        """Forget old events and jobs, now and then."""
        now = self._clock()
        if now - self._tidied >= TIDYING:
            self._tidied = now
            self._events.trim()
            self._jobs.trim()

    def _watch_over(self, before: list[str]) -> None:
        """Depose those next before me that are dead or left, the leader or who would be leader.

        Several may die at once, so each watches several. The first in line look at all leases,
        as the leader does, for they may have to lead at once; the others only at those watched.
        """
        watched = before[-WATCHED:]
        near = len(before) <= WATCHED
        now = self._stamp(None if near else list(map(candidate_of, watched)))
        for name in watched:
            self._depose_if_dead(name, now)

    def _depose_if_dead(self, name: str, now: float) -> None:
        """Take a candidacy away; the check finds one that renewed meanwhile."""
        member = candidate_of(name)
        stamp = self._stamps.get(member)
        if standing_of(stamp, now, self._rules) is Standing.ALIVE:
            return
        steps = [check(self._tree.lease(member), stamp.version)] if stamp else []
        self._connection.multi(*steps, delete(f"{self._tree.election}/{name}"))
        logger.warning("candidate %s is deposed: it does not renew its lease", member)

    def _say_whether_leading(self, leading: bool) -> None:
        if leading != self.leading:
            logger.info("%s", "this member leads now" if leading else "this member leads no more")
            self._chronicle.forget()
        self.leading = leading

    def _line(self, member: MemberId) -> list[str]:
        """Return all candidacies in line, with mine; one that was deposed stands again."""
        names = self._connection.children(self._tree.election, self._on_change)
        self._candidacy = self._standing(member, names) or self._stand(member)
        return line_of({*names, self._candidacy})

    def _standing(self, member: MemberId, names: Iterable[str]) -> str | None:
        """Return my candidacy, known or found; a request whose reply was lost may have made it.

        A server that had not heard of it yet let me stand twice. The place in front is mine: from
        the one behind I would wait for myself, and nobody would lead.
        """
        mine = [name for name in line_of(names) if candidate_of(name) == member]
        for name in mine[1:]:
            self._connection.delete(f"{self._tree.election}/{name}")
        return mine[0] if mine else None

    def _stand(self, member: MemberId) -> str:
        path = f"{self._tree.election}/{member}-"
        created = self._connection.create(path, ephemeral=True, sequence=True)
        return created.rpartition("/")[2]

    def _snapshot(self, weights: Mapping[int, int]) -> tuple[Snapshot, int]:
        data, version = self._connection.get(self._tree.assignment)
        assignment = Assignment.decode(data)
        now = self._stamp()
        snapshot = Snapshot(
            assignment, self._members(), self._stamps, self._acks(assignment), weights, now
        )
        return snapshot, version

    def _stamp(self, members: Collection[MemberId] | None = None) -> float:
        """Look at the leases of these or all; return the time that their versions were seen at.

        The clock is read after the leases: read before, a version could seem older than its
        renewal is. If I could not look for long, nobody could show me a renewal (ZooKeeper was
        away, the machine slept), so all ages start anew.
        """
        versions = self._versions(members)
        now = self._clock()
        blind = now - self._looked > self._rules.lease / 2
        self._stamps = observe({} if blind else self._stamps, versions, now)
        self._looked = now
        return now

    def _versions(self, members: Collection[MemberId] | None) -> dict[MemberId, int]:
        if members is None:
            members = list(map(MemberId.parse, self._connection.children(self._tree.leases)))
        found = self._connection.find_all([self._tree.lease(member) for member in members])
        return {member: lease[1] for member, lease in zip(members, found, strict=True) if lease}

    def _members(self) -> dict[MemberId, Member]:
        return read_members(self._connection, self._tree, self._on_change)

    def _acks(self, assignment: Assignment) -> dict[MemberId, dict[int, int]]:
        """Read the releases of those asked to release, and of nobody else."""
        asked = sorted({slot.owner for slot in assignment.slots if slot.next and slot.owner})
        found = [self._connection.find(self._tree.ack(member), self._on_change) for member in asked]
        return {
            member: decode_acks(ack[0]) for member, ack in zip(asked, found, strict=True) if ack
        }

    def _write(self, decision: Decision, version: int) -> None:
        """Write the assignment if I still lead and what it was judged by still holds."""
        steps: list[Step] = [check(f"{self._tree.election}/{self._candidacy}")]
        steps += [
            check(self._tree.lease(member), lease) for member, lease in decision.checks.items()
        ]
        steps.append(write(self._tree.assignment, decision.assignment.encode(), version))
        self._connection.multi(*steps)

    def _sweep(self, leases: Mapping[MemberId, int]) -> None:
        """Delete what nobody needs; a lease only if it still has the version that was judged."""
        for member, version in leases.items():
            self._connection.delete(self._tree.ack(member))
            self._connection.delete(self._tree.lease(member), version)


OUTDATED = (BadVersionError, NoNodeError)
"""What the world says to a leader's write that was decided on an older state of it."""


def read_members(
    connection: Connection, tree: Tree, watch: Watch | None = None
) -> dict[MemberId, Member]:
    """Return the members whose ephemeral node stands."""
    members = list(map(MemberId.parse, connection.children(tree.members, watch)))
    found = connection.find_all([tree.member(member) for member in members])
    return {
        member: Member.decode(record[0])
        for member, record in zip(members, found, strict=True)
        if record
    }


def _log(moves: Moves) -> None:
    """Log one line per pair of owners, not one per slot."""
    for (old, new), count in moves.counts.items():
        logger.info("epoch %d: %d slots granted from %s to %s", moves.epoch, count, old, new)
