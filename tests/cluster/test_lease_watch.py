"""How old leases are, as a reader sees them."""

from dataclasses import replace

from pyspider_zk.cluster.directory import LeaseWatch
from pyspider_zk.cluster.records import Assignment, Cluster, Meta
from pyspider_zk.groups.ids import MemberId

A, B = MemberId(0, "a"), MemberId(1, "b")
CLUSTER = Cluster(Meta(1), Assignment.vacant(1))


def test_an_age_counts_from_when_a_renewal_was_first_seen() -> None:
    now = [50.0]
    watch = LeaseWatch(lambda: now[0])
    assert watch.ages(replace(CLUSTER, renewals={A: 7, B: 7})) == {A: 0.0, B: 0.0}
    now[0] += 3
    assert watch.ages(replace(CLUSTER, renewals={A: 8, B: 7})) == {A: 0.0, B: 3.0}
    now[0] += 1
    assert watch.ages(replace(CLUSTER, renewals={B: 7})) == {B: 4.0}
