"""An ephemeral znode stands once in each session, whatever replies get lost."""

from collections.abc import Iterator

import pytest

from pyspider_zk.config import Settings
from pyspider_zk.errors import SessionLost, Unavailable
from pyspider_zk.zookeeper.ephemeral import Ephemeral, Tenure, begin
from tests.support.crew import expire
from tests.support.waiting import eventually
from tests.support.zk_faults import Lossy

pytestmark = pytest.mark.zk


@pytest.fixture
def link(settings: Settings) -> Iterator[Lossy]:
    link = Lossy(settings)
    link.start()
    yield link
    link.stop()


@pytest.fixture
def node(link: Lossy, zk_root: str) -> Ephemeral:
    return Ephemeral(link, f"{zk_root}/here", b"data")


def test_it_stands_once_however_often_it_is_asked_for(link: Lossy, node: Ephemeral, zk_root: str):
    path = node.stand()

    assert node.stand() == path
    assert link.get(path)[0] == b"data"
    node.leave()
    assert link.children(f"{zk_root}/here") == []


def test_it_can_say_something_else(link: Lossy, node: Ephemeral):
    path = node.stand()
    node.say(b"other data")

    assert node.stand() == path
    assert link.get(path)[0] == b"other data"


def test_a_lost_reply_makes_no_second_one(link: Lossy, node: Ephemeral, zk_root: str, monkeypatch):
    create = link.create

    def lose(*args: object, **options: object) -> None:
        monkeypatch.undo()
        create(*args, **options)
        raise Unavailable("the reply is lost")

    monkeypatch.setattr(link, "create", lose)
    with pytest.raises(Unavailable):
        node.stand()

    path = node.stand()

    assert [f"{zk_root}/here/{name}" for name in link.children(f"{zk_root}/here")] == [path]


def test_another_session_makes_another_one(link: Lossy, node: Ephemeral, zk_root: str):
    first, session = node.stand(), link.session
    expire(link)
    eventually(lambda: link.session not in (None, session))

    second = node.stand()

    assert second != first
    assert [f"{zk_root}/here/{name}" for name in link.children(f"{zk_root}/here")] == [second]


def test_one_that_somebody_deleted_is_followed_by_another(
    link: Lossy, node: Ephemeral, zk_root: str
):
    first = node.stand()
    link.delete(first)

    second = node.stand()

    assert second != first
    assert [f"{zk_root}/here/{name}" for name in link.children(f"{zk_root}/here")] == [second]


@pytest.fixture
def node_left(link: Lossy, node: Ephemeral, monkeypatch) -> Ephemeral:
    """Give one that was left, while ZooKeeper did not answer."""

    def lose(_path: str) -> None:
        monkeypatch.undo()
        raise Unavailable("nobody answers")

    node.stand()
    monkeypatch.setattr(link, "delete", lose)
    with pytest.raises(Unavailable):
        node.leave()
    return node


def test_one_that_could_not_leave_leaves_later(link: Lossy, node_left: Ephemeral, zk_root: str):
    assert len(link.children(f"{zk_root}/here")) == 1

    node_left.leave()

    assert link.children(f"{zk_root}/here") == []


def test_one_that_could_not_leave_leaves_before_it_stands_again(
    link: Lossy, node_left: Ephemeral, zk_root: str
):
    path = node_left.stand()

    assert [f"{zk_root}/here/{name}" for name in link.children(f"{zk_root}/here")] == [path]


def test_what_came_to_stand_in_the_next_session_is_deleted(link: Lossy, zk_root: str):
    tenure = Tenure(link, -1)
    path = link.create(f"{zk_root}/here/ghost", ephemeral=True)

    with pytest.raises(SessionLost):
        tenure.settle(path)

    assert link.children(f"{zk_root}/here") == []


def test_a_session_that_ended_is_lost_for_ever(link: Lossy):
    tenure, session = begin(link), link.session
    assert not tenure.lost

    expire(link)
    eventually(lambda: link.session not in (None, session))

    assert tenure.lost
