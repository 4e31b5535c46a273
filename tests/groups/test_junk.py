"""What anybody may put below the root of groups, numbers, locks and barriers holds nobody up."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from pyspider_zk.config import Settings
from pyspider_zk.errors import Mismatch
from pyspider_zk.groups.group import HOLDER
from pyspider_zk.groups.id_allocator import IdAllocator
from pyspider_zk.groups.ids import MemberId
from pyspider_zk.groups.locks import Lock
from pyspider_zk.zookeeper.connection import Connection
from pyspider_zk.zookeeper.waiting import Errands
from tests.groups.test_barriers import BarrierWaiter, barrier
from tests.support.crew import Crew
from tests.support.waiting import eventually
from tests.support.zk_faults import Places

pytestmark = pytest.mark.zk

JUNK = ("note", "-1", "1e3", "007", "9" * 100, "\u0663", "1-", "-a", " 2-a", "x-y-z")


@pytest.fixture
def places(settings: Settings) -> Iterator[Places]:
    with ExitStack() as stack:
        yield Places(settings, stack)


def litter(connection: Connection, path: str) -> set[str]:
    paths = {f"{path}/{name}" for name in JUNK}
    for one in paths:
        connection.create(one, b"\xff\x00 junk")
    return paths


def test_junk_below_the_numbers_keeps_no_scheduler_from_joining(crew: Crew, connection):
    first = crew.start("a")
    junk = litter(connection, f"{crew.settings.root}/ids")

    second = crew.start("b")

    assert [first.member.number, second.member.number] == [0, 1]
    assert set(second.coordinator.connection.unreadable.mapping()) >= junk


def test_a_number_whose_name_cannot_be_read_is_nobodys(connection, zk_root: str):
    connection.create(f"{zk_root}/ids/0", b"\xff\xfe")
    id_allocator = IdAllocator(connection, f"{zk_root}/ids", f"{zk_root}/members")

    assert id_allocator.holders() == {0: ""}
    assert list(connection.unreadable.mapping()) == [f"{zk_root}/ids/0"]


def test_junk_below_the_members_is_nobody_and_said_once(connection, zk_root: str, caplog):
    litter(connection, f"{zk_root}/members")
    connection.create(f"{zk_root}/members/3-abc")
    id_allocator = IdAllocator(connection, f"{zk_root}/ids", f"{zk_root}/members")

    assert [id_allocator.running(), id_allocator.running()] == [[MemberId(3, "abc")]] * 2
    told = [one.getMessage() for one in caplog.records]
    assert len(told) == len(set(told)) == len(JUNK)


def test_a_group_goes_on_among_junk(places: Places):
    first, second = places.join("a", "b")
    home = first.group.home
    for path in (home.members, home.ids, home.joined):
        litter(first.connection, path)
    first.connection.set(home.joiner("b"), b"junk")
    second.vanish()
    again = places.make("b")

    assert again.join() == 1
    assert [one.name for one in again.group.running()] == ["a", "b"]
    assert [one.name for one in first.group.joined()] == ["a", "b"]


@pytest.mark.parametrize("junk", [b"junk", b'{"run":"","home":"../../.."}'])
def test_a_holder_that_cannot_be_read_is_named_with_the_remedy(places: Places, junk: bytes):
    (first,) = places.join("a")
    holder = f"{first.group._path}/{HOLDER}"
    first.connection.set(holder, junk)

    with pytest.raises(Mismatch, match=f"{holder} cannot be read.*delete it"):
        places.make("b").join()


def test_junk_in_line_holds_no_lock_up(connection, zk_root: str):
    path = f"{zk_root}/locks/one"
    litter(connection, path)
    errands = Errands()
    errands.start()

    with Lock(connection, errands, path, timeout=30) as lock:
        lock.check()

    errands.stop()
    assert len(connection.children(path)) == len(JUNK)


def test_arrivals_that_cannot_be_read_are_written_anew(
    places: Places, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("pyspider_zk.zookeeper.waiting.LOOK", 0.1)
    a, b = places.join("a", "b")
    first = BarrierWaiter(barrier(a, 2))
    point = barrier(b, 2)
    eventually(lambda: point._arrivals()[0].names)
    b.connection.set(point._arrived, b"junk")

    second = BarrierWaiter(point)

    assert [first.result(), second.result()] == [0, 0]


def test_a_fence_that_cannot_be_read_is_named_with_the_remedy(places: Places):
    (a,) = places.join("a")
    assert barrier(a, 1).wait(60) == 0
    path = barrier(a, 1)._path
    a.connection.set(path, b'{"parties":[]}')

    with pytest.raises(Mismatch, match=f"{path} cannot be read.*delete it"):
        barrier(a, 1).wait(60)
