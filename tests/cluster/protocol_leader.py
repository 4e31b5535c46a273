"""What leads, or stands in line to lead, in the small cluster: one atomic step after the other."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product

from pyspider_zk.cluster import transactions
from pyspider_zk.cluster.records import Assignment, Member
from pyspider_zk.cluster.rules import (
    Decision,
    Liveness,
    Snapshot,
    Stamp,
    decide,
    leftovers,
    observe,
    standing_of,
)
from pyspider_zk.groups.ids import MemberId
from pyspider_zk.zookeeper.steps import Step as ZooKeeperStep
from tests.cluster.protocol_states import (
    LEADER_TICK,
    NOW,
    RULES,
    Decided,
    Known,
    Leader,
    LeaderLook,
    LeaderWatch,
    Lease,
    Leases,
    Members,
    Rows,
    State,
    old,
)
from tests.cluster.protocol_zookeeper import TREE, done, is_refused, table_version

Step = tuple[str, State]
Steps = tuple[ZooKeeperStep, ...]
RECORD = Member("127.0.0.1:1", "host", 1, "0", 0.0)
DRAINING = Member("127.0.0.1:1", "host", 1, "0", 0.0, draining=True)
BEFORE = -1  # a version of a lease before the one that was read


def steps_of_leader(state: State, place: int) -> Iterator[Step]:
    """Yield the one thing that a coordinator does next about leading, in all ways it may do it."""
    for label, after in _ways(state, place):
        yield label, only_useful(after)


def _ways(state: State, place: int) -> Iterator[Step]:
    leader = state.leaders[place]
    name = f"leader {place}"
    if leader.decided is not None:
        yield f"{name} writes", write(state, place)
    elif leader.sweep:
        yield f"{name} sweeps", sweep(state, place)
    elif leader.depose:
        yield f"{name} deposes {leader.depose[0][0]}", depose(state, place)
    elif leader.look is not None:
        yield from judge(state, place)
    elif leader.watch is not None:
        yield from watch_over(state, place)
    else:
        yield from begin(state, place)


def begin(state: State, place: int) -> Iterator[Step]:
    """Look, if it leads; watch those before it, or stand in line anew, if its lease holds."""
    member, line = state.leaders[place].member, state.line
    holds = any(node.id == member and node.lease for node in state.nodes)
    if line is None or line[:1] == (member,):
        yield f"leader {place} looks at assignment and leases", look(state, place)
    elif member not in line and holds:
        yield f"{member} stands for election", state._replace(line=(*line, member))
    elif member in line and holds:
        before = line[: line.index(member)]
        after = Leader(member, watch=LeaderWatch(before, state.leases))
        yield f"{member} looks at the leases of {before}", _set_leader(state, place, after)


def lead(state: State) -> State:
    """Let everybody take a whole turn of leading; a leader of before finishes what it had begun."""
    turns = [leader.member for leader in state.leaders]
    for turn, member in enumerate(turns):
        former = state.line is None and turn < len(turns) - 1
        place = _place_of(state, member)
        if place is not None and not former:
            state = _first_way(state, place)
        while (place := _place_of(state, member)) is not None and is_busy(state.leaders[place]):
            state = _first_way(state, place)
    return state


def _place_of(state: State, member: MemberId) -> int | None:
    places = (at for at, leader in enumerate(state.leaders) if leader.member == member)
    return next(places, None)


def _first_way(state: State, place: int) -> State:
    return next((after for _, after in steps_of_leader(state, place)), state)


def elect(state: State) -> State:
    """Let another lead. The one before is not told: it decides on what it read and writes."""
    return only_useful(state._replace(leaders=(*state.leaders, Leader())))


# --- what can still have an effect --------------------------------------------------------------


def carried_out(state: State, steps: Sequence[ZooKeeperStep]) -> State | None:
    """Do all steps or none; what ZooKeeper will refuse from now on is forgotten."""
    after = done(state, steps)
    if after is None or (after.leaders is state.leaders and after.line is state.line):
        return after
    return only_useful(after)


def only_useful(state: State) -> State:
    """Forget what leaders have begun that cannot change anything any more, and who ended."""
    leaders = tuple(_useful(state, leader) for leader in state.leaders)
    if state.line is None:
        *before, last = leaders
        kept = (*filter(is_busy, before), last)
    else:
        running = {node.id for node in state.nodes}
        kept = tuple(one for one in leaders if is_busy(one) or one.member in running)
    return state if kept == state.leaders else state._replace(leaders=kept)


def is_busy(leader: Leader) -> bool:
    return leader[1:] != (None, None, (), None, ())


def _useful(state: State, leader: Leader) -> Leader:
    """Let a leader begin anew if what it holds would change nothing."""
    member, seen, decided, sweep, watch, depose = leader
    idle = Leader(member)
    if decided and is_refused(state, assignment_written(member, decided)):
        return idle
    if seen and not _can_write(state, member, seen) and not _can_sweep(state, seen):
        return idle
    if watch and state.line is not None and member not in state.line:
        return idle
    left = tuple(one for one in sweep if not is_refused(state, swept(*one)[-1]))
    line = tuple(one for one in depose if not is_refused(state, deposed(*one)))
    return leader._replace(sweep=left, depose=line) if (left, line) != (sweep, depose) else leader


def _can_write(state: State, member: MemberId, seen: LeaderLook) -> bool:
    least = Decided(seen.rows, seen.version, ())
    return not is_refused(state, assignment_written(member, least))


def _can_sweep(state: State, seen: LeaderLook) -> bool:
    owners = {row.owner for row in seen.rows}
    last = (swept(one, lease.version)[-1] for one, lease in seen.leases if one not in owners)
    return any(not is_refused(state, steps) for steps in last)


@cache
def assignment_written(member: MemberId, decided: Decided) -> Steps:
    decision = Decision(Assignment(1, decided.rows), dict(decided.checks))
    return tuple(transactions.assign_steps(TREE, str(member), decision, decided.version))


@cache
def swept(member: MemberId, version: int) -> tuple[Steps, ...]:
    return tuple(map(tuple, transactions.sweep_moves(TREE, member, version)))


@cache
def deposed(member: MemberId, version: int) -> Steps:
    stamp = Stamp(version, NOW) if version else None
    return tuple(transactions.depose_steps(TREE, str(member), member, stamp))


# --- leading ------------------------------------------------------------------------------------


def look(state: State, place: int) -> State:
    """Read the assignment, then the leases; what comes in between makes the write fail."""
    seen = LeaderLook(state.rows, table_version(state.rows), state.leases)
    return _set_leader(state, place, Leader(state.leaders[place].member, seen))


def judge(state: State, place: int) -> Iterator[Step]:
    """Stamp what was read, look at members and acks, decide."""
    leader = state.leaders[place]
    assert leader.look is not None
    seen = leader.look
    for found in _judgements(seen.rows, seen.leases, state.members, state.acks):
        taken = "".join(f", takes {member} for dead" for member in found.dead)
        decided = found.rows and Decided(found.rows, seen.version, found.checks)
        after = _set_leader(state, place, Leader(leader.member, None, decided, found.gone))
        yield f"leader {place} decides{taken}", after


def write(state: State, place: int) -> State:
    """Write the assignment; whoever decides on the one before does so in vain."""
    leader = state.leaders[place]
    assert leader.decided is not None
    steps = assignment_written(leader.member, leader.decided)
    after = _set_leader(state, place, leader._replace(decided=None))
    written = done(after, steps)
    return _set_leader(state, place, Leader(leader.member)) if written is None else written


def sweep(state: State, place: int) -> State:
    """Delete the next of what nobody needs any more."""
    leader = state.leaders[place]
    first, *others = leader.sweep
    steps, *more = (steps for steps in swept(*first) if not is_refused(state, steps))
    left = leader.sweep if more else tuple(others)
    return done(_set_leader(state, place, leader._replace(sweep=left)), steps) or state


def _set_leader(state: State, place: int, leader: Leader) -> State:
    leaders = state.leaders
    return state._replace(leaders=(*leaders[:place], leader, *leaders[place + 1 :]))


@dataclass(frozen=True)
class Judgement:
    """What the rules say, and whom they took for dead."""

    dead: Members
    rows: Rows | None
    checks: Known
    gone: Known


@cache
def _judgements(rows: Rows, leases: Leases, members, acks) -> tuple[Judgement, ...]:
    """Ask the real rules, with all that a leader may remember of the leases it read."""
    records = {member: DRAINING if draining else RECORD for member, draining in members}
    releases = {member: dict(told) for member, told in acks}
    left = frozenset(member for member, lease in leases if lease.left)
    found: dict[tuple, Judgement] = {}
    for stamps in _memories(leases):
        snapshot = Snapshot(Assignment(0, rows), records, stamps, releases, {}, NOW, left)
        outcome = _outcome(snapshot)
        if outcome not in found:
            found[outcome] = Judgement(_dead(stamps), *outcome)
    return tuple(found.values())


def _memories(leases: Leases) -> Iterator[dict[MemberId, Stamp]]:
    """Yield all that somebody may remember of leases.

    It stamped this version as soon as ZooKeeper had made it, or it stamped one before, long ago.
    """
    versions = {member: lease.version for member, lease in leases}
    told = {member: float(lease.length) for member, lease in leases}
    ways = [(_stamp(member, lease), _stamp_before(member, lease)) for member, lease in leases]
    for stamps in product(*ways):
        yield observe(dict(zip(versions, stamps, strict=True)), versions, NOW, told)


def _stamp(_: MemberId, lease: Lease) -> Stamp:
    return Stamp(lease.version, -LEADER_TICK * lease.age, lease.length)


def _stamp_before(member: MemberId, lease: Lease) -> Stamp:
    return Stamp(BEFORE, -LEADER_TICK * old(member), lease.length)


def _dead(stamps: dict[MemberId, Stamp]) -> Members:
    return tuple(m for m in stamps if standing_of(stamps[m], NOW, RULES) is Liveness.DEAD)


def _outcome(snapshot: Snapshot) -> tuple[Rows | None, Known, Known]:
    decision, gone = decide(snapshot, RULES), leftovers(snapshot, RULES)
    left = tuple(sorted(gone.items()))
    if decision is None:
        return None, (), left
    return decision.assignment.slots, tuple(sorted(decision.checks.items())), left


# --- standing in line ---------------------------------------------------------------------------


def watch_over(state: State, place: int) -> Iterator[Step]:
    """Stamp the leases, and decide whose candidacy to take away."""
    leader = state.leaders[place]
    assert leader.watch is not None
    for dead in _to_depose(leader.watch):
        names = "".join(f", takes {member} for dead" for member, _ in dead)
        after = _set_leader(state, place, Leader(leader.member, depose=dead))
        yield f"{leader.member} judges those before it{names}", after


@cache
def _to_depose(watch: LeaderWatch) -> tuple[Known, ...]:
    found = {}
    for stamps in _memories(watch.leases):
        judged = {member: stamps.get(member) for member in watch.before}
        dead = tuple(
            (member, stamp.version if stamp else 0)
            for member, stamp in judged.items()
            if standing_of(stamp, NOW, RULES) is not Liveness.ALIVE
        )
        found[dead] = None
    return tuple(found)


def depose(state: State, place: int) -> State:
    """Take the first of these candidacies away; a refusal ends the turn."""
    leader = state.leaders[place]
    (first, version), *others = leader.depose
    state = _set_leader(state, place, leader._replace(depose=tuple(others)))
    after = done(state, deposed(first, version))
    return _set_leader(state, place, Leader(leader.member)) if after is None else after


def forget_judgements() -> None:
    """Ask the rules anew: one of them was changed."""
    for function in (_judgements, _to_depose, assignment_written, swept, deposed):
        function.cache_clear()
