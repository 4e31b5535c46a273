"""The meta record: what a cluster is created with, and the protocol, which orders only raise."""

from dataclasses import replace

import pytest
from kazoo.security import OPEN_ACL_UNSAFE, make_acl

from pyspider_zk.cluster.event_log import EventLog
from pyspider_zk.cluster.meta import close_cluster, ensure_cluster, ensure_meta, raise_protocol
from pyspider_zk.cluster.presence import Presence
from pyspider_zk.cluster.protocols import CLOSED, Protocols
from pyspider_zk.cluster.reader import ProtocolWatch
from pyspider_zk.cluster.records import Assignment, Component, ComponentKind, Meta
from pyspider_zk.cluster.tree import Tree
from pyspider_zk.config import Settings
from pyspider_zk.errors import Conflict, Mismatch
from pyspider_zk.zookeeper.connection import Connection
from tests.support.crew import BareScheduler, Crew, expire
from tests.support.waiting import eventually

pytestmark = pytest.mark.zk


def test_a_new_cluster_counts_epochs_from_the_time(
    connection: Connection, settings: Settings
) -> None:
    tree, meta = Tree(settings.root), Meta(settings.slots)
    ensure_cluster(connection, tree, meta, lambda: 1_800_000_000.9)
    ensure_cluster(connection, tree, meta, lambda: 1_900_000_000.0)

    data, _ = connection.get(tree.assignment)
    assert {row.epoch for row in Assignment.decode(data).slots} == {1_800_000_000}


OLD, NEW = (1, 1), (1, 2)


@pytest.fixture
def tree(settings: Settings) -> Tree:
    return Tree(settings.root)


@pytest.fixture
def newer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process speak protocols 1 and 2."""
    monkeypatch.setattr("pyspider_zk.cluster.meta.HIGHEST", 2)
    for reader in ("records", "reader"):
        monkeypatch.setattr(f"pyspider_zk.cluster.{reader}.SPOKEN", NEW)


def joined(crew: Crew, name: str, spoken: Protocols) -> BareScheduler:
    made = crew.make(name)
    made.coordinator._record = replace(made.coordinator._record, protocols=spoken)
    return made.start()


def component(settings: Settings, spoken: Protocols) -> Presence:
    record = Component("host", 1, "0", 0.0, protocols=spoken)
    return Presence(settings, ComponentKind.FETCHER, record)


def in_use(connection: Connection, tree: Tree) -> int:
    return Meta.decode(connection.get(tree.meta)[0]).protocol


@pytest.mark.usefixtures("newer")
def test_it_is_raised_once_all_speak_a_higher_one(crew: Crew, connection, tree) -> None:
    old, new = joined(crew, "old", OLD), joined(crew, "new", NEW)
    crew.shared_by(old, new)
    with pytest.raises(Conflict, match="1 do not speak it, such as member 0-"):
        raise_protocol(connection, tree, "me")
    assert in_use(connection, tree) == 1

    old.stop()
    crew.shared_by(new)
    table = crew.table()

    assert raise_protocol(connection, tree, "me") == (1, 2)
    assert in_use(connection, tree) == 2
    eventually(lambda: new.coordinator.protocol == 2, "the member goes by it")
    assert crew.table() == table
    (event,) = (e for _, e in EventLog(connection, tree).read(limit=99) if e.kind == "upgrade")
    assert (event.text, event.who) == ("the protocol was raised from 1 to 2", "me")
    assert raise_protocol(connection, tree, "me") == (2, 2)


@pytest.mark.usefixtures("newer")
@pytest.mark.parametrize("junk", [None, b"junk"])
def test_a_component_holds_it_back_too(crew: Crew, connection, tree, settings, junk) -> None:
    new = joined(crew, "new", NEW)
    crew.shared_by(new)
    with component(settings, OLD if junk is None else NEW):
        (name,) = connection.children(f"{tree.components}/fetcher")
        if junk is not None:
            connection.set(tree.component("fetcher", name), junk)
        with pytest.raises(Conflict, match=f"such as fetcher {name}"):
            raise_protocol(connection, tree, "me")

    assert in_use(connection, tree) == 1


@pytest.mark.usefixtures("newer")
def test_who_runs_goes_by_what_was_raised(crew: Crew, connection, tree, settings) -> None:
    new = joined(crew, "new", NEW)
    crew.shared_by(new)
    with component(settings, NEW) as present:
        assert present.protocol == 1

        raise_protocol(connection, tree, "me")

        eventually(lambda: present.protocol == 2)


def test_who_does_not_speak_it_is_refused(crew: Crew, connection, tree, settings) -> None:
    crew.shared_by(joined(crew, "one", OLD))
    connection.set(tree.meta, Meta(settings.slots, 2).encode())

    with pytest.raises(Mismatch, match="it is too old"):
        ensure_meta(connection, tree, Meta(settings.slots))
    with pytest.raises(Mismatch, match="it is too old"):
        component(settings, OLD).__enter__()
    assert in_use(connection, tree) == 2


def test_a_member_that_does_not_speak_it_any_more_ends(crew: Crew, connection, tree, settings):
    """As one that was away while the protocol was raised, and joined just before."""
    one = joined(crew, "one", OLD)
    crew.shared_by(one)

    connection.set(tree.meta, Meta(settings.slots, 2).encode())

    eventually(lambda: one.failure)
    assert isinstance(one.failure.__cause__, Mismatch)
    assert one.owned == {}


@pytest.mark.parametrize("junk", [b"", b"junk", b'{"slots": 0}', b'{"slots": 12, "protocol": 0}'])
def test_junk_in_the_meta_record_ends_nobody(crew: Crew, connection, tree, junk) -> None:
    one = joined(crew, "one", OLD)
    crew.shared_by(one)
    until = one.coordinator.view.lease_until

    connection.set(tree.meta, junk)

    eventually(lambda: one.coordinator.view.lease_until > until + 1, "renewals")
    assert one.coordinator.protocol == 1
    with pytest.raises(Conflict):
        raise_protocol(connection, tree, "me")


def test_a_meta_record_that_others_locked_changes_nothing(connection, tree, settings) -> None:
    ensure_cluster(connection, tree, Meta(settings.slots))
    watch = ProtocolWatch(connection, tree, lambda _: None)
    connection._client.set_acls(tree.meta, [make_acl("world", "anyone", admin=True)])

    watch.refresh()

    assert watch.current == 1
    connection._client.set_acls(tree.meta, OPEN_ACL_UNSAFE)


@pytest.mark.usefixtures("newer")
@pytest.mark.parametrize(("spoken", "after"), [(OLD, 1), (NEW, 2)])
def test_a_damaged_record_is_made_anew_with_what_all_speak(
    crew: Crew, connection, tree, settings, spoken, after
) -> None:
    """Nobody knows what was in use; a lower one would let in who cannot read what was written."""
    crew.shared_by(joined(crew, "one", spoken))
    connection.set(tree.meta, b"junk")

    ensure_cluster(connection, tree, Meta(settings.slots, 2))

    assert Meta.decode(connection.get(tree.meta)[0]) == Meta(settings.slots, after)


@pytest.mark.usefixtures("newer")
@pytest.mark.parametrize(("spoken", "after"), [(OLD, 1), (NEW, 2)])
def test_a_record_that_was_deleted_is_made_anew_with_what_all_speak(
    crew: Crew, connection, tree, settings, spoken, after
) -> None:
    crew.shared_by(joined(crew, "one", spoken))
    connection.delete(tree.meta)

    ensure_meta(connection, tree, Meta(settings.slots, 2))

    assert Meta.decode(connection.get(tree.meta)[0]) == Meta(settings.slots, after)


def test_a_record_that_was_deleted_is_made_anew_by_nobody_with_other_slots(
    crew: Crew, connection, tree, settings
) -> None:
    (one,) = crew.start_and_share(1)
    connection.delete(tree.meta)

    with pytest.raises(Mismatch, match=r"born with 12 slots.*has 24"):
        component(replace(settings, slots=24), OLD).__enter__()
    with pytest.raises(Mismatch, match=r"born with 12 slots.*has 24"):
        crew.start("other", slots=24)
    expire(one.coordinator.connection)
    eventually(lambda: connection.find(tree.meta), "the record is made anew")

    crew.shared_by(one)
    assert Meta.decode(connection.get(tree.meta)[0]) == Meta(settings.slots)


@pytest.mark.parametrize("junk", [b"", b"junk", b'{"epoch": 1, "members": [], "slots": []}'])
def test_a_record_that_was_deleted_is_made_anew_where_nothing_tells_the_slots(
    connection, tree, settings, junk
) -> None:
    ensure_cluster(connection, tree, Meta(settings.slots))
    connection.set(tree.assignment, junk)
    connection.delete(tree.meta)

    ensure_meta(connection, tree, Meta(settings.slots))

    assert Meta.decode(connection.get(tree.meta)[0]) == Meta(settings.slots)


@pytest.fixture
def founded(connection: Connection, tree: Tree, settings: Settings) -> None:
    ensure_cluster(connection, tree, Meta(settings.slots))
    connection.set(tree.meta, Meta(settings.slots, 2).encode())


@pytest.mark.usefixtures("founded")
def test_a_closed_cluster_remembers_its_protocol(connection, tree, settings) -> None:
    for _ in range(2):  # as often as it is closed
        close_cluster(connection, tree)

    closed = Meta.decode(connection.get(tree.meta)[0])
    assert closed == Meta(settings.slots, CLOSED, reopens=2)
