"""Reading the cluster, standing in it without owning, the scale node, and the ages of leases."""

import json
from collections.abc import Iterable
from dataclasses import replace

import pytest

from pyspider_zk.cluster import presence as presence_module
from pyspider_zk.cluster.coordinator import Coordinator
from pyspider_zk.cluster.directory import Directory, LeaseWatch
from pyspider_zk.cluster.orders import ScaleNode
from pyspider_zk.cluster.presence import Presence
from pyspider_zk.cluster.protocols import CLOSED
from pyspider_zk.cluster.records import (
    Assignment,
    Cluster,
    Component,
    ComponentKind,
    Load,
    Member,
    Meta,
)
from pyspider_zk.cluster.tree import Tree
from pyspider_zk.config import Settings
from pyspider_zk.errors import Mismatch, SessionLost
from pyspider_zk.groups.ids import MemberId
from pyspider_zk.zookeeper.connection import Connection
from tests.support.connected import looking
from tests.support.crew import Crew, expire
from tests.support.waiting import eventually

FETCHER = Component("host", 1, "0", 0.0, "127.0.0.1:24444")


@pytest.fixture
def directory(settings: Settings):
    with looking(settings) as directory:
        yield directory


def fetchers(directory: Directory) -> list[Component]:
    return list(directory.read().components[ComponentKind.FETCHER].values())


@pytest.mark.zk
def test_a_root_without_a_cluster_is_told(directory: Directory, settings: Settings):
    with pytest.raises(Mismatch, match=f"no cluster at {settings.root}"):
        directory.read()


@pytest.mark.zk
def test_a_cluster_of_another_protocol_is_told(connection, directory: Directory, settings):
    connection.create(f"{settings.root}/meta", Meta(12, protocol=99).encode())

    with pytest.raises(Mismatch, match="protocol 99"):
        directory.read()


@pytest.mark.zk
def test_the_whole_cluster_is_read(crew: Crew, directory: Directory):
    members = crew.start_and_share(2)

    eventually(lambda: len(directory.read().loads) == 2)
    told = json.loads(json.dumps(directory.read().as_dict()))

    assert told["leader"] == 0
    assert told["unserved_slots"] == 0
    assert [one["number"] for one in told["members"]] == [0, 1]
    assert [one["slots"] for one in told["members"]] == [6, 6]
    assert told["members"][1]["incarnation"] == members[1].member.incarnation
    eventually(lambda: directory.read().as_dict()["members"][0]["pending"] == 2)
    assert members[1].coordinator.cluster().assignment == directory.read().assignment


@pytest.mark.zk
def test_a_component_stands_while_its_block_runs(directory: Directory, settings: Settings):
    with Presence(settings, ComponentKind.FETCHER, FETCHER):
        assert fetchers(directory) == [FETCHER]

    eventually(lambda: fetchers(directory) == [])


@pytest.mark.zk
def test_presence_returns_after_an_expired_session(directory: Directory, settings: Settings):
    with Presence(settings, ComponentKind.FETCHER, FETCHER) as presence:
        session = presence.connection.session
        expire(presence.connection)
        eventually(lambda: presence.connection.session not in (None, session))
        eventually(lambda: fetchers(directory) == [FETCHER])


@pytest.mark.zk
def test_a_component_whose_node_was_deleted_returns(
    directory: Directory, settings: Settings, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(presence_module, "REPORTING", 0.05)
    tree = Tree(settings.root)
    with Presence(settings, ComponentKind.FETCHER, FETCHER) as presence:
        (name,) = directory.read().components[ComponentKind.FETCHER]
        presence.connection.delete(tree.component(ComponentKind.FETCHER, name))

        eventually(lambda: fetchers(directory) == [FETCHER])
        assert name not in directory.read().components[ComponentKind.FETCHER]


@pytest.mark.zk
@pytest.mark.parametrize("other", [Meta(12, CLOSED), Meta(24)], ids=["closed", "other slots"])
def test_a_component_does_not_return_to_a_cluster_that_it_may_not_join(
    connection: Connection, settings: Settings, caplog: pytest.LogCaptureFixture, other: Meta
):
    tree = Tree(settings.root)
    with Presence(settings, ComponentKind.FETCHER, FETCHER) as presence:
        connection.set(tree.meta, other.encode())
        expire(presence.connection)

        eventually(lambda: "presence is not registered, stop this process" in caplog.text)

        assert connection.children(f"{tree.components}/{ComponentKind.FETCHER}") == []


@pytest.mark.zk
def test_a_session_that_expires_while_founding_ends_no_scheduler(
    directory: Directory, settings: Settings, monkeypatch: pytest.MonkeyPatch
):
    record = Member("127.0.0.1:23333", "host", 1, "0", 0.0)
    founder = Coordinator(settings, record, dict, lambda: Load(1, 2))

    def expire_once(_paths: Iterable[str], _data: bytes = b"") -> None:
        monkeypatch.undo()
        raise SessionLost("the ZooKeeper session expired")

    monkeypatch.setattr(founder.connection, "ensure", expire_once)
    founder.start()
    try:
        eventually(lambda: founder.member)
        assert founder.member in directory.members()
    finally:
        founder.stop()


@pytest.mark.zk
def test_what_was_lost_before_is_told_for_a_while(directory: Directory, settings: Settings):
    with Presence(settings, ComponentKind.FETCHER, FETCHER) as presence:
        presence.tell_lost("a page", 3600)
        eventually(lambda: fetchers(directory) == [replace(FETCHER, lost="a page")])
        presence.tell_lost("a page", 0)
        eventually(lambda: fetchers(directory) == [FETCHER])


@pytest.mark.zk
def test_what_a_component_does_is_told_again_and_again(
    directory: Directory, settings: Settings, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(presence_module, "REPORTING", 0.05)
    does = {"oldest": "p:1", "under_way": 1}
    with Presence(settings, ComponentKind.FETCHER, FETCHER, lambda: does):
        eventually(lambda: fetchers(directory) == [replace(FETCHER, oldest="p:1", under_way=1)])
        does = {"memory": 2**20}
        eventually(lambda: fetchers(directory) == [replace(FETCHER, memory=2**20)])


@pytest.mark.zk
def test_the_directory_may_share_the_connection_of_a_presence(settings: Settings):
    with Presence(settings, ComponentKind.FETCHER, FETCHER) as presence:
        assert fetchers(Directory(settings, presence.connection)) == [FETCHER]


@pytest.mark.zk
def test_a_component_with_another_slot_count_is_refused(crew: Crew, settings: Settings):
    crew.start_and_share(1)

    with (
        pytest.raises(Mismatch, match=r"born with 12 slots.*has 99"),
        Presence(replace(settings, slots=99), ComponentKind.FETCHER, FETCHER),
    ):
        pass


@pytest.mark.zk
def test_a_member_with_another_slot_count_is_refused(crew: Crew, settings: Settings):
    (member,) = crew.start_and_share(1)
    other = Coordinator(replace(settings, slots=99), member.coordinator._record, dict, lambda: None)

    with pytest.raises(Mismatch, match=r"born with 12 slots.*has 99"):
        other.start()
    other.stop()


@pytest.mark.zk
def test_the_scale_is_what_was_asked_for_last(settings: Settings, connection: Connection):
    node = ScaleNode(connection, Tree(settings.root))

    assert node.get() is None
    node.set(5)
    node.set(2)
    assert node.get() == 2


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
