"""Leader election, and the leader's one duty: writing the assignment."""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from pyspider_zk.cluster.cluster_settings import ClusterSettings, in_force
from pyspider_zk.cluster.event_log import EventLog, EventRecorder
from pyspider_zk.cluster.events import Event, EventKind, moves_between
from pyspider_zk.cluster.orders import REBALANCED
from pyspider_zk.cluster.placement import Rated
from pyspider_zk.cluster.reader import Reader, Table
from pyspider_zk.cluster.records import Assignment, Member, decode_acks
from pyspider_zk.cluster.rules import (
    Decision,
    Hold,
    Liveness,
    Rules,
    Snapshot,
    Stamp,
    decide,
    is_settled,
    later,
    leftovers,
    next_death,
    observe,
    repaired,
    standing_of,
)
from pyspider_zk.cluster.transactions import (
    assign_steps,
    depose_steps,
    rebalanced_steps,
    sweep_moves,
)
from pyspider_zk.cluster.tree import Tree, candidate_of, line_of
from pyspider_zk.cluster.weighing import Weighing
from pyspider_zk.errors import Refused
from pyspider_zk.groups.ids import MemberId
from pyspider_zk.zookeeper.connection import Ask, Connection, Watch
from pyspider_zk.zookeeper.errors import NotEmptyError
from pyspider_zk.zookeeper.steps import Step
from pyspider_zk.zookeeper.strays import (
    delete_below,
    delete_despite_strays,
    deleted_by,
    do_despite_strays,
)
from pyspider_zk.zookeeper.unreadable import BELOW, Found

logger = logging.getLogger(__name__)

WATCHED = 3  # candidates before it that each one watches: that many may die at once
UNKNOWN = Member("", "", 0, "", 0.0)
SWEPT_AT_ONCE = 64  # members whose leftovers are deleted by one round trip
REST = 60.0  # seconds for which a leader relies on its watches, while nothing happens


class _Names(NamedTuple):
    """The result of one read: the assignment, and the names of candidacies, leases and nodes."""

    table: Found | None
    candidates: list[str]
    leases: list[MemberId]
    members: list[MemberId]


class Leadership:
    """One member's candidacy, and what it does while it leads.

    A turn costs two round trips, however many members there are: one for the names, one for the
    contents. A leader that has found nothing to decide is at rest: until a watch tells of a change
    it reads only the leases of the other members, and decides nothing.

    Threads: one thread calls the methods; watches come on kazoo's.

    Args:
        renew: renews this member's lease if that is due; called between duties, and between the
            round trips of those that may take any number.
    """

    def __init__(
        self,
        connection: Connection,
        tree: Tree,
        rules: Rules,
        clock: Callable[[], float],
        on_change: Watch,
        table: Table,
        renew: Callable[[], object],
    ) -> None:
        self._connection = connection
        self._tree = tree
        self._rules = rules
        self._settings = ClusterSettings()
        self._clock = clock
        self._wake = on_change
        self._has_news = threading.Event()
        self._rest: tuple[float, Mapping[int, int]] | None = None  # until when, with which projects
        self._table = table
        self._reader = Reader(tree, connection.unreadable)
        self._renew = renew
        self._candidacy: str | None = None
        self._stamps: dict[MemberId, Stamp] = {}
        self._left: frozenset[MemberId] = frozenset()
        self._leases: Mapping[MemberId, Found] = {}  # as last read
        self._weighing = Weighing(connection, tree)
        self._looked = float("-inf")
        self._recorder = EventRecorder(connection, tree)
        self._events = EventLog(connection, tree)
        self.leading = False

    def obey(self, rules: Rules, settings: ClusterSettings) -> None:
        """Go by these from now on, and look whether they ask for another assignment."""
        self._rules, self._settings, self._rest = rules, settings, None

    def withdraw(self) -> None:
        """Withdraw the candidacy, so that the next in the queue leads at once."""
        if self._candidacy is not None:
            delete_despite_strays(self._connection, self._tree.candidacy(self._candidacy))
        self._candidacy, self._stamps, self.leading = None, {}, False
        self.start_anew()

    def start_anew(self) -> None:
        """Forget what a turn may have left half done; the next one reads everything again.

        The stamps stay: they were only seen, each look replaces them all at once, and what they say
        of a member holds however the turn went on. Without them, a fault in each turn would keep
        the slots of the dead for ever. The candidacy is looked up at each turn.
        """
        self._rest = None
        self._recorder.forget()
        self._weighing.forget()

    def lead(self, member: MemberId, projects: Callable[[], Mapping[int, int]], hold: Hold) -> None:
        """Stand for election; if this member leads, bring the assignment one step further.

        Candidates keep stamps too, so that they can take over at once. A member whose lease has
        ended neither stands nor deposes: two of them would depose each other forever. But while
        the assignment cannot be read nobody can renew, and somebody has to rewrite it.

        Args:
            hold: of this member's own lease.
        """
        if self._is_at_rest(member, projects(), hold):
            return
        self._rest = None
        self._has_news.clear()  # before reading, so that no later change is lost
        names = self._look()
        holds = hold.until > self._clock()
        line = self._line(member, names.candidates, holds or not self._table.is_readable)
        place = line.index(self._candidacy) if self._candidacy in line else None
        self._say_whether_leading(place == 0)
        if self.leading:
            self._assign(member, projects(), names if names.table else self._look(), hold)
        elif place and holds:
            self._watch_over(line[:place], names.leases, hold)

    def _on_change(self, event: object) -> None:
        self._has_news.set()
        self._wake(event)

    def _is_at_rest(self, member: MemberId, projects: Mapping[int, int], hold: Hold) -> bool:
        """Return whether nothing has changed since there was nothing to decide.

        Leases change all the time, so those of others are read; my own shows in how it holds.
        """
        now = self._clock()
        if self._rest is None or self._has_news.is_set() or hold.until <= now:
            return False
        until, before = self._rest
        others = [other for other in self._stamps if other != member]
        if now >= until or before != projects:
            return False
        if others:
            now, _ = self._stamp([*others, member], hold)
        return all(
            standing_of(self._stamps.get(other), now, self._rules) is Liveness.ALIVE
            for other in others
        )

    def next_death(self, now: float) -> float:
        """Return when the next turn is due, so that the death of a silent member is noticed."""
        return next_death(self._stamps.values(), now, self._rules)

    def _look(self) -> _Names:
        """Read all names at once; a leader needs more of them.

        The assignment comes first: a member that got a slot in it joined before, so its lease is
        listed unless it left.
        """
        tree, watch = self._tree, self._on_change
        parents: list[Ask] = [(tree.election, watch), (tree.leases, None)]
        if self.leading:
            parents.append((tree.members, watch))
        found = self._connection.look([(tree.assignment, watch)] if self.leading else [], parents)
        election, leases, members = (*found.names, [])[:3]
        return _Names(
            found.data[0] if found.data else None,
            self._reader.candidates(election),
            self._reader.members(tree.leases, leases),
            self._reader.members(tree.members, members) if self.leading else [],
        )

    def _assign(
        self, member: MemberId, projects: Mapping[int, int], names: _Names, hold: Hold
    ) -> None:
        if names.table is None:
            return  # somebody deleted it; the next member that joins creates it
        version = names.table[1]
        assignment = self._table.take(*names.table)
        snapshot = self._snapshot(assignment, projects, names, hold)
        if assignment is None:
            self._repair(version, snapshot.now)
            return
        snapshot = replace(snapshot, rated=self._rated(assignment, snapshot.now))
        decision = decide(snapshot, self._rules)
        if decision is not None:
            self._write(decision, version)
            moves = moves_between(snapshot.assignment, decision.assignment)
            for (old, new), count in moves.counts.items():  # not a line per slot
                logger.info(
                    *("epoch %d: %d slots granted from %s to %s", moves.epoch, count, old, new)
                )
            self._recorder.note(moves)
            self._renew()
        if not self._recorder.record(member, snapshot.members):
            self._on_change(None)  # the next turn tells of more; who died is told by the lease
            return
        self._sweep(leftovers(snapshot, self._rules))
        if decision is None and self._settings.rebalance and _is_in_place(snapshot):
            self._end_rebalance(member)
        if decision is None and is_settled(snapshot, self._rules):
            self._rest = (min(snapshot.now + REST, self._weighing.due), dict(projects))

    @property
    def _led_by(self) -> str:
        """My candidacy, by which I lead."""
        assert self._candidacy is not None  # noqa: S101 - for mypy: only a leader asks
        return self._candidacy

    def _rated(self, assignment: Assignment, now: float) -> Rated:
        leases, settings = self._leases, self._settings
        return self._weighing.rated(self._led_by, settings, assignment, leases, now)

    def _end_rebalance(self, member: MemberId) -> None:
        """Let maintenance go on, unless the settings are others by now."""
        path = self._tree.settings
        found = self._connection.find(path)
        known = self._connection.unreadable.decoded(path, found, ClusterSettings.decode)
        if found is None or known != self._settings:
            return  # the next turn goes by those
        event = Event(EventKind.REBALANCE, REBALANCED, time.time(), str(member))
        self._connection.ensure([self._tree.events])
        after = replace(self._settings, rebalance=False)
        steps = rebalanced_steps(self._tree, self._led_by, after, found[1])
        self._connection.multi(*steps, self._events.step(event))
        self._settings = after

    def _repair(self, version: int, now: float) -> None:
        """Write the assignment over one that cannot be read, as soon as that is safe."""
        table = self._table
        stamps = self._stamps.values()
        first = int(time.time())  # see ``ensure_cluster``
        after = repaired(table.known, table.slots, version, stamps, now, self._rules, first)
        if after is None:
            return
        self._write(Decision(after, {}), version)
        logger.warning(
            "the assignment could not be read: it is written anew at epoch %d", after.epoch
        )

    def _watch_over(self, before: list[str], leases: list[MemberId], hold: Hold) -> None:
        """Depose those just before me that died or left: the leader, or the next leaders.

        Several may die at once, so each watches several. The first in the queue look at all leases,
        as the leader does, because they may have to lead at once; the others only at those watched.
        """
        watched = before[-WATCHED:]
        near = len(before) <= WATCHED
        now, _ = self._stamp(leases if near else list(map(candidate_of, watched)), hold)
        for name in watched:
            self._depose_if_dead(name, now)

    def _depose_if_dead(self, name: str, now: float) -> None:
        """Delete a candidacy; the transaction fails if its member renewed meanwhile."""
        member = candidate_of(name)
        stamp = self._stamps.get(member)
        if standing_of(stamp, now, self._rules) is Liveness.ALIVE:
            return
        do_despite_strays(self._connection, *depose_steps(self._tree, name, member, stamp))
        logger.warning("candidate %s is deposed: it does not renew its lease", member)

    def _say_whether_leading(self, leading: bool) -> None:
        if leading != self.leading:
            logger.info("%s", "this member leads now" if leading else "this member leads no more")
            self.start_anew()
        self.leading = leading

    def _line(self, member: MemberId, names: list[str], may_stand: bool) -> list[str]:
        """Return all candidacies in the queue, with mine; one that was deposed may stand again."""
        self._candidacy = self._standing(member, names)
        if self._candidacy is None and may_stand:
            self._candidacy = self._stand(member)
        return line_of({*names, self._candidacy} if self._candidacy else names)

    def _standing(self, member: MemberId, names: Iterable[str]) -> str | None:
        """Return my candidacy, known or found; a request whose reply was lost may have made it.

        A server that had not seen it yet let me stand twice. The first of the two is mine: in the
        second I would wait for myself, and nobody would lead.
        """
        mine = [name for name in line_of(names) if candidate_of(name) == member]
        for name in mine[1:]:
            delete_despite_strays(self._connection, self._tree.candidacy(name))
        return mine[0] if mine else None

    def _stand(self, member: MemberId) -> str:
        path = f"{self._tree.election}/{member}-"
        created = self._connection.create(path, ephemeral=True, sequence=True)
        return created.rpartition("/")[2]

    def _snapshot(
        self,
        assignment: Assignment | None,
        projects: Mapping[int, int],
        names: _Names,
        hold: Hold,
    ) -> Snapshot:
        """Read the contents of the names; releases only of members that must release."""
        tree, members = self._tree, names.members
        table = assignment or Assignment(0, ())
        asked = sorted({slot.owner for slot in table.slots if slot.next and slot.owner})
        asks: list[Ask] = [(tree.member(member), self._on_change) for member in members]
        asks += [(tree.ack(member), self._on_change) for member in asked]
        now, found = self._stamp(names.leases, hold, asks)
        records = dict(zip(members, found, strict=False))
        acks = dict(zip(asked, found[len(members) :], strict=True))
        known = self._reader.values(tree.member, records, Member.decode)
        return Snapshot(
            table,
            # One whose record was overwritten by anybody is a member all the same.
            {member: known.get(member, UNKNOWN) for member in members},
            self._stamps,
            self._reader.values(tree.ack, acks, decode_acks),
            projects,
            now,
            left=self._left,
            settings=in_force(self._settings),
        )

    def _stamp(
        self, members: Sequence[MemberId], hold: Hold, asks: Sequence[Ask] = ()
    ) -> tuple[float, list[Found | None]]:
        """Stamp these leases; return the time at which their versions were seen.

        The clock is read after the leases: read before, a version could seem older than its
        renewal is.

        Args:
            asks: what else to read, in the same round trip, and to return.
        """
        leases: list[Ask] = [(self._tree.lease(member), None) for member in members]
        data = self._connection.look([*leases, *asks]).data
        now = self._clock()
        found = {member: lease for member, lease in zip(members, data, strict=False) if lease}
        versions = {member: version for member, (_, version) in found.items()}
        self._leases, terms = found, self._reader.terms(found)
        lengths = {member: each.lease for member, each in terms.items()}
        self._left = frozenset(member for member, each in terms.items() if each.left)
        self._stamps = observe(self._counted(now, hold), versions, now, lengths)
        self._looked = now
        return now, data[len(members) :]

    def _counted(self, now: float, hold: Hold) -> Mapping[MemberId, Stamp]:
        """Return the stamps without the time in which no renewal could have been seen.

        If my own lease did not hold all the time since I looked last (ZooKeeper was unavailable,
        the machine slept) others could not renew either, so all ages start again. If it did, a long
        pause between two looks counts half a lease. But while the assignment cannot be read
        nobody can renew, and ages are all that is looked at.
        """
        if not self._table.is_readable:
            return self._stamps
        if hold.since > self._looked or hold.until <= now:
            return {}
        return later(self._stamps, max(0.0, now - self._looked - self._rules.lease / 2))

    def _write(self, decision: Decision, version: int) -> None:
        """Write the assignment if I still lead and the leases it was decided on are unchanged."""
        self._connection.multi(*assign_steps(self._tree, self._led_by, decision, version))
        self._table.wrote(decision.assignment, version + 1)

    def _sweep(self, leases: Mapping[MemberId, int]) -> None:
        """Delete leftovers; a lease only if it still has the version that was judged."""
        moves = [sweep_moves(self._tree, *judged) for judged in leases.items()]
        for start in range(0, len(moves), SWEPT_AT_ONCE):
            some = moves[start : start + SWEPT_AT_ONCE]
            self._renew()
            gone = self._deleted([ack for ack, _ in some])
            self._deleted(
                [lease for (_, lease), is_gone in zip(some, gone, strict=True) if is_gone]
            )

    def _deleted(self, moves: Sequence[Sequence[Step]]) -> list[bool]:
        """Delete these, each for itself; return whether each is gone.

        If somebody put something below one, that goes now, and the leftover in another turn.
        """
        refusals = self._connection.multi_all(moves)
        holds = [isinstance(refusal, NotEmptyError) for refusal in refusals]
        for steps, is_held in zip(moves, holds, strict=True):
            if is_held:
                self._clear(deleted_by(steps))
            else:
                self._connection.unreadable.forget(*map(_below, deleted_by(steps)))
        return [not is_held for is_held in holds]

    def _clear(self, paths: Sequence[str]) -> None:
        """Delete what somebody put below these; what we may not look at stays, and is named."""
        try:
            delete_below(self._connection, paths, self._renew)
        except Refused as error:
            self._connection.unreadable.note(_below(paths[0]), error)


def _below(path: str) -> str:
    return path + BELOW


def _is_in_place(snapshot: Snapshot) -> bool:
    """Return whether no slot moves, or waits until its owner's lease has ended."""
    rows = snapshot.assignment.slots
    return all(row.next is None and row.owner in snapshot.members for row in rows)
