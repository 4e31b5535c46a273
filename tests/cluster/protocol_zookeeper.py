"""A ZooKeeper that does the transactions of ownership: their real steps on an abstract state."""

from collections.abc import Callable, Sequence
from functools import cache

from pyspider_zk.cluster.records import Assignment, LeaseTerms, Member, decode_acks
from pyspider_zk.cluster.tree import Tree
from pyspider_zk.groups.ids import MemberId
from pyspider_zk.zookeeper.steps import ANY_VERSION, Check, Create, Delete, Step
from tests.cluster.protocol_states import (
    EARLIER,
    NEWBORN,
    PRESENT,
    Known,
    Leader,
    Lease,
    Leases,
    Releases,
    Rows,
    State,
    put,
    without,
    written,
)

TREE = Tree("/z")
ASSIGNMENT, ELECTION = TREE.assignment, TREE.election


def done(state: State, steps: Sequence[Step]) -> State | None:
    """Do all steps or none; None if they are refused."""
    if is_refused(state, steps):
        return None
    for step in steps:
        kind, member = _place_of(step.path)
        if isinstance(step, Delete):
            state = DELETE[kind](state, member)
        elif not isinstance(step, Check):
            state = WRITE[kind](state, member, step.data)
    return state


def is_refused(state: State, steps: Sequence[Step]) -> bool:
    """Return whether ZooKeeper would refuse a transaction, each step of which is on another znode.

    What is refused once is refused for ever: no version and no znode of ownership comes back.
    """
    return any(_is_step_refused(state, step) for step in steps)


def _is_step_refused(state: State, step: Step) -> bool:
    version = _version_of(state, *_place_of(step.path))
    if isinstance(step, Create):
        return version is not None
    return version is None or step.version not in (ANY_VERSION, version)


@cache
def table_version(rows: Rows) -> int:
    """Return the version of the assignment as it stands; the first write grants something."""
    return NEWBORN if all(row.owner is None for row in rows) else PRESENT


@cache
def _place_of(path: str) -> tuple[str, MemberId]:
    """Return the kind of a znode and whose it is."""
    if path == TREE.assignment:
        return path, MemberId(0, "")
    parent, _, name = path.rpartition("/")
    return parent, MemberId.parse(name)


def _version_of(state: State, kind: str, member: MemberId) -> int | None:
    """Return the version of a znode, None if it does not exist."""
    if kind == ASSIGNMENT:
        return table_version(state.rows)
    if kind == ELECTION:
        return PRESENT if state.line is None or member in state.line else None
    pairs = getattr(state, FIELD[kind])
    return PRESENT if any(one == member for one, _ in pairs) else None


FIELD = {TREE.members: "members", TREE.leases: "leases", TREE.acks: "acks"}


# --- writing ------------------------------------------------------------------------------------


def _write_table(state: State, _: MemberId, data: bytes) -> State:
    rows = _rows_in(data)
    return state._replace(
        rows=rows,
        nodes=tuple(written(node, rows) for node in state.nodes),
        leaders=tuple(map(_without_table, state.leaders)),
    )


def _without_table(leader: Leader) -> Leader:
    """Let what a leader knows be of an earlier table."""
    seen, decided = leader.look, leader.decided
    return leader._replace(
        look=seen and seen._replace(version=min(EARLIER, seen.version)),
        decided=decided and decided._replace(version=min(EARLIER, decided.version)),
    )


def _write_lease(state: State, member: MemberId, data: bytes) -> State:
    terms = _terms_in(data)
    lease = Lease(0, int(terms.lease), left=terms.left)
    leases = put(state.leases, member, lease)
    return _lease_changed(state._replace(leases=leases), member)


def _lease_changed(state: State, member: MemberId) -> State:
    leaders = tuple(_without_lease(leader, member) for leader in state.leaders)
    return state if leaders == state.leaders else state._replace(leaders=leaders)


def _without_lease(leader: Leader, member: MemberId) -> Leader:
    """Let what a leader knows of a lease be of an earlier version."""
    _, seen, decided, sweep, watch, depose = leader
    if not (seen or decided or sweep or watch or depose):
        return leader
    return leader._replace(
        look=seen and seen._replace(leases=_lease_outdated(seen.leases, member)),
        decided=decided and decided._replace(checks=_outdated(decided.checks, member)),
        sweep=_outdated(sweep, member),
        watch=watch and watch._replace(leases=_lease_outdated(watch.leases, member)),
        depose=_outdated(depose, member),
    )


@cache
def _lease_outdated(leases: Leases, member: MemberId) -> Leases:
    return tuple(
        (one, lease._replace(version=EARLIER) if one == member else lease) for one, lease in leases
    )


def _outdated(known: Known, member: MemberId) -> Known:
    return tuple((one, min(EARLIER, at) if one == member else at) for one, at in known)


def _write_acks(state: State, member: MemberId, data: bytes) -> State:
    told = (member, _releases_in(data))
    return state if told in state.acks else state._replace(acks=put(state.acks, *told))


def _write_member(state: State, member: MemberId, data: bytes) -> State:
    return state._replace(members=put(state.members, member, _drains_in(data)))


def _delete_lease(state: State, member: MemberId) -> State:
    return _lease_changed(state._replace(leases=without(state.leases, member)), member)


def _delete_candidacy(state: State, member: MemberId) -> State:
    assert state.line is not None
    return state._replace(line=tuple(one for one in state.line if one != member))


WRITE: dict[str, Callable[[State, MemberId, bytes], State]] = {
    TREE.assignment: _write_table,
    TREE.leases: _write_lease,
    TREE.acks: _write_acks,
    TREE.members: _write_member,
}
DELETE: dict[str, Callable[[State, MemberId], State]] = {
    TREE.leases: _delete_lease,
    TREE.acks: lambda state, member: state._replace(acks=without(state.acks, member)),
    TREE.members: lambda state, member: state._replace(members=without(state.members, member)),
    TREE.election: _delete_candidacy,
}


@cache
def _rows_in(data: bytes) -> Rows:
    return Assignment.decode(data).slots


@cache
def _terms_in(data: bytes) -> LeaseTerms:
    return LeaseTerms.decode(data)


@cache
def _releases_in(data: bytes) -> Releases:
    return tuple(sorted(decode_acks(data).items()))


@cache
def _drains_in(data: bytes) -> bool:
    return Member.decode(data).draining
