"""Leader election, and the leader's one duty: writing the assignment."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from pyspider_zk.cluster.event_log import EventLog
from pyspider_zk.cluster.event_recorder import EventRecorder
from pyspider_zk.cluster.events import Moves, moves_between
from pyspider_zk.cluster.reader import Found, Reader, Table
from pyspider_zk.cluster.records import Assignment, Member
from pyspider_zk.cluster.repair import repaired
from pyspider_zk.cluster.rules import (
    Decision,
    Hold,
    Liveness,
    Rules,
    Snapshot,
    Stamp,
    candidate_of,
    decide,
    later,
    leftovers,
    line_of,
    next_death,
    observe,
    standing_of,
)
from pyspider_zk.cluster.transactions import assign_steps, depose_steps, sweep_moves
from pyspider_zk.cluster.tree import Tree
from pyspider_zk.groups.ids import MemberId
from pyspider_zk.zookeeper.connection import Ask, Connection, Watch
from pyspider_zk.zookeeper.errors import BadVersionError, NoNodeError

logger = logging.getLogger(__name__)

WATCHED = 3  # how many before them candidates watch: a leader and two next in line may die at once
UNKNOWN = Member("", "", 0, "", 0.0)
TIDYING = 60.0  # seconds between two looks at what need not be kept any longer


class _Names(NamedTuple):
    """What one look brought: the assignment, and who has candidacies, leases and nodes."""

    table: Found | None
    candidates: list[str]
    leases: list[MemberId]
    members: list[MemberId]


class Leadership:
    """One member's candidacy, and what it does while it leads.

    A turn costs two round trips, however many members there are: one for the names, one for what
    stands behind them.

    Threads: one thread calls the methods.
    """

    def __init__(
        self,
        connection: Connection,
        tree: Tree,
        rules: Rules,
        clock: Callable[[], float],
        on_change: Watch,
        table: Table,
        reader: Reader,
    ) -> None:
        self._connection = connection
        self._tree = tree
        self._rules = rules
        self._clock = clock
        self._on_change = on_change
        self._table = table
        self._reader = reader
        self._candidacy: str | None = None
        self._stamps: dict[MemberId, Stamp] = {}
        self._looked = self._tidied = float("-inf")
        self._recorder = EventRecorder(connection, tree)
        self._events = EventLog(connection, tree)
        self.leading = False

    def withdraw(self) -> None:
        """Give the candidacy up, so that the next in line leads at once."""
        if self._candidacy is not None:
            self._connection.delete(self._tree.candidacy(self._candidacy))
        self._candidacy, self._stamps, self.leading = None, {}, False
        self._recorder.forget()

    def lead(self, member: MemberId, weights: Callable[[], Mapping[int, int]], hold: Hold) -> None:
        """Stand for election; if this member leads, bring the assignment one step further.

        Those in line keep stamps too, so that they can go on at once. Who has no lease that holds
        neither stands nor deposes: two of them would depose each other for ever. But if nobody can
        read the assignment nobody can renew, and somebody has to write it anew.

        Args:
            hold: of this member's own lease.
        """
        names = self._look()
        holds = hold.until > self._clock()
        line = self._line(member, names.candidates, holds or not self._table.is_readable)
        place = line.index(self._candidacy) if self._candidacy in line else None
        self._say_whether_leading(place == 0)
        if self.leading:
            self._assign(member, weights(), names if names.table else self._look(), hold)
            self._tidy()
        elif place and holds:
            self._watch_over(line[:place], names.leases, hold)

    def next_death(self, now: float) -> float:
        """Return the moment to look again at the latest, to find a member dead that goes silent."""
        return next_death(self._stamps.values(), now, self._rules)

    def _look(self) -> _Names:
        """Ask for all names at once; a leader needs more of them.

        The assignment comes first: who got a slot in it joined before, so its lease is listed
        unless it left.
        """
        tree, watch = self._tree, self._on_change
        parents: list[Ask] = [(tree.election, watch), (tree.leases, None)]
        if self.leading:
            parents.append((tree.members, watch))
        found = self._connection.look([(tree.assignment, None)] if self.leading else [], parents)
        election, leases, members = (*found.names, [])[:3]
        return _Names(
            found.data[0] if found.data else None,
            self._reader.candidates(election),
            self._reader.members(tree.leases, leases),
            self._reader.members(tree.members, members) if self.leading else [],
        )

    def _assign(
        self, member: MemberId, weights: Mapping[int, int], names: _Names, hold: Hold
    ) -> None:
        if names.table is None:
            return  # somebody deleted it; whoever joins founds it anew
        version = names.table[1]
        assignment = self._table.take(*names.table)
        snapshot = self._snapshot(assignment, weights, names, hold)
        if assignment is None:
            self._repair(version, snapshot.now)
            return
        decision = decide(snapshot, self._rules)
        if decision is not None:
            self._write(decision, version)
            moves = moves_between(snapshot.assignment, decision.assignment)
            _log(moves)
            self._recorder.note(moves)
        self._recorder.tell(member, snapshot.members)
        self._sweep(leftovers(snapshot, self._rules))

    def _repair(self, version: int, now: float) -> None:
        """Write the assignment over one that nobody can read, as soon as that is safe."""
        table = self._table
        stamps = self._stamps.values()
        after = repaired(table.known, table.slots, version, stamps, now, self._rules)
        if after is None:
            return
        self._write(Decision(after, {}), version)
        logger.warning(
            "the assignment could not be read: it is written anew at epoch %d", after.epoch
        )

    def _tidy(self) -> None:
        """Forget old events, now and then."""
        now = self._clock()
        if now - self._tidied >= TIDYING:
            self._tidied = now
            self._events.trim()

    def _watch_over(self, before: list[str], leases: list[MemberId], hold: Hold) -> None:
        """Depose those next before me that are dead or left, the leader or who would be leader.

        Several may die at once, so each watches several. The first in line look at all leases,
        as the leader does, for they may have to lead at once; the others only at those watched.
        """
        watched = before[-WATCHED:]
        near = len(before) <= WATCHED
        now = self._stamp(leases if near else list(map(candidate_of, watched)), hold)
        for name in watched:
            self._depose_if_dead(name, now)

    def _depose_if_dead(self, name: str, now: float) -> None:
        """Take a candidacy away; the check finds one that renewed meanwhile."""
        member = candidate_of(name)
        stamp = self._stamps.get(member)
        if standing_of(stamp, now, self._rules) is Liveness.ALIVE:
            return
        self._connection.multi(*depose_steps(self._tree, name, member, stamp))
        logger.warning("candidate %s is deposed: it does not renew its lease", member)

    def _say_whether_leading(self, leading: bool) -> None:
        if leading != self.leading:
            logger.info("%s", "this member leads now" if leading else "this member leads no more")
            self._recorder.forget()
        self.leading = leading

    def _line(self, member: MemberId, names: list[str], may_stand: bool) -> list[str]:
        """Return all candidacies in line, with mine; one that was deposed may stand again."""
        self._candidacy = self._standing(member, names)
        if self._candidacy is None and may_stand:
            self._candidacy = self._stand(member)
        return line_of({*names, self._candidacy} if self._candidacy else names)

    def _standing(self, member: MemberId, names: Iterable[str]) -> str | None:
        """Return my candidacy, known or found; a request whose reply was lost may have made it.

        A server that had not heard of it yet let me stand twice. The place in front is mine: from
        the one behind I would wait for myself, and nobody would lead.
        """
        mine = [name for name in line_of(names) if candidate_of(name) == member]
        for name in mine[1:]:
            self._connection.delete(self._tree.candidacy(name))
        return mine[0] if mine else None

    def _stand(self, member: MemberId) -> str:
        path = f"{self._tree.election}/{member}-"
        created = self._connection.create(path, ephemeral=True, sequence=True)
        return created.rpartition("/")[2]

    def _snapshot(
        self,
        assignment: Assignment | None,
        weights: Mapping[int, int],
        names: _Names,
        hold: Hold,
    ) -> Snapshot:
        """Read what stands behind the names; releases only of those asked to release."""
        tree, members = self._tree, names.members
        table = assignment or Assignment(0, ())
        asked = sorted({slot.owner for slot in table.slots if slot.next and slot.owner})
        asks: list[Ask] = [(tree.member(member), None) for member in members]
        asks += [(tree.ack(member), self._on_change) for member in asked]
        extra: list[Found | None] = []
        now = self._stamp(names.leases, hold, asks, extra)
        records = self._reader.records(dict(zip(members, extra, strict=False)))
        acks = self._reader.acks(dict(zip(asked, extra[len(members) :], strict=True)))
        return Snapshot(table, _registered(members, records), self._stamps, acks, weights, now)

    def _stamp(
        self,
        members: Sequence[MemberId],
        hold: Hold,
        asks: Sequence[Ask] = (),
        extra: list[Found | None] | None = None,
    ) -> float:
        """Look at these leases; return the time that their versions were seen at.

        The clock is read after the leases: read before, a version could seem older than its
        renewal is.

        Args:
            asks: what else to read with them, in the same round trip.
            extra: gets the answers to that.
        """
        leases: list[Ask] = [(self._tree.lease(member), None) for member in members]
        data = self._connection.look([*leases, *asks]).data
        now = self._clock()
        found = {member: lease for member, lease in zip(members, data, strict=False) if lease}
        versions = {member: version for member, (_, version) in found.items()}
        told = {member: load.lease for member, load in self._reader.loads(found).items()}
        self._stamps = observe(self._counted(now, hold), versions, now, told)
        self._looked = now
        if extra is not None:
            extra.extend(data[len(members) :])
        return now

    def _counted(self, now: float, hold: Hold) -> Mapping[MemberId, Stamp]:
        """Return the stamps without the time in which nobody could have shown me a renewal.

        If my own lease did not hold all the time since I looked last (ZooKeeper was away, the
        machine slept) others could not renew either, so all ages start anew. If it did, a long
        pause between two looks counts half a lease. But while nobody can read the assignment
        nobody can renew, and ages are all that is looked at.
        """
        if not self._table.is_readable:
            return self._stamps
        if hold.since > self._looked or hold.until <= now:
            return {}
        return later(self._stamps, max(0.0, now - self._looked - self._rules.lease / 2))

    def _write(self, decision: Decision, version: int) -> None:
        """Write the assignment if I still lead and what it was judged by still holds."""
        assert self._candidacy is not None  # noqa: S101 - for mypy: only a leader writes
        self._connection.multi(*assign_steps(self._tree, self._candidacy, decision, version))
        self._table.wrote(decision.assignment, version + 1)

    def _sweep(self, leases: Mapping[MemberId, int]) -> None:
        """Delete what nobody needs; a lease only if it still has the version that was judged."""
        for member, version in leases.items():
            for steps in sweep_moves(self._tree, member, version):
                with suppress(NoNodeError):
                    self._connection.multi(*steps)


OUTDATED = (BadVersionError, NoNodeError)
"""What the world says to a leader's write that was decided on an older state of it."""


def _registered(
    members: Iterable[MemberId], records: Mapping[MemberId, Member]
) -> dict[MemberId, Member]:
    """Return all members whose node stands; what one tells may have been overwritten by anybody."""
    return {member: records.get(member, UNKNOWN) for member in members}


def _log(moves: Moves) -> None:
    """Log one line per pair of owners, not one per slot."""
    for (old, new), count in moves.counts.items():
        logger.info("epoch %d: %d slots granted from %s to %s", moves.epoch, count, old, new)
