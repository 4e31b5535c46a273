"""Every step that a small cluster can take, with the real rules and transactions.

``steps`` yields what may happen next in a state: one atomic step of one thread each, so whoever
follows all of them explores every interleaving. A thread that takes no step is paused: a pause,
however long, costs nothing. ``broken`` names a rule or a simplification to leave out.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cache

from pyspider_zk.cluster import transactions
from pyspider_zk.cluster.records import Assignment, Load
from pyspider_zk.cluster.rules import View, still_released, view_of
from pyspider_zk.groups.ids import MemberId
from tests.cluster.protocol_leader import (
    RECORD,
    Step,
    Steps,
    carried_out,
    elect,
    forget_judgements,
    lead,
    only_useful,
    steps_of_leader,
)
from tests.cluster.protocol_states import (
    EARLIER,
    MEMBER_TICK,
    NOW,
    Leader,
    Leases,
    Node,
    Releases,
    Rows,
    State,
    length_of,
    old,
    own_rows,
    without,
)
from tests.cluster.protocol_zookeeper import TREE, table_version

Fault = Callable[[State, str], Iterator[Step]]
ALL = ("election", "join", "crash", "leave", "expiry", "drain")
RESTARTS = ("restart", "twin")
SLOW = ("replies take their time", "lease from the reply")  # what makes replies steps of their own


def steps(state: State, broken: str = "") -> Iterator[Step]:
    """Yield everything that can happen next without a fault, with what it leads to."""
    yield "time passes", time_passes(state)
    for place in range(len(state.leaders)):
        yield from steps_of_leader(state, place)
    for node in state.nodes:
        yield from _steps_of_loop(state, node, broken)
        yield from _steps_of_coordinator(state, node, broken)
    for member in orphans(state):
        yield f"the session of {member} ends", expire(state, member)
    for member in who_may_return(state):
        yield f"{member} is back", _enter(state, successor(state, member))


def faults_in(state: State, broken: str = "", faults: Sequence[str] = ALL) -> Iterator[Step]:
    """Yield every fault, of these kinds, that can happen next."""
    for fault in faults:
        yield from FAULTS[fault](state, broken)


def _steps_of_loop(state: State, node: Node, broken: str) -> Iterator[Step]:
    if broken != "ack before release" and to_give_up(node):
        yield f"{node.id} gives slots up", give_up(state, node)


def _steps_of_coordinator(state: State, node: Node, broken: str) -> Iterator[Step]:
    for lag in range(len(node.reads) - 1 or node.behind):
        yield f"{node.id} reads the assignment, {lag} behind", read(state, node, lag)
    if node.given:
        yield f"{node.id} releases", release(state, node)
    told = acknowledge(state, node, broken)
    if told is not None:
        yield f"{node.id} acknowledges", told
    if not is_registered(state, node):
        yield f"{node.id} learns that its session is lost", rejoin(state, node)
    if node.reply:
        yield f"{node.id} gets its reply", receive(state, node, broken)
        yield f"the reply to {node.id} is lost", change(state, node, reply=0)
    else:
        renewed = renew(state, node, broken)
        if renewed is not None:
            yield f"{node.id} renews", renewed


def a_round(state: State) -> State:
    """Let everybody take all their steps, undisturbed; then time passes."""
    for member in orphans(state):
        state = expire(state, member)
    return time_passes(follow(lead(lead(follow(state)))))


# --- time, and what a member does ---------------------------------------------------------------


def time_passes(state: State) -> State:
    return state._replace(
        leases=_older(state.leases),
        nodes=tuple(map(_later_node, state.nodes)),
        leaders=tuple(map(_later_leader, state.leaders)),
    )


@cache
def _older(leases: Leases) -> Leases:
    return tuple(
        (member, lease._replace(age=min(old(member), lease.age + 1))) for member, lease in leases
    )


def _later_node(node: Node) -> Node:
    lease, reply = node.lease - MEMBER_TICK, node.reply - MEMBER_TICK
    return node._replace(lease=max(0, lease), reply=max(0, reply))


def _later_leader(leader: Leader) -> Leader:
    seen, watch = leader.look, leader.watch
    if not seen and not watch:
        return leader
    return leader._replace(
        look=seen and seen._replace(leases=_older(seen.leases)),
        watch=watch and watch._replace(leases=_older(watch.leases)),
    )


def change(state: State, node: Node, **fields: object) -> State:
    changed = node._replace(**fields)
    return state._replace(nodes=tuple(changed if one is node else one for one in state.nodes))


def read(state: State, node: Node, lag: int) -> State:
    """Read the assignment from a server that may lag, but never behind what was read."""
    released = _still_released(node.reads[lag], node.id, node.released)
    return change(state, node, reads=node.reads[: lag + 1], behind=lag > 0, released=released)


def view(node: Node) -> View:
    return _view(node.reads[-1], node.id, node.released, node.lease)


def open_to(node: Node) -> Releases:
    """Return the slots whose fence is open to a member, with their epochs."""
    return _open_slots(node.reads[-1], node.id, node.released, node.lease)


def to_give_up(node: Node) -> Releases:
    """Return what the loop shall give up and has not yet."""
    return tuple(sorted(view(node).releasing.items() - set(node.given)))


def give_up(state: State, node: Node) -> State:
    """Let the loop finish with slots; the coordinator's thread is told later."""
    given = {**dict(node.given), **dict(to_give_up(node))}
    return change(state, node, given=tuple(sorted(given.items())))


def release(state: State, node: Node) -> State:
    """Let the coordinator learn what its loop gave up."""
    released = tuple(sorted({**dict(node.released), **dict(node.given)}.items()))
    known = _still_released(node.reads[-1], node.id, released)
    return change(state, node, given=(), released=known)


def acknowledge(state: State, node: Node, broken: str = "") -> State | None:
    """Tell what was released; None if it was told, or there is no place for it."""
    early = view(node).releasing.items() if broken == "ack before release" else ()
    releases = tuple(sorted({*node.released, *early}))
    if dict(state.acks).get(node.id) == releases:
        return None
    return carried_out(state, _acknowledged(node.id, releases))


def is_registered(state: State, node: Node) -> bool:
    return node.id in dict(state.members) and node.id in dict(state.leases)


def renew(state: State, node: Node, broken: str = "") -> State | None:
    """Let ZooKeeper do a renewal; None if it is refused, which changes nothing.

    It is served as soon as it is sent: if it took longer the lease would only be shorter.
    So it would if the reply took its time, or were lost. Nobody but the member itself looks at
    what is left of its lease, and only its fences depend on it. A shorter lease can do nothing that
    a longer one cannot, so the reply is there at once.
    """
    version = EARLIER if node.behind else table_version(state.rows)
    after = carried_out(state, _renewed(node.id, version, node.released))
    kept = "reply" if broken in SLOW else "lease"
    return after and change(after, node, **{kept: length_of(node.id)})


def receive(state: State, node: Node, broken: str = "") -> State:
    lease = length_of(node.id) if broken == "lease from the reply" else node.reply
    return change(state, node, reply=0, lease=lease)


def rejoin(state: State, node: Node) -> State:
    """Begin another incarnation: everything of the one before is dropped."""
    return _enter(only_useful(drop_node(state, node)), successor(state, node.id))


def successor(state: State, member: MemberId) -> MemberId:
    """Return the next incarnation of a member, of another number if that is taken."""
    taken = {one.number for one, _ in state.members}
    free = (number for number in (member.number, *range(9)) if number not in taken)
    return MemberId(next(free), f"{member.incarnation}+")


def _enter(state: State, member: MemberId) -> State:
    joined = carried_out(state, _joined(member))
    assert joined is not None
    nodes = tuple(sorted([*state.nodes, Node(member, (own_rows(state.rows, member),))]))
    leaders = joined.leaders if state.line is None else (*joined.leaders, Leader(member))
    return joined._replace(nodes=nodes, leaders=leaders)


def follow(state: State) -> State:
    """Let all members, one after the other, read, release, tell so, and renew."""
    for number in range(len(state.nodes)):
        state = _turn(state, number)
    return state


def _turn(state: State, number: int) -> State:
    """Let a member take its turn; nobody but ZooKeeper tells it that its session is lost."""
    state = read(state, state.nodes[number], 0)
    state = give_up(state, state.nodes[number])
    state = release(state, state.nodes[number])
    state = acknowledge(state, state.nodes[number]) or state
    renewed = renew(state, state.nodes[number])
    if renewed is not None:
        return renewed
    state = rejoin(state, state.nodes[number])
    return renew(state, state.nodes[number]) or state


def as_recovery_begins(state: State) -> State:
    """Return all that recovery depends on, at the worst: leaders saw no lease before.

    A round begins with ``follow``: it overwrites what members knew and held.
    """
    for place, node in enumerate(state.nodes):
        state = read(state, node, 0)
        state = change(state, state.nodes[place], lease=0, reply=0)
    leaders = tuple(map(_newly_seen, state.leaders))
    return state._replace(leases=_as_new(state.leases), leaders=leaders)


def _newly_seen(leader: Leader) -> Leader:
    seen, watch = leader.look, leader.watch
    return leader._replace(
        look=seen and seen._replace(leases=_as_new(seen.leases)),
        watch=watch and watch._replace(leases=_as_new(watch.leases)),
    )


@cache
def _as_new(leases: Leases) -> Leases:
    return tuple((member, lease._replace(age=0)) for member, lease in leases)


# --- faults and orders --------------------------------------------------------------------------


def orphans(state: State) -> list[MemberId]:
    """Return the members whose process is gone and whose session is not."""
    running = {node.id for node in state.nodes}
    ephemerals = dict.fromkeys([*dict(state.members), *(state.line or ())])
    return [member for member in ephemerals if member not in running]


def expire(state: State, member: MemberId) -> State:
    """End a session, and all ephemerals with it; the member itself learns it later."""
    line = state.line and tuple(one for one in state.line if one != member)
    state = state._replace(members=without(state.members, member), line=line)
    return only_useful(state) if line is not None else state


def drop_node(state: State, node: Node) -> State:
    return state._replace(nodes=tuple(n for n in state.nodes if n is not node))


def crash(state: State, node: Node) -> State:
    return only_useful(drop_node(state, node))


def leave(state: State, node: Node, broken: str) -> State:
    """Close the fence for good, then delete lease, acks and ephemeral."""
    shut = state if broken == "leave before the fence is shut" else crash(state, node)
    steps = transactions.leave_steps(TREE, node.id)
    return carried_out(shut, steps) or shut


def leave_for_a_restart(state: State, node: Node, broken: str) -> State:
    """Close the fence for good, then leave the lease behind for a while."""
    shut = state if broken == "leave before the fence is shut" else crash(state, node)
    steps = transactions.leave_steps(TREE, node.id, length_of(node.id))
    return carried_out(shut, steps) or shut


def who_may_return(state: State) -> list[MemberId]:
    """Return those who left for a restart, and are not back."""
    taken = {member.number for member, _ in state.members}
    return [member for member, lease in state.leases if lease.left and member.number not in taken]


def take_number_of(state: State, node: Node) -> State:
    """Let another of the same name delete a registration and join; who had it learns it later."""
    state = expire(state, node.id)
    return _enter(state, successor(state, node.id._replace(incarnation=f"{node.id.incarnation}'")))


def join(state: State) -> State:
    number = 1 + max((member.number for member, _ in state.leases), default=-1)
    later = state._replace(joined=state.joined + 1)
    return _enter(later, MemberId(number, f"joined{later.joined}"))


def drain(state: State, node: Node) -> State | None:
    return carried_out(state, transactions.drain_steps(TREE, node.id, RECORD))


def _elections(state: State, _broken: str) -> Iterator[Step]:
    yield "another leads", elect(state)


def _joining(state: State, _broken: str) -> Iterator[Step]:
    yield "a member joins", join(state)


def _crashes(state: State, _broken: str) -> Iterator[Step]:
    for node in state.nodes:
        yield f"{node.id} crashes", crash(state, node)


def _leaving(state: State, broken: str) -> Iterator[Step]:
    for node in state.nodes:
        yield f"{node.id} leaves", leave(state, node, broken)


def _expiries(state: State, _broken: str) -> Iterator[Step]:
    for node in state.nodes:
        yield f"{node.id} loses its session", expire(state, node.id)


def _drains(state: State, _broken: str) -> Iterator[Step]:
    for node in state.nodes:
        drained = drain(state, node)
        if drained is not None:
            yield f"{node.id} drains", drained


def _restarts(state: State, broken: str) -> Iterator[Step]:
    for node in state.nodes:
        yield f"{node.id} leaves for a restart", leave_for_a_restart(state, node, broken)


def _twins(state: State, _broken: str) -> Iterator[Step]:
    for node in state.nodes:
        if is_registered(state, node):
            yield f"the number of {node.id} is taken", take_number_of(state, node)


FAULTS: dict[str, Fault] = {
    "election": _elections,
    "join": _joining,
    "crash": _crashes,
    "leave": _leaving,
    "expiry": _expiries,
    "drain": _drains,
    "restart": _restarts,
    "twin": _twins,
}


# --- the real rules and transactions, the same question once ------------------------------------


@cache
def _view(rows: Rows, member: MemberId, released: Releases, lease: int) -> View:
    until = lease or float("-inf")
    return view_of(Assignment(0, rows), member, dict(released), until)


@cache
def _still_released(rows: Rows, member: MemberId, released: Releases) -> Releases:
    return tuple(sorted(still_released(Assignment(0, rows), member, dict(released)).items()))


@cache
def _open_slots(rows: Rows, member: MemberId, released: Releases, lease: int) -> Releases:
    seen = _view(rows, member, released, lease)
    held = {**seen.owned, **seen.releasing}
    return tuple((slot, epoch) for slot, epoch in held.items() if seen.open(slot, epoch, NOW))


@cache
def _joined(member: MemberId) -> Steps:
    load = Load(lease=length_of(member))
    return tuple(transactions.join_steps(TREE, member, RECORD, load))


@cache
def _renewed(member: MemberId, version: int, released: Releases) -> Steps:
    load = Load(lease=length_of(member))
    return tuple(transactions.renew_steps(TREE, member, version, load, dict(released)))


@cache
def _acknowledged(member: MemberId, released: Releases) -> Steps:
    return tuple(transactions.acknowledge_steps(TREE, member, dict(released)))


def forget_answers() -> None:
    """Ask the rules anew: one of them was changed."""
    forget_judgements()
    for function in (_view, _still_released, _open_slots, _joined, _renewed, _acknowledged):
        function.cache_clear()
