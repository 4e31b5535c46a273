"""The states of a small cluster, as values: equal states are equal tuples.

No clock stands in a state. A member's lease is what is left of it, a lease in ZooKeeper has an age,
in ticks, and ``now`` is always 0. Members' clocks run as slowly and leaders' as fast as the drift
allows: all else is safer. What a leader remembers of the leases is not in a state either: it may
have stamped a version when ZooKeeper made it, at the earliest, or not yet (see ``judge``). Versions
need no numbers: one that somebody knows is still the present one, or an earlier one. So the states
are few enough to visit all of them.
"""

from collections.abc import Collection
from functools import cache
from itertools import groupby
from typing import NamedTuple

from pyspider_zk.cluster.records import Slot
from pyspider_zk.cluster.rules import Rules
from pyspider_zk.groups.ids import MemberId

NOW = 0.0
MEMBER_TICK, LEADER_TICK = 4, 6
RULES = Rules(lease=5.0, drift=0.5, margin=0.0, budget=0.0)
LEASE, LONGER_LEASE = int(RULES.lease), 9  # two ticks, three ticks
LONGER = "long"  # begins the incarnation of a member that has a longer lease
OLD_ACKS = "old acks are kept"  # for ``broken``: simplifications to leave out
OLD_ROWS = "old rows are kept"
NEWBORN, EARLIER, PRESENT = 0, 1, 2  # versions: of a table that was never written, and of all else
SOMEBODY = MemberId(99, "leader")  # leads where it makes no difference who does

Rows = tuple[Slot, ...]
Releases = tuple[tuple[int, int], ...]  # slot and epoch, sorted
Members = tuple[MemberId, ...]
Known = tuple[tuple[MemberId, int], ...]  # versions of leases, sorted
Past = tuple[int, ...]  # epochs that no one knows any more, by slot


class Lease(NamedTuple):
    """A lease as it stands, or as somebody read it.

    Attributes:
        age: in ticks, since ZooKeeper wrote it.
        length: how long it lasts, as it tells.
        version: ``EARLIER`` once another was written, or it was deleted, since it was read.
        left: its member shut its fence for good, and may be back.
    """

    age: int
    length: int
    version: int = PRESENT
    left: bool = False


Leases = tuple[tuple[MemberId, Lease], ...]  # sorted


class Node(NamedTuple):
    """A member process.

    Attributes:
        id: who it is.
        reads: its own rows, of the newest assignment first and of the one it knows last.
        behind: whether an assignment was written since it read.
        given: what its loop gave up and its coordinator was not told yet.
        released: what it gave up.
        lease: what is left of it.
        reply: that of a renewal, under way: what is left of the lease it brings.
    """

    id: MemberId
    reads: tuple[Rows, ...]
    behind: bool = False
    given: Releases = ()
    released: Releases = ()
    lease: int = 0
    reply: int = 0


class LeaderLook(NamedTuple):
    """What was read before a decision, and whether it still stands."""

    rows: Rows
    version: int
    leases: Leases


class Decided(NamedTuple):
    """A decision whose write is still to come, with the versions that it was judged by."""

    rows: Rows
    version: int
    checks: Known


class LeaderWatch(NamedTuple):
    """What a candidate read: who stands before it, and all leases."""

    before: Members
    leases: Leases


class Leader(NamedTuple):
    """A coordinator that leads, believes so, or stands in line.

    Attributes:
        sweep: whose lease is to be deleted, and at which version.
        depose: whose candidacy is to be taken away, and at which version of the lease; 0: it has
            none.
    """

    member: MemberId = SOMEBODY
    look: LeaderLook | None = None
    decided: Decided | None = None
    sweep: Known = ()
    watch: LeaderWatch | None = None
    depose: Known = ()


class State(NamedTuple):
    """The whole cluster; ``rows`` is the newest assignment.

    ``line``: whose candidacies stand, the leader's first; None: who leads makes no difference.
    """

    rows: Rows
    leases: Leases
    members: tuple[tuple[MemberId, bool], ...]  # whose ephemeral stands, and who drains
    acks: tuple[tuple[MemberId, Releases], ...]
    nodes: tuple[Node, ...]
    leaders: tuple[Leader, ...] = (Leader(),)
    line: Members | None = None
    joined: int = 0  # how many came later


def length_of(member: MemberId) -> int:
    """Return how long a member's lease lasts, by its own settings."""
    return LONGER_LEASE if member.incarnation.startswith(LONGER) else LEASE


def old(member: MemberId) -> int:
    """Return the age of a lease, in ticks, that no rule tells from a greater one."""
    return 3 if member.incarnation.startswith(LONGER) else 2


def birth(members: int, slots: int, longer: Collection[int] = (), in_line: bool = False) -> State:
    """Return a cluster whose members just joined; ``in_line``: they stand for election."""
    ids = [MemberId(number, LONGER if number in longer else "0") for number in range(members)]
    nothing = (Slot(),) * slots
    state = State(
        rows=nothing,
        leases=tuple((member, Lease(0, length_of(member))) for member in ids),
        members=tuple((member, False) for member in ids),
        acks=tuple((member, ()) for member in ids),
        nodes=tuple(Node(member, (nothing,)) for member in ids),
    )
    leaders = tuple(map(Leader, ids))
    return state._replace(leaders=leaders, line=tuple(ids)) if in_line else state


def put(pairs: tuple, key: MemberId, value: object) -> tuple:
    """Return sorted pairs with one more or another value."""
    return tuple(sorted([*((k, v) for k, v in pairs if k != key), (key, value)]))


def without(pairs: tuple, *keys: MemberId) -> tuple:
    """Return the pairs of other keys."""
    return tuple(pair for pair in pairs if pair[0] not in keys)


def written(node: Node, rows: Rows) -> Node:
    """Return a member process after an assignment was written."""
    reads = (own_rows(rows, node.id), *node.reads)
    return node._replace(reads=_without_repeats(reads), behind=True)


@cache
def own_rows(rows: Rows, member: MemberId) -> Rows:
    """Return all that a member goes by: what it owns, and what it shall release."""
    return tuple(
        Slot(member, row.epoch, row.next and member) if row.owner == member else Slot()
        for row in rows
    )


def _without_repeats(reads: tuple[Rows, ...]) -> tuple[Rows, ...]:
    return tuple(rows for rows, _ in groupby(reads))


def tidy(state: State, broken: str = "") -> State:
    """Forget what makes no difference any more, given that epochs grow with each grant.

    An ack of an older epoch than the present counts no more. Nor does such a row to a member whose
    fences are shut: they stay so until it renews, and it renews only by the newest assignment.
    Epochs are only compared with each other: they count from the oldest that is still known.
    """
    nodes = state.nodes
    if broken != OLD_ROWS:
        nodes = tuple(_tidy_node(node, state.rows) for node in nodes)
    kept = _marked if broken == OLD_ACKS else _present
    acks = tuple((member, told and kept(told, state.rows)) for member, told in state.acks)
    state = state._replace(acks=acks, nodes=nodes)
    past = _past((state.rows, *(node.reads for node in nodes)))
    return _shifted(state, past) if past else state


@cache
def _past(known: tuple) -> Past | None:
    """Return how many epochs of each slot passed before any that is still known; None for none."""
    rows, *reads = known
    columns = zip(rows, *(one for each in reads for one in each), strict=True)
    past = tuple(
        min((row.epoch for row in column if row.epoch), default=1) - 1 for column in columns
    )
    return past if any(past) else None


def _tidy_node(node: Node, rows: Rows) -> Node:
    return node if node.lease or node.reply else _asleep(node, rows)


@cache
def _asleep(node: Node, rows: Rows) -> Node:
    reads = (tuple(map(_if_present, known, rows)) for known in node.reads)
    given, released = _present(node.given, rows), _present(node.released, rows)
    return node._replace(reads=_without_repeats(tuple(reads)), given=given, released=released)


def _if_present(known: Slot, row: Slot) -> Slot:
    return known if known.epoch == row.epoch else Slot()


@cache
def _marked(told: Releases, rows: Rows) -> Releases:
    return tuple((slot, epoch * (epoch == rows[slot].epoch)) for slot, epoch in told)


@cache
def _present(told: Releases, rows: Rows) -> Releases:
    return tuple(pair for pair in told if pair[1] == rows[pair[0]].epoch)


def _shifted(state: State, past: Past) -> State:
    return state._replace(
        rows=_shifted_rows(state.rows, past),
        acks=tuple((member, _shifted_releases(told, past)) for member, told in state.acks),
        nodes=tuple(_shifted_node(node, past) for node in state.nodes),
        leaders=tuple(_shifted_leader(leader, past) for leader in state.leaders),
    )


def _shifted_node(node: Node, past: Past) -> Node:
    reads = tuple(_shifted_rows(rows, past) for rows in node.reads)
    given, released = (_shifted_releases(each, past) for each in (node.given, node.released))
    return node._replace(reads=reads, given=given, released=released)


def _shifted_leader(leader: Leader, past: Past) -> Leader:
    seen, decided = leader.look, leader.decided
    return leader._replace(
        look=seen and seen._replace(rows=_shifted_rows(seen.rows, past)),
        decided=decided and decided._replace(rows=_shifted_rows(decided.rows, past)),
    )


def _shifted_rows(rows: Rows, past: Past) -> Rows:
    return tuple(
        row._replace(epoch=max(0, row.epoch - less)) for row, less in zip(rows, past, strict=True)
    )


def _shifted_releases(releases: Releases, past: Past) -> Releases:
    return tuple((slot, max(0, epoch - past[slot])) for slot, epoch in releases)
