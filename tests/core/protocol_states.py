"""The states of a small cluster, as values: equal states are equal tuples.

No clock stands in a state. A member's lease is what is left of it, a leader's stamp is its age, and
``now`` is always 0. Members' clocks run as slowly and leaders' as fast as the drift allows: all
else is safer. Versions of leases are counted densely, because only their equality matters. So the
states are few enough to visit all of them.
"""

from typing import NamedTuple

from pyspider_zk.core.ownership import Rules
from pyspider_zk.core.records import MemberId, Slot

NOW = 0.0
MEMBER_TICK, LEADER_TICK = 4, 6
RULES = Rules(lease=5.0, drift=0.5, margin=0.0, budget=0.0)
LEASE = int(RULES.lease)
OLDEST = 12  # an age that no rule tells from a greater one

Rows = tuple[Slot, ...]
Releases = tuple[tuple[int, int], ...]  # slot and epoch, sorted
Versions = tuple[tuple[MemberId, int], ...]  # of leases, sorted
Stamps = tuple[tuple[MemberId, tuple[int, int]], ...]  # version and age, sorted


class Node(NamedTuple):
    """A member process. ``lag``: how many writes its cached assignment is behind.

    ``reply`` is that of a renewal, under way: what is left of the lease it brings.
    """

    id: MemberId
    lag: int = 0
    released: Releases = ()
    lease: int = 0
    reply: int = 0


class Look(NamedTuple):
    """What was read before a decision."""

    rows: Rows
    versions: Versions
    outdated: bool = False


class Write(NamedTuple):
    """A decision whose write is still to come; ``first``: it was decided on version 0."""

    rows: Rows
    checks: Versions
    outdated: bool
    first: bool


class Leader(NamedTuple):
    """A process that believes it leads."""

    stamps: Stamps = ()
    look: Look | None = None
    write: Write | None = None
    sweep: Versions = ()  # leases to delete, at these versions


class State(NamedTuple):
    """The whole cluster; ``tables`` newest first, as far back as anybody may still read."""

    tables: tuple[Rows, ...]
    leases: Versions
    members: tuple[tuple[MemberId, bool], ...]  # whose ephemeral stands, and who drains
    acks: tuple[tuple[MemberId, Releases], ...]
    nodes: tuple[Node, ...]
    leaders: tuple[Leader, ...]
    faults: int  # how many may still happen
    writes: int  # how many decisions may still be written


def birth(members: int, slots: int, faults: int, writes: int) -> State:
    """Return a cluster whose members just joined, with its first leader."""
    ids = [MemberId(number, "0") for number in range(members)]
    return State(
        tables=((Slot(),) * slots,),
        leases=tuple((member, 0) for member in ids),
        members=tuple((member, False) for member in ids),
        acks=tuple((member, ()) for member in ids),
        nodes=tuple(map(Node, ids)),
        leaders=(Leader(),),
        faults=faults,
        writes=writes,
    )


def put(pairs: tuple, key: MemberId, value: object) -> tuple:
    """Return sorted pairs with one more or another value."""
    return tuple(sorted([*((k, v) for k, v in pairs if k != key), (key, value)]))


def without(pairs: tuple, *keys: MemberId) -> tuple:
    """Return the pairs of other keys."""
    return tuple(pair for pair in pairs if pair[0] not in keys)


def tidy(state: State) -> State:
    """Forget stamps that no look can confirm any more, then count versions without gaps."""
    leases = dict(state.leases)
    leaders = tuple(_without_old_stamps(leader, leases) for leader in state.leaders)
    state = state._replace(leaders=leaders)
    used: dict[MemberId, set[int]] = {}
    for member, version in _versions(state):
        used.setdefault(member, set()).add(version)
    if all(max(versions) < len(versions) for versions in used.values()):
        return state
    rank = {
        (member, version): place
        for member, versions in used.items()
        for place, version in enumerate(sorted(versions))
    }
    return state._replace(
        leases=_ranked(state.leases, rank),
        leaders=tuple(_ranked_leader(leader, rank) for leader in state.leaders),
    )


def _without_old_stamps(leader: Leader, leases: dict[MemberId, int]) -> Leader:
    """Drop what ``observe`` would replace: the stamps of versions that were renewed since."""
    seen = dict(leader.look.versions) if leader.look else leases
    stamps = tuple(
        (member, stamp)
        for member, stamp in leader.stamps
        if stamp[0] in (leases.get(member), seen.get(member))
    )
    return leader if len(stamps) == len(leader.stamps) else leader._replace(stamps=stamps)


def _versions(state: State) -> list[tuple[MemberId, int]]:
    found = list(state.leases)
    for leader in state.leaders:
        found += [(member, stamp[0]) for member, stamp in leader.stamps]
        found += leader.look.versions if leader.look else ()
        found += leader.write.checks if leader.write else ()
        found += leader.sweep
    return found


def _ranked_leader(leader: Leader, rank: dict[tuple[MemberId, int], int]) -> Leader:
    look, write = leader.look, leader.write
    return leader._replace(
        stamps=tuple((name, (rank[name, stamp[0]], stamp[1])) for name, stamp in leader.stamps),
        look=look and look._replace(versions=_ranked(look.versions, rank)),
        write=write and write._replace(checks=_ranked(write.checks, rank)),
        sweep=_ranked(leader.sweep, rank),
    )


def _ranked(versions: Versions, rank: dict[tuple[MemberId, int], int]) -> Versions:
    return tuple((member, rank[member, version]) for member, version in versions)
