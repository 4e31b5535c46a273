"""What a leader of the small cluster does, one atomic step after the other."""

from functools import cache

from protocol_states import (
    NOW,
    RULES,
    Leader,
    Look,
    Rows,
    Stamps,
    State,
    Versions,
    Write,
    tidy,
    without,
)

from pyspider_zk.core.ownership import Snapshot, Stamp, decide, leftovers, observe
from pyspider_zk.core.records import Assignment, Member

RECORD = Member("127.0.0.1:1", "host", 1, "0", 0.0)
DRAINING = Member("127.0.0.1:1", "host", 1, "0", 0.0, draining=True)


def step_of_leader(state: State, place: int, broken: str = "") -> tuple[str, State]:
    """Return the one thing that a leader does next, and what it leads to."""
    leader, name = state.leaders[place], f"leader {place}"
    if leader.write is not None:
        return f"{name} writes", write(state, place, broken)
    if leader.sweep:
        return f"{name} sweeps", sweep(state, place, broken)
    if leader.look is not None:
        return f"{name} decides", judge(state, place, broken)
    return f"{name} looks at assignment and leases", look(state, place)


def lead(state: State) -> State:
    """Let a whole turn of leading happen; a leader of before finishes what it had begun."""
    state = state._replace(writes=state.writes + len(state.leaders))
    while len(state.leaders) > 1:
        state = only_busy(step_of_leader(state, 0)[1])
    state = step_of_leader(state, 0)[1]
    while is_busy(state.leaders[0]):
        state = step_of_leader(state, 0)[1]
    return state


def elect(state: State, stamps: Stamps) -> State:
    """Let another lead, maybe one that looked at the leases whenever the one before did.

    The one before is not told: it decides on what it read and writes, as far as it had come.
    """
    return only_busy(state._replace(leaders=(state.leaders[-1], Leader(stamps))))


def only_busy(state: State) -> State:
    """Forget the leader before, once it has done what it had begun."""
    if len(state.leaders) > 1 and not is_busy(state.leaders[0]):
        return tidy(state._replace(leaders=state.leaders[1:]))
    return state


def is_busy(leader: Leader) -> bool:
    return bool(leader.look or leader.write or leader.sweep)


def look(state: State, place: int) -> State:
    """Read the assignment, then the leases; what comes in between makes the write fail."""
    seen = Look(state.tables[0], state.leases)
    return _set_leader(state, place, state.leaders[place]._replace(look=seen))


def judge(state: State, place: int, broken: str) -> State:
    """Stamp what was read, look at members and acks, decide."""
    leader = state.leaders[place]
    assert leader.look is not None
    rows, versions, outdated = leader.look
    stamps, after, checks, gone = _judgement(
        rows, leader.stamps, versions, state.members, state.acks
    )
    decided = after and Write(after, checks, outdated, first=not any(row.epoch for row in rows))
    if decided and _is_vain(state, decided, broken):
        decided, gone = None, ()
    return tidy(_set_leader(state, place, Leader(stamps, write=decided, sweep=gone)))


def write(state: State, place: int, broken: str) -> State:
    """Write the assignment; a write that would be refused is dropped as soon as it is vain."""
    leader = state.leaders[place]
    assert leader.write is not None
    state = _set_leader(state, place, leader._replace(write=None))._replace(
        tables=(leader.write.rows, *state.tables),
        nodes=tuple(node._replace(lag=node.lag + 1) for node in state.nodes),
        writes=state.writes - 1,
    )
    state = state._replace(leaders=tuple(map(_outdated, state.leaders)))
    return tidy(without_vain_writes(state, broken))


def without_vain_writes(state: State, broken: str) -> State:
    """Let leaders learn at once that a write will be refused: it would change nothing."""
    leaders = tuple(
        leader._replace(write=None, sweep=())
        if leader.write and _is_vain(state, leader.write, broken)
        else leader
        for leader in state.leaders
    )
    return state._replace(leaders=leaders)


def _is_vain(state: State, decided: Write, broken: str) -> bool:
    """Tell whether ZooKeeper refuses a write: of an outdated table, or by a lease's version."""
    if decided.outdated and broken != "write whatever stands":
        return not (decided.first and broken == "version 0 unconditional")
    leases = dict(state.leases)
    unchanged = all(leases.get(member) == version for member, version in decided.checks)
    return not unchanged and broken != "no check of the lease"


def sweep(state: State, place: int, broken: str) -> State:
    """Delete acks of members that nobody needs any more, and leases not renewed meanwhile."""
    leader = state.leaders[place]
    members = [member for member, _ in leader.sweep]
    held = set(state.leases) - set(leader.sweep)
    if broken == "sweep whatever stands":
        held = {(member, version) for member, version in held if member not in members}
    state = state._replace(leases=tuple(sorted(held)), acks=without(state.acks, *members))
    return tidy(_set_leader(state, place, leader._replace(sweep=())))


def _set_leader(state: State, place: int, leader: Leader) -> State:
    leaders = state.leaders
    return state._replace(leaders=(*leaders[:place], leader, *leaders[place + 1 :]))


def _outdated(leader: Leader) -> Leader:
    seen, decided = leader.look, leader.write
    return leader._replace(
        look=seen and seen._replace(outdated=True),
        write=decided and decided._replace(outdated=True),
    )


Judgement = tuple[Stamps, Rows | None, Versions, Versions]


@cache
def _judgement(rows: Rows, before: Stamps, versions: Versions, members, acks) -> Judgement:
    """Ask the real rules; the same question once."""
    known = {member: Stamp(version, -age) for member, (version, age) in before}
    stamps = observe(known, dict(versions), NOW)
    records = {member: DRAINING if draining else RECORD for member, draining in members}
    releases = {member: dict(told) for member, told in acks}
    snapshot = Snapshot(Assignment(0, rows), records, stamps, releases, {}, NOW)
    decision = decide(snapshot, RULES)
    aged = ((member, (stamp.version, int(-stamp.first_seen))) for member, stamp in stamps.items())
    return (
        tuple(sorted(aged)),
        decision.assignment.slots if decision else None,
        tuple(sorted(decision.checks.items())) if decision else (),
        tuple(sorted(leftovers(snapshot, RULES).items())),
    )


def forget_judgements() -> None:
    """Ask the rules anew: one of them was changed."""
    _judgement.cache_clear()
