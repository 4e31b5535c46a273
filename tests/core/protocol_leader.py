"""What a leader of the small cluster does, one atomic step after the other."""

from collections.abc import Iterator
from functools import cache
from itertools import product

from protocol_states import (
    LEADER_TICK,
    NOW,
    RULES,
    Ages,
    Leader,
    Look,
    Members,
    Rows,
    State,
    Write,
    lease_of,
    old,
    without,
    written,
)

from pyspider_zk.core.ownership import Snapshot, Stamp, Standing, decide, leftovers, observe
from pyspider_zk.core.records import Assignment, Member, MemberId

Step = tuple[str, State]
RECORD = Member("127.0.0.1:1", "host", 1, "0", 0.0)
DRAINING = Member("127.0.0.1:1", "host", 1, "0", 0.0, draining=True)
RECKLESS = ("write whatever stands", "version 0 unconditional")
READ, EARLIER = 1, 0  # versions of a lease: the one that was read, and any before


def steps_of_leader(state: State, place: int, broken: str = "") -> Iterator[Step]:
    """Yield the one thing that a leader does next, in all ways that it may do it."""
    leader, name = state.leaders[place], f"leader {place}"
    if leader.write is not None:
        yield f"{name} writes", write(state, place, broken)
    elif leader.sweep:
        yield f"{name} sweeps", sweep(state, place, broken)
    elif leader.look is not None:
        yield from judge(state, place, broken)
    else:
        yield f"{name} looks at assignment and leases", look(state, place)


def lead(state: State) -> State:
    """Let a whole turn of leading happen; a leader of before finishes what it had begun."""
    while len(state.leaders) > 1:
        state = _first_way(state)
    state = _first_way(state)
    while is_busy(state.leaders[0]):
        state = _first_way(state)
    return state


def _first_way(state: State) -> State:
    return only_busy(next(steps_of_leader(state, 0))[1])


def elect(state: State) -> State:
    """Let another lead. The one before is not told: it decides on what it read and writes."""
    return only_busy(state._replace(leaders=(*state.leaders, Leader())))


def only_busy(state: State) -> State:
    """Forget leaders before, once they have done what they had begun."""
    *before, last = state.leaders
    busy = tuple(leader for leader in before if is_busy(leader))
    return state if len(busy) == len(before) else state._replace(leaders=(*busy, last))


def is_busy(leader: Leader) -> bool:
    return bool(leader.look or leader.write or leader.sweep)


def look(state: State, place: int) -> State:
    """Read the assignment, then the leases; what comes in between makes the write fail."""
    return _set_leader(state, place, Leader(Look(state.rows, state.leases)))


def judge(state: State, place: int, broken: str) -> Iterator[Step]:
    """Stamp what was read, look at members and acks, decide."""
    seen = state.leaders[place].look
    assert seen is not None
    for dead, rows, checks, gone in _judgements(seen.rows, seen.ages, state.members, state.acks):
        taken = "".join(f", takes {member} for dead" for member in dead)
        first = all(row.owner is None for row in seen.rows)
        decided = rows and Write(rows, checks, first)
        if decided and _is_vain(seen, decided, broken):
            leader = Leader()
        elif broken == "sweep whatever stands":
            leader = Leader(write=decided, sweep=gone)
        else:
            still = tuple(member for member in gone if member not in seen.renewed)
            leader = Leader(write=decided, sweep=still)
        yield f"leader {place} decides{taken}", _set_leader(state, place, leader)


def _is_vain(seen: Look, decided: Write, broken: str) -> bool:
    """Tell whether ZooKeeper will refuse a write, as things stand."""
    if seen.outdated and not _overwrites(decided, broken):
        return True
    return broken != "no check of the lease" and not set(decided.checks).isdisjoint(seen.renewed)


def _overwrites(decided: Write, broken: str) -> bool:
    return broken == "write whatever stands" or (
        decided.first and broken == "version 0 unconditional"
    )


def write(state: State, place: int, broken: str) -> State:
    """Write the assignment; whoever decides on the one before does so in vain."""
    leader = state.leaders[place]
    assert leader.write is not None
    rows = leader.write.rows
    state = _set_leader(state, place, leader._replace(write=None))
    return state._replace(
        rows=rows,
        nodes=tuple(written(node, rows) for node in state.nodes),
        leaders=tuple(_outdated(leader, broken) for leader in state.leaders),
    )


def _outdated(leader: Leader, broken: str) -> Leader:
    """Let a leader learn at once that its write will be refused: it would change nothing."""
    seen, decided = leader.look, leader.write
    if decided and not _overwrites(decided, broken):
        return Leader()
    return _unless_idle(leader._replace(look=seen and seen._replace(outdated=True)), broken)


def _unless_idle(leader: Leader, broken: str) -> Leader:
    """Let a leader look anew at once if what it read is good for nothing: no write, no sweep."""
    seen = leader.look
    if not seen or not seen.outdated or broken in RECKLESS:
        return leader
    kept = {row.owner for row in seen.rows}
    if broken != "sweep whatever stands":
        kept.update(seen.renewed)
    return leader if any(member not in kept for member, _ in seen.ages) else Leader()


def sweep(state: State, place: int, broken: str) -> State:
    """Delete acks of members that nobody needs any more, and leases not renewed meanwhile."""
    gone = state.leaders[place].sweep
    state = _set_leader(state, place, Leader())
    state = state._replace(leases=without(state.leases, *gone), acks=without(state.acks, *gone))
    return leases_changed(state, gone, broken)


def leases_changed(state: State, members: Members, broken: str) -> State:
    """Let what leaders know of these leases not stand any more."""
    leaders = tuple(_told(leader, members, broken) for leader in state.leaders)
    return state if leaders == state.leaders else only_busy(state._replace(leaders=leaders))


def _told(leader: Leader, members: Members, broken: str) -> Leader:
    seen, decided, gone = leader
    if seen:
        read = {member for member, _ in seen.ages}
        renewed = {*seen.renewed, *(member for member in members if member in read)}
        seen = seen._replace(renewed=tuple(sorted(renewed)))
    checked = decided.checks if decided and broken != "no check of the lease" else ()
    if not set(members).isdisjoint(checked):
        return Leader()
    if broken != "sweep whatever stands":
        gone = tuple(member for member in gone if member not in members)
    return _unless_idle(Leader(seen, decided, gone), broken)


def _set_leader(state: State, place: int, leader: Leader) -> State:
    leaders = state.leaders
    return state._replace(leaders=(*leaders[:place], leader, *leaders[place + 1 :]))


Judgement = tuple[Members, Rows | None, Members, Members]


@cache
def _judgements(rows: Rows, ages: Ages, members, acks) -> tuple[Judgement, ...]:
    """Ask the real rules, with all that a leader may remember of the leases it read.

    It stamped this version as soon as ZooKeeper had made it, or it stamped one before, long ago.
    """
    records = {member: DRAINING if draining else RECORD for member, draining in members}
    releases = {member: dict(told) for member, told in acks}
    found: dict[tuple, Members] = {}
    for memory in product((READ, EARLIER), repeat=len(ages)):
        stamps = _stamps(ages, memory)
        snapshot = Snapshot(Assignment(0, rows), records, stamps, releases, {}, NOW)
        dead = (m for m in stamps if snapshot.standing(m, RULES) is Standing.DEAD)
        found.setdefault(_outcome(snapshot), tuple(dead))
    return tuple((dead, *outcome) for outcome, dead in found.items())


def _stamps(ages: Ages, memory: tuple[int, ...]) -> dict[MemberId, Stamp]:
    told = {member: float(lease_of(member)) for member, _ in ages}
    known = {
        member: _stamp(member, age, version)
        for (member, age), version in zip(ages, memory, strict=True)
    }
    return observe(known, {member: READ for member, _ in ages}, NOW, told)


def _stamp(member: MemberId, age: int, version: int) -> Stamp:
    ticks = age if version == READ else old(member)
    return Stamp(version, -LEADER_TICK * ticks, lease_of(member))


def _outcome(snapshot: Snapshot) -> tuple[Rows | None, Members, Members]:
    decision, gone = decide(snapshot, RULES), leftovers(snapshot, RULES)
    if decision is None:
        return None, (), tuple(sorted(gone))
    return decision.assignment.slots, tuple(sorted(decision.checks)), tuple(sorted(gone))


def forget_judgements() -> None:
    """Ask the rules anew: one of them was changed."""
    _judgements.cache_clear()
