"""What a reader skips is told, and stays told until it can be read."""

import pytest

from pyspider_zk.cluster.reader import Reader
from pyspider_zk.cluster.records import LeaseTerms, Load
from pyspider_zk.cluster.tree import Tree
from pyspider_zk.groups.ids import MemberId
from pyspider_zk.zookeeper.unreadable import Unreadable

TREE = Tree("/crawl")
MEMBER = MemberId(0, "abc")


@pytest.mark.parametrize("junk", [b"", b"{", b'{"projects": "many"}', b'{"lease": "long"}'])
def test_a_lease_is_skipped_as_a_whole(junk: bytes) -> None:
    unreadable = Unreadable()
    reader = Reader(TREE, unreadable)

    assert reader.terms({MEMBER: (junk, 1)}) == {}
    assert list(unreadable.mapping()) == [TREE.lease(MEMBER)]

    assert reader.terms({MEMBER: (Load(lease=4.0).encode(), 2)}) == {MEMBER: LeaseTerms(4.0)}
    assert list(unreadable.mapping()) == []
