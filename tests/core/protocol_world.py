"""Every step that a small cluster can take, with the real rules.

``steps`` yields what may happen next in a state: one atomic step of one party each, so whoever
follows all of them explores every interleaving. A party that takes no step is paused: a pause,
however long, costs nothing. ``broken`` names a rule to leave out, to show that it is needed.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cache

from protocol_leader import (
    Step,
    elect,
    forget_judgements,
    lead,
    leases_changed,
    only_busy,
    steps_of_leader,
)
from protocol_states import (
    MEMBER_TICK,
    NOW,
    Ages,
    Leader,
    Node,
    Releases,
    Rows,
    State,
    lease_of,
    old,
    own_rows,
    put,
    without,
)

from pyspider_zk.core.ownership import View, still_released, view_of
from pyspider_zk.core.records import Assignment, MemberId

Fault = Callable[[State, str], Iterator[Step]]
ALL = ("election", "join", "crash", "leave", "expiry", "drain")
SLOW = ("replies take their time", "lease from the reply")  # what makes replies steps of their own


def steps(state: State, broken: str = "") -> Iterator[Step]:
    """Yield everything that can happen next without a fault, with what it leads to."""
    yield "time passes", time_passes(state)
    for place in range(len(state.leaders)):
        for label, after in steps_of_leader(state, place, broken):
            yield label, only_busy(after)
    for node in state.nodes:
        yield from _steps_of_node(state, node, broken)
    for member in orphans(state):
        yield f"the session of {member} ends", expire(state, member)


def faults_in(state: State, broken: str = "", faults: Sequence[str] = ALL) -> Iterator[Step]:
    """Yield every fault, of these kinds, that can happen next."""
    for fault in faults:
        yield from FAULTS[fault](state, broken)


def _steps_of_node(state: State, node: Node, broken: str) -> Iterator[Step]:
    for lag in range(len(node.reads) - 1 or node.behind):
        yield f"{node.id} reads the assignment, {lag} behind", read(state, node, lag)
    if broken != "ack before release" and view(node).releasing:
        yield f"{node.id} releases", release(state, node)
    if unacknowledged(state, node, broken) is not None:
        yield f"{node.id} acknowledges", acknowledge(state, node, broken)
    if not is_standing(state, node):
        yield f"{node.id} learns that its session is lost", rejoin(state, node)
    elif node.reply:
        yield f"{node.id} gets its reply", receive(state, node, broken)
        yield f"the reply to {node.id} is lost", change(state, node, reply=0)
    elif not node.behind or broken == "no check of the assignment":
        yield f"{node.id} renews", renew(state, node, broken)


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


def _older(ages: Ages) -> Ages:
    return tuple((member, min(old(member), age + 1)) for member, age in ages)


def _later_node(node: Node) -> Node:
    lease, reply = node.lease - MEMBER_TICK, node.reply - MEMBER_TICK
    return node._replace(lease=max(0, lease), reply=max(0, reply))


def _later_leader(leader: Leader) -> Leader:
    seen = leader.look
    return leader._replace(look=seen._replace(ages=_older(seen.ages))) if seen else leader


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
    """Return the slots whose gate is open to a member, with their epochs."""
    return _open_slots(node.reads[-1], node.id, node.released, node.lease)


def release(state: State, node: Node) -> State:
    released = {*node.released, *view(node).releasing.items()}
    return change(state, node, released=tuple(sorted(released)))


def unacknowledged(state: State, node: Node, broken: str = "") -> Releases | None:
    told = dict(state.acks).get(node.id)
    early = view(node).releasing.items() if broken == "ack before release" else ()
    releases = tuple(sorted({*node.released, *early}))
    return None if told is None or told == releases else releases


def acknowledge(state: State, node: Node, broken: str = "") -> State:
    return state._replace(acks=put(state.acks, node.id, unacknowledged(state, node, broken)))


def is_standing(state: State, node: Node) -> bool:
    return node.id in dict(state.members) and node.id in dict(state.leases)


def renew(state: State, node: Node, broken: str = "") -> State:
    """Let ZooKeeper do a renewal; one by an outdated view is refused, which changes nothing.

    It is served as soon as it is sent: if it took longer the lease would only be shorter.
    So it would if the reply took its time, or were lost. Nobody but the member itself looks at
    what is left of its lease, and only its gates depend on it. A shorter lease can do nothing that
    a longer one cannot, so the reply is there at once.
    """
    kept = "reply" if broken in SLOW else "lease"
    state = change(state, node, **{kept: lease_of(node.id)})
    state = state._replace(leases=put(state.leases, node.id, 0))
    return leases_changed(state, (node.id,), broken)


def receive(state: State, node: Node, broken: str = "") -> State:
    lease = lease_of(node.id) if broken == "lease from the reply" else node.reply
    return change(state, node, reply=0, lease=lease)


def rejoin(state: State, node: Node) -> State:
    """Begin another incarnation: everything of the one before is dropped."""
    again = MemberId(node.id.number, f"{node.id.incarnation}+")
    return _enter(drop_node(state, node), again)


def _enter(state: State, member: MemberId) -> State:
    return state._replace(
        nodes=tuple(sorted([*state.nodes, Node(member, (own_rows(state.rows, member),))])),
        leases=put(state.leases, member, 0),
        members=put(state.members, member, False),
        acks=put(state.acks, member, ()),
    )


def follow(state: State) -> State:
    """Let all members, one after the other, read, release, tell so, and renew."""
    for number in range(len(state.nodes)):
        if not is_standing(state, state.nodes[number]):
            state = rejoin(state, state.nodes[number])
        state = read(state, state.nodes[number], 0)
        state = release(state, state.nodes[number])
        if unacknowledged(state, state.nodes[number]) is not None:
            state = acknowledge(state, state.nodes[number])
        state = renew(state, state.nodes[number])
    return state


def as_recovery_begins(state: State) -> State:
    """Return all that recovery depends on, at the worst: leaders saw no lease before.

    A round begins with ``follow``: it overwrites what members knew and held.
    """
    for place, node in enumerate(state.nodes):
        state = read(state, node, 0)
        state = change(state, state.nodes[place], lease=0, reply=0)
    leaders = tuple(map(_newly_seen, state.leaders))
    leases = tuple((member, 0) for member, _ in state.leases)
    return state._replace(leases=leases, leaders=leaders)


def _newly_seen(leader: Leader) -> Leader:
    seen = leader.look
    ages = tuple((member, 0) for member, _ in seen.ages) if seen else ()
    return leader._replace(look=seen and seen._replace(ages=ages))


# --- faults and orders --------------------------------------------------------------------------


def orphans(state: State) -> list[MemberId]:
    """Return the members whose process is gone and whose session is not."""
    running = {node.id for node in state.nodes}
    return [member for member, _ in state.members if member not in running]


def expire(state: State, member: MemberId) -> State:
    """End a session; the member itself learns it later."""
    return state._replace(members=without(state.members, member))


def drop_node(state: State, node: Node) -> State:
    return state._replace(nodes=tuple(n for n in state.nodes if n is not node))


def leave(state: State, node: Node, broken: str) -> State:
    """Close the gate for good, then delete lease, acks and ephemeral."""
    if broken != "leave before the gate is shut":
        state = drop_node(state, node)
    state = state._replace(
        leases=without(state.leases, node.id),
        acks=without(state.acks, node.id),
        members=without(state.members, node.id),
    )
    return leases_changed(state, (node.id,), broken)


def join(state: State) -> State:
    number = 1 + max((member.number for member, _ in state.leases), default=-1)
    later = state._replace(joined=state.joined + 1)
    return _enter(later, MemberId(number, f"joined{later.joined}"))


def drain(state: State, node: Node) -> State:
    return state._replace(members=put(state.members, node.id, True))


def _elections(state: State, _broken: str) -> Iterator[Step]:
    yield "another leads", elect(state)


def _joining(state: State, _broken: str) -> Iterator[Step]:
    yield "a member joins", join(state)


def _crashes(state: State, _broken: str) -> Iterator[Step]:
    for node in state.nodes:
        yield f"{node.id} crashes", drop_node(state, node)


def _leaving(state: State, broken: str) -> Iterator[Step]:
    for node in state.nodes:
        yield f"{node.id} leaves", leave(state, node, broken)


def _expiries(state: State, _broken: str) -> Iterator[Step]:
    for node in state.nodes:
        yield f"{node.id} loses its session", expire(state, node.id)


def _drains(state: State, _broken: str) -> Iterator[Step]:
    for node in state.nodes:
        if is_standing(state, node):
            yield f"{node.id} drains", drain(state, node)


FAULTS: dict[str, Fault] = {
    "election": _elections,
    "join": _joining,
    "crash": _crashes,
    "leave": _leaving,
    "expiry": _expiries,
    "drain": _drains,
}


# --- the real rules, the same question once -----------------------------------------------------


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


def forget_answers() -> None:
    """Ask the rules anew: one of them was changed."""
    forget_judgements()
    for function in (_view, _still_released, _open_slots):
        function.cache_clear()
