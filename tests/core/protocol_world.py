"""A small world in memory that runs the real rules: members, leaders, clocks, lost replies.

Every method of ``World`` listed in ``moves()`` is one atomic step of one party, so whoever picks
the steps explores the interleavings: here a seeded random walk. ``broken`` names rules that the
world leaves out, to show that the invariants notice.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random

from pyspider_zk.core.ownership import (
    NOTHING,
    Rules,
    Snapshot,
    Stamp,
    View,
    decide,
    observe,
    still_released,
    view_of,
)
from pyspider_zk.core.records import Assignment, Member, MemberId

RULES = Rules(lease=4.0, drift=0.01, margin=0.01)
RECORD = Member("127.0.0.1:1", "host", 1, "0", 0.0)
Move = Callable[[], None]


@dataclass
class Node:
    """A member process. ``version`` is the one of its cached assignment."""

    id: MemberId
    rate: float
    table: Assignment
    version: int
    view: View = NOTHING
    released: dict[int, int] = field(default_factory=dict)
    request: tuple[float, int] | None = None  # a renewal under way: sent when, cached version
    reply: tuple[float, bool] | None = None  # its answer under way: sent when, granted

    def show(self) -> None:
        self.released = still_released(self.table, self.id, self.released)
        self.view = view_of(self.table, self.id, self.released, self.view.lease_until)


@dataclass
class Leader:
    """A process that believes it leads; there may be several."""

    rate: float
    stamps: dict[MemberId, Stamp] = field(default_factory=dict)
    table: int | None = None  # the version of the assignment that this look began with
    versions: dict[MemberId, int] | None = None
    snapshot: tuple[Snapshot, int] | None = None


class World:
    def __init__(
        self, random: Random, slots: int = 3, broken: frozenset[str] = frozenset()
    ) -> None:
        self.random = random
        self.broken = broken
        self.now = 0.0
        self.tables = [Assignment.vacant(slots)]
        self.leases: dict[MemberId, int] = {}
        self.ephemerals: dict[MemberId, Member] = {}
        self.acks: dict[MemberId, dict[int, int]] = {}
        self.nodes: list[Node] = []
        self.leaders = [Leader(1.0)]
        self.born = 0
        self.grants = 0

    def moves(self) -> Iterator[Move]:
        """Yield every step that is possible now."""
        yield self.let_time_pass
        if len(self.nodes) < 2 and self.born < 8:
            yield self.join
        if self.random.random() < 0.02:
            yield self.elect
        for leader in self.leaders:
            yield lambda leader=leader: self.look_at_the_table(leader)
            if leader.table is not None:
                yield lambda leader=leader: self.look_at_leases(leader)
            if leader.versions is not None:
                yield lambda leader=leader: self.look_at_the_rest(leader)
            if leader.snapshot:
                yield lambda leader=leader: self.write(leader)
            yield lambda leader=leader: self.lead(leader)
        for node in self.nodes:
            yield from self._moves_of(node)

    def _moves_of(self, node: Node) -> Iterator[Move]:
        yield lambda: self.read(node)
        yield lambda: self.release(node)
        yield lambda: self.acknowledge(node)
        if node.request is None and node.reply is None:
            yield lambda: self.send(node)
            yield lambda: self.renew(node)
        if node.request is not None:
            yield lambda: self.serve(node)
        if node.reply is not None:
            yield lambda: self.receive(node)
            yield lambda: self.lose_reply(node)
        if self.random.random() < 0.005:
            yield self.random.choice(
                [lambda: self.crash(node), lambda: self.leave(node), lambda: self.expire(node)]
            )

    def let_time_pass(self) -> None:
        self.now += self.random.choice([0.1, 0.1, 0.1, 0.1, 0.1, 1.0, 1.0, 3.0])

    def join(self) -> None:
        member = MemberId(self.born % 3, f"life{self.born}")
        self.born += 1
        self.leases[member], self.ephemerals[member], self.acks[member] = 0, RECORD, {}
        rate = self.random.choice([1.0, 0.995])
        self.nodes.append(Node(member, rate, self.tables[-1], len(self.tables) - 1))

    def renew(self, node: Node) -> None:
        """Renew without anybody in between, so that walks get somewhere."""
        for step in (self.send, self.serve, self.receive):
            step(node)

    def lead(self, leader: Leader) -> None:
        """Lead without anybody in between, so that walks get somewhere."""
        for step in (self.look_at_the_table, self.look_at_leases, self.look_at_the_rest):
            step(leader)
        self.write(leader)

    def read(self, node: Node) -> None:
        """Read the assignment from a server that may lag, but never behind what was read."""
        node.version = self.random.randint(node.version, len(self.tables) - 1)
        node.table = self.tables[node.version]
        node.show()

    def send(self, node: Node) -> None:
        node.request = (self.clock(node), node.version)

    def serve(self, node: Node) -> None:
        assert node.request is not None
        sent, version = node.request
        current = version == len(self.tables) - 1 or "no check of the assignment" in self.broken
        granted = node.id in self.ephemerals and current
        if granted:
            self.leases[node.id] += 1
        node.request, node.reply = None, (sent, granted)

    def receive(self, node: Node) -> None:
        assert node.reply is not None
        sent, granted = node.reply
        node.reply = None
        if granted:
            if "lease from the reply" in self.broken:
                sent = self.clock(node)
            node.view = node.view.renewed(sent + RULES.lease)
        elif node.id not in self.ephemerals:
            node.view = NOTHING
            self.nodes.remove(node)

    def lose_reply(self, node: Node) -> None:
        node.reply = None

    def release(self, node: Node) -> None:
        if "ack before release" not in self.broken:
            node.released.update(node.view.releasing)
            node.show()

    def acknowledge(self, node: Node) -> None:
        if node.id in self.acks:
            early = node.view.releasing if "ack before release" in self.broken else {}
            self.acks[node.id] = {**node.released, **early}

    def crash(self, node: Node) -> None:
        self.nodes.remove(node)

    def leave(self, node: Node) -> None:
        self.crash(node)
        self.leases.pop(node.id, None)
        self.ephemerals.pop(node.id, None)

    def expire(self, node: Node) -> None:
        """End the session; the node itself will learn it later."""
        self.ephemerals.pop(node.id, None)

    def elect(self) -> None:
        """Another leader, with empty hands; the one before may still finish what it does."""
        self.leaders = [*self.leaders[-1:], Leader(self.random.choice([1.0, 1.004]))]

    def look_at_the_table(self, leader: Leader) -> None:
        leader.table, leader.versions, leader.snapshot = len(self.tables) - 1, None, None

    def look_at_leases(self, leader: Leader) -> None:
        leader.versions = dict(self.leases)

    def look_at_the_rest(self, leader: Leader) -> None:
        assert leader.table is not None
        assert leader.versions is not None
        now = self.now * leader.rate
        leader.stamps = observe(leader.stamps, leader.versions, now)
        snapshot = Snapshot(
            self.tables[leader.table],
            dict(self.ephemerals),
            leader.stamps,
            {member: dict(acks) for member, acks in self.acks.items()},
            {slot: self.random.choice([1, 9]) for slot in range(len(self.tables[0].slots))},
            now,
        )
        leader.snapshot = snapshot, leader.table
        leader.table = leader.versions = None

    def write(self, leader: Leader) -> None:
        assert leader.snapshot is not None
        (snapshot, version), leader.snapshot = leader.snapshot, None
        decision = decide(snapshot, RULES)
        if decision is None or version != len(self.tables) - 1:
            return
        unchanged = all(
            self.leases.get(member) == lease for member, lease in decision.checks.items()
        )
        if unchanged or "no check of the lease" in self.broken:
            self.tables.append(decision.assignment)
            self.grants += 1

    def clock(self, node: Node) -> float:
        return self.now * node.rate

    def check(self) -> None:
        """At most one gate per slot is open; epochs only grow."""
        for slot in range(len(self.tables[-1].slots)):
            holders = [node.id for node in self.nodes if self.is_open(node, slot)]
            assert len(holders) <= 1, f"slot {slot} is open to {holders}"
        for before, after in pairwise(self.tables[-2:]):
            for old, new in zip(before.slots, after.slots, strict=True):
                assert new.epoch - old.epoch in ({1} if old.owner != new.owner else {0, 1})

    def is_open(self, node: Node, slot: int) -> bool:
        epoch = node.view.owned.get(slot, node.view.releasing.get(slot, -1))
        return node.view.open(slot, epoch, self.clock(node))


def walk(seed: int, steps: int = 500, broken: frozenset[str] = frozenset()) -> World:
    """Take random steps, checking the invariants after each."""
    world = World(Random(seed), broken=broken)  # noqa: S311 - a walk that can be repeated
    for _ in range(steps):
        world.random.choice(list(world.moves()))()
        world.check()
    return world
