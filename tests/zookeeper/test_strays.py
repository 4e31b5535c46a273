"""What somebody put below a znode of ours is deleted with it, and nothing else is."""

import pytest

from pyspider_zk.zookeeper.connection import Connection
from pyspider_zk.zookeeper.errors import BadVersionError
from pyspider_zk.zookeeper.steps import Check, Delete
from pyspider_zk.zookeeper.strays import AT_ONCE, do_despite_strays

pytestmark = pytest.mark.zk


def test_a_znode_goes_with_all_that_stands_below_it(connection: Connection, zk_root: str):
    connection.create(f"{zk_root}/ours/a/b/c")
    connection.create(f"{zk_root}/ours/d")
    connection.create(f"{zk_root}/other/e")

    do_despite_strays(connection, Check(f"{zk_root}/other"), Delete(f"{zk_root}/ours"))

    assert connection.children(zk_root) == ["other"]
    assert connection.children(f"{zk_root}/other") == ["e"]


def test_there_may_be_many_of_them(connection: Connection, zk_root: str):
    for number in range(AT_ONCE + 5):
        connection.create(f"{zk_root}/ours/{number}")

    do_despite_strays(connection, Delete(f"{zk_root}/ours"))

    assert connection.children(zk_root) == []


def test_what_was_decided_on_an_older_state_is_refused_and_deletes_nothing(
    connection: Connection, zk_root: str
):
    connection.create(f"{zk_root}/ours/a")

    with pytest.raises(BadVersionError):
        do_despite_strays(connection, Delete(f"{zk_root}/ours", version=7))

    assert connection.children(f"{zk_root}/ours") == ["a"]
