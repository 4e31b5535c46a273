"""Znodes that somebody else wrote: they are passed over, named, and end nobody."""

import pytest
from kazoo.security import make_digest_acl

from pyspider_zk.cluster.orders import ScaleNode
from pyspider_zk.cluster.records import Load
from pyspider_zk.cluster.tree import Tree
from pyspider_zk.config import Settings
from pyspider_zk.groups.ids import MemberId
from pyspider_zk.zookeeper.connection import Connection
from tests.support.connected import looking
from tests.support.crew import BareScheduler, Crew, expire, record
from tests.support.waiting import eventually

pytestmark = pytest.mark.zk

STRAY = ["members/note", "leases/note", "leases/-1-x", "acks/note", "election/note"]
JUNK_CHILDREN = ["components/processor/x", "members/7-stray"]
BAD_TABLES = [
    b"",
    b"junk",
    b"[" * 9999,
    b"\x78\x9c",
    b'{"epoch": 1, "members": [], "slots": [[-1, 0, -1]]}',
    b'{"epoch": -1, "members": [], "slots": %s}' % str([[-1, 0, -1]] * 12).encode(),
    b'{"epoch": 1, "members": [], "slots": %s}' % str([[0, 1, -1]] * 12).encode(),
]


def is_well(crew: Crew, *members: BareScheduler) -> None:
    crew.shared_by(*members)
    assert [member.failure for member in members] == [None] * len(members)


def killed(scheduler: BareScheduler) -> None:
    """Stop it dead; its session ends, its fences are shut by the clock alone."""
    scheduler.die()
    expire(scheduler.coordinator.connection)


def test_stray_and_unreadable_znodes_are_named_and_end_nobody(
    crew: Crew, connection: Connection, settings: Settings
):
    first, second = crew.start_and_share(2)
    root, tree = settings.root, Tree(settings.root)
    for path in STRAY:
        connection.create(f"{root}/{path}", b"\xff\xff")
    for path in JUNK_CHILDREN:
        connection.create(f"{root}/{path}", b'{"pid": "x"')
    for path in (tree.meta, tree.member(second.member), tree.ack(second.member)):
        connection.set(path, b"\x00junk")
    connection.set(tree.lease(first.member), b"junk")

    second.stop()

    is_well(crew, first)
    with looking(settings) as directory:
        told = directory.read().unreadable
    named = [*STRAY, *JUNK_CHILDREN]
    assert {path for path in named if f"{root}/{path}" in told} >= {
        path for path in named if not path.startswith(("leases/", "acks/"))
    }


@pytest.mark.parametrize("where", ["leases", "acks"])
def test_what_stands_below_a_leftover_of_the_dead_is_deleted_with_it(
    crew: Crew, connection: Connection, settings: Settings, where: str
):
    first, second = crew.start_and_share(2, mortal=[1])
    leftover = f"{settings.root}/{where}/{second.member}"
    connection.create(f"{leftover}/note/of somebody", b"x")

    killed(second)

    eventually(lambda: connection.find(leftover) is None, "the leftover is deleted")
    is_well(crew, first)


def test_what_may_not_be_looked_at_keeps_one_leftover_and_no_other(
    crew: Crew, connection: Connection, settings: Settings, caplog: pytest.LogCaptureFixture
):
    tree, left = Tree(settings.root), [MemberId(number, "gone") for number in (7, 8, 9)]
    for gone in left:
        connection.create(tree.lease(gone), Load(lease=1.0).encode())
    closed = f"{tree.lease(left[1])}/closed"
    connection._client.create(closed, acl=[make_digest_acl("they", "theirs", all=True)])
    alone = crew.start()  # a leader at rest would see for a minute no lease that others write

    eventually(
        lambda: connection.find_all([tree.lease(left[0]), tree.lease(left[2])]) == [None, None],
        "the others go",
    )
    below = f"{tree.lease(left[1])}/*"
    eventually(lambda: below in alone.coordinator.cluster().unreadable, "naming it")
    _, version = connection.get(tree.lease(alone.member))
    eventually(lambda: connection.get(tree.lease(alone.member))[1] > version + 5, "more turns")
    assert sum(f"{below} is passed over" in message for message in caplog.messages) == 1
    connection.delete(closed)
    eventually(lambda: connection.find(tree.lease(left[1])) is None, "the last leftover goes")
    eventually(lambda: below not in alone.coordinator.cluster().unreadable, "naming it no more")
    is_well(crew, alone)


def test_a_candidacy_that_somebody_made_is_deposed_with_what_stands_below(
    crew: Crew, connection: Connection, settings: Settings
):
    foreign = f"{settings.root}/election/{MemberId(7, 'gone')}-0000000000"
    connection.create(f"{foreign}/note", b"x")

    is_well(crew, *crew.start_and_share(2))

    assert connection.find(foreign) is None


@pytest.mark.parametrize(("of", "number"), [(0, 9), (1, 0)], ids=["later", "earlier"])
def test_a_second_candidacy_of_a_living_member_is_deleted_with_what_stands_below(
    crew: Crew, connection: Connection, settings: Settings, of: int, number: int
):
    members = crew.start_and_share(2)
    leaver = members.pop(of)
    foreign = f"{settings.root}/election/{leaver.member}-{number:010d}"
    connection.create(f"{foreign}/note", b"x")
    crew.shared_by(leaver, *members, crew.start("third"))  # nobody leads at rest

    leaver.stop()

    assert connection.find(foreign) is None
    eventually(lambda: crew.cluster().leader == members[0].member, "leading")


def test_a_number_is_taken_back_though_something_stands_below_its_registration(
    crew: Crew, connection: Connection, settings: Settings
):
    tree = Tree(settings.root)
    foreign = tree.member(MemberId(0, "gone"))
    connection.create(f"{tree.ids}/0", b"mine")
    connection.create(f"{foreign}/note", b"x")

    alone = crew.start("mine")

    is_well(crew, alone)
    assert alone.member.number == 0
    assert connection.find(foreign) is None


@pytest.mark.parametrize("returns_within", [0.0, 5.0])
@pytest.mark.parametrize("where", ["leases", "acks"])
def test_a_member_leaves_though_something_stands_below_its_znodes(
    crew: Crew, connection: Connection, settings: Settings, where: str, returns_within: float
):
    first, second = crew.start_and_share(2)
    left = second.member
    connection.create(f"{settings.root}/{where}/{left}/note", b"x")

    second.stop(returns_within)

    assert connection.find(Tree(settings.root).ack(left)) is None
    is_well(crew, first)


def test_what_was_stray_is_named_no_more_once_it_is_gone(crew: Crew, connection, settings):
    crew.start_and_share(1)
    connection.create(f"{settings.root}/election/note", b"")
    with looking(settings) as directory:
        assert list(directory.read().unreadable) == [f"{settings.root}/election/note"]

        connection.delete(f"{settings.root}/election/note")

        assert directory.read().unreadable == {}


@pytest.mark.parametrize("path", ["components/fetcher/junk", "members/7-gone"])
def test_a_record_that_cannot_be_read_is_named_no_more_once_it_is_gone(
    crew: Crew, connection: Connection, settings: Settings, path: str
):
    crew.start_and_share(1)
    connection.create(f"{settings.root}/{path}", b"junk")
    with looking(settings) as directory:
        assert list(directory.read().unreadable) == [f"{settings.root}/{path}"]

        connection.delete(f"{settings.root}/{path}")

        assert directory.read().unreadable == {}


def test_a_lease_that_cannot_be_read_is_named_no_more_once_its_member_is_gone(
    crew: Crew, connection: Connection, settings: Settings
):
    (alone,) = crew.start_and_share(1)
    alone.die()  # who leads would give the other slots
    tree, other = Tree(settings.root), MemberId(7, "gone")
    connection.create(tree.member(other), record().encode())
    connection.create(tree.lease(other), b"junk")
    with looking(settings) as directory:
        assert list(directory.read().unreadable) == [tree.lease(other)]

        connection.delete(tree.member(other))
        connection.delete(tree.lease(other))

        assert directory.read().unreadable == {}


def test_a_table_that_cannot_be_read_is_written_anew_as_it_was(crew: Crew, connection, settings):
    members = crew.start_and_share(2)
    before, path = crew.assignment(), Tree(settings.root).assignment

    for junk in BAD_TABLES:
        version = connection.set(path, junk)
        eventually(lambda version=version: connection.get(path)[1] > version, "writing anew")

    is_well(crew, *members)
    assert crew.table() == before.slots
    assert crew.assignment().epoch >= before.epoch + len(BAD_TABLES)


def test_pages_show_the_last_table_that_could_be_read(connection, settings: Settings, crew: Crew):
    (alone,) = crew.start_and_share(1)
    path = Tree(settings.root).assignment
    with looking(settings) as directory:
        before = directory.read().assignment
        alone.die()

        connection.set(path, b"junk")

        assert directory.read().assignment == before
        assert path in directory.read().unreadable


def test_a_table_that_nobody_remembers_is_written_anew_once_all_leases_ended(
    crew: Crew, connection, settings: Settings
):
    former = crew.start_and_share(2, mortal=[0, 1])
    highest = max(row.epoch for row in crew.table())
    for member in former:
        killed(member)
    connection.set(Tree(settings.root).assignment, b"junk")

    new = [crew.start("new"), crew.start("newer")]
    is_well(crew, *new)  # the crew finds fences that were open to former and new at once

    assert all(row.epoch > highest for row in crew.table())


def test_a_table_that_was_deleted_is_founded_anew_once_all_leases_ended(
    crew: Crew, connection, settings: Settings
):
    (former,) = crew.start_and_share(1, mortal=[0])
    killed(former)
    connection.delete(Tree(settings.root).assignment)

    new = crew.start("new")

    is_well(crew, new)


def test_a_table_that_was_deleted_before_any_member_could_read_it_is_founded_anew(
    crew: Crew, connection, settings: Settings
):
    former = crew.start("former", lease=5.0, hang=5.0)  # the next leader waits for its lease
    crew.shared_by(former)
    killed(former)
    path = Tree(settings.root).assignment
    connection.delete(path)
    new = crew.start("new")
    eventually(lambda: new.coordinator.vital_signs.failures, "it cannot renew by what it reads")

    connection.delete(path)

    is_well(crew, new)


def test_values_that_cannot_be_read_are_written_anew_by_who_can_prove_them(
    crew: Crew, connection, settings: Settings
):
    (alone,) = crew.start_and_share(1)
    path = Tree(settings.root).meta
    before = connection.get(path)[0]
    connection.set(path, b'{"slots": 99999999}')

    second = crew.start("second")

    is_well(crew, alone, second)
    assert connection.get(path)[0] == before


def test_a_number_of_schedulers_that_cannot_be_read_was_not_asked_for(settings, connection):
    tree = Tree(settings.root)
    node = ScaleNode(connection, tree)
    for junk in (b"many", b"-3", b"\xff", b"1e9999", b"99999", b"9" * 400):
        connection.ensure([tree.scale])
        connection.set(tree.scale, junk)
        assert node.get() is None
    node.set(3)
    assert node.get() == 3
