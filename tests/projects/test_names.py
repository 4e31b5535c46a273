"""Names that several processes must agree on."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspider_zk.cluster.tree import Tree
from pyspider_zk.errors import BadMessage
from pyspider_zk.projects.names import check_project_name
from pyspider_zk.queues.names import QueueKind, slot_queue

legal = st.text(string.ascii_letters + string.digits + "_", min_size=1, max_size=64)


@given(legal)
def test_any_legal_name_is_returned_as_it_is(name):
    assert check_project_name(name) == name


@given(st.text().filter(lambda text: not text or any(not c.isalnum() and c != "_" for c in text)))
def test_a_name_with_any_other_character_is_refused(name):
    with pytest.raises(BadMessage, match="is not allowed"):
        check_project_name(name)


@pytest.mark.parametrize("name", [None, 1, b"demo", "demo\n", "", "a b", "a:b", "a/b", "a" * 65])
def test_what_is_no_name_is_refused_and_shown(name):
    with pytest.raises(BadMessage) as refusal:
        check_project_name(name)

    assert repr(name) in str(refusal.value)


def test_slot_queues_are_named_after_pyspiders_queue_and_the_slot():
    assert slot_queue(QueueKind.NEWTASK, 7) == "newtask_queue:7"
    assert slot_queue(QueueKind.STATUS, 0) == "status_queue:0"


def test_every_node_stands_below_the_root():
    tree = Tree("/a/b")
    paths = [
        tree.meta,
        tree.ids,
        tree.members,
        tree.member("3-x"),
        tree.leases,
        tree.lease("3-x"),
        tree.acks,
        tree.ack("3-x"),
        tree.election,
        tree.assignment,
        tree.components,
        tree.component("fetcher", "f"),
        tree.scale,
        tree.jobs,
        tree.events,
    ]

    assert all(path.startswith("/a/b/") for path in paths)
    assert len(set(paths)) == len(paths)


def test_the_tree_has_the_documented_names():
    tree = Tree()

    assert tree.member("3-x") == "/pyspider-zk/members/3-x"
    assert tree.lease("3-x") == "/pyspider-zk/leases/3-x"
    assert tree.ack("3-x") == "/pyspider-zk/acks/3-x"
    assert tree.component("fetcher", "f") == "/pyspider-zk/components/fetcher/f"
