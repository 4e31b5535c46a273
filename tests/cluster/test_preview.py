"""What would move."""

from collections import Counter

from pyspider_zk.cluster.rebalancing import NEWCOMER, preview
from pyspider_zk.cluster.records import Assignment, Cluster, Member, Meta, Slot
from pyspider_zk.groups.ids import MemberId

A, B = MemberId(0, "a"), MemberId(1, "b")
RECORD = Member("h:1", "h", 1, "v", 0.0)


def cluster(owners: str, next_owners: str = "") -> Cluster:
    """Return a cluster with one letter per slot, and who is to get the slot."""
    known = {"a": A, "b": B, ".": None}
    nexts = next_owners or "." * len(owners)
    rows = tuple(Slot(known[o], 1, known[n]) for o, n in zip(owners, nexts, strict=True))
    members = dict.fromkeys((A, B), RECORD)
    return Cluster(Meta(len(rows)), Assignment(1, rows), members=members)


def test_without_a_change_nothing_would_move():
    assert preview(cluster("a" * 64 + "b" * 64), {}) == []


def test_all_slots_of_one_that_leaves_would_move():
    before = cluster("a" * 100 + "b" * 100)
    moves = preview(before, {3: 5}, leaves=[0])
    assert [(move.slot, move.source, move.target) for move in moves] == [
        (slot, A, B) for slot in range(100)
    ]


def test_one_that_joins_would_get_its_share_of_each():
    moves = preview(cluster("a" * 150 + "b" * 150), {}, joins=1)
    assert {move.target for move in moves} == {MemberId(2, NEWCOMER)}
    shares = Counter(move.source for move in moves)
    assert all(45 <= shares[member] <= 55 for member in (A, B))


def test_what_moves_already_counts_as_arrived():
    before = cluster("aaaa" + "aabb", "...." + "bb..")
    assert preview(before, {}) == []
    moves = preview(before, {}, leaves=[1])
    assert [tuple(move) for move in moves] == [(slot, B, A) for slot in (4, 5, 6, 7)]


def test_if_the_last_one_leaves_nothing_can_move():
    alone = Cluster(Meta(2), Assignment(1, (Slot(A, 1),) * 2), members={A: RECORD})
    assert preview(alone, {}, leaves=[0]) == []
