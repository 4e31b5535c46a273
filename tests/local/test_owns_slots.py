from pyspider_zk.cluster.records import Assignment, Cluster, Member, Meta, Slot
from pyspider_zk.demo.demo import owns_slots
from pyspider_zk.groups.ids import MemberId

DEAD, HEIR = MemberId(0, "dead"), MemberId(1, "heir")
NODE = Member("127.0.0.1:1", "here", 1, "0", started=0.0)


def test_a_dead_member_whose_node_still_stands_may_own_nothing():
    before = Cluster(Meta(2), Assignment(1, (Slot(DEAD, 1), Slot(HEIR, 1))), members={DEAD: NODE})
    after = Cluster(Meta(2), Assignment(2, (Slot(HEIR, 2), Slot(HEIR, 1))), members={DEAD: NODE})

    assert owns_slots(before, DEAD)
    assert not owns_slots(after, DEAD)
