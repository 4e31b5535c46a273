"""What happens to a session is told, in order, on a thread that may block."""

import queue
import threading
from collections.abc import Callable, Iterator

import pytest
from kazoo.client import KazooState
from zk_harness import Cable, eventually, expire

from pyspider_zk.config import Settings
from pyspider_zk.errors import Unavailable
from pyspider_zk.zookeeper.connection import Connection
from pyspider_zk.zookeeper.session import Change, SessionWatch

SESSION = 6.0


class Line:
    """A connection that does what the test says."""

    connected = False

    def on_change(self, callback: Callable[[object], None]) -> None:
        self.tell = callback

    def forget(self, callback: Callable[[object], None]) -> None:
        assert callback == self.tell


class Told:
    """A watch over a connection, and what it told."""

    def __init__(self, connection, timeout: float = SESSION) -> None:
        self.changes: queue.SimpleQueue[Change] = queue.SimpleQueue()
        self.watch = SessionWatch(connection, timeout)
        self.watch.add(self.changes.put)
        self.watch.start()

    def next(self) -> Change:
        return self.changes.get(timeout=30)


@pytest.fixture
def line() -> Line:
    return Line()


@pytest.fixture
def told(line: Line) -> Iterator[Told]:
    told = Told(line, timeout=0.3)
    yield told
    told.watch.stop()


@pytest.fixture
def far(cable: Cable) -> Iterator[tuple[Connection, Told]]:
    connection = Connection(Settings(hosts=cable.address, session=SESSION))
    connection.start()
    told = Told(connection)
    yield connection, told
    cable.mend()
    told.watch.stop()
    connection.stop()


def test_a_long_suspension_is_taken_for_the_end_which_is_told_once(line: Line, told: Told):
    line.tell(KazooState.SUSPENDED)
    assert [told.next(), told.next()] == [Change.SUSPENDED, Change.LOST]

    line.tell(KazooState.LOST)
    line.tell(KazooState.CONNECTED)
    assert told.next() is Change.BACK


def test_a_listener_that_fails_does_not_keep_others_from_being_told(line: Line, told: Told):
    told.watch.add(lambda _: 1 / 0)
    others: queue.SimpleQueue[Change] = queue.SimpleQueue()
    told.watch.add(others.put)

    line.tell(KazooState.LOST)

    assert others.get(timeout=30) is Change.LOST


def test_a_listener_that_was_removed_is_told_nothing(line: Line, told: Told):
    removed: list[Change] = []
    told.watch.add(removed.append)
    told.watch.remove(removed.append)

    line.tell(KazooState.LOST)

    assert told.next() is Change.LOST
    assert removed == []


def test_what_cannot_be_cleared_up_now_is_done_once_zookeeper_is_back(line: Line, told: Told):
    tries: queue.SimpleQueue[int] = queue.SimpleQueue()
    done = threading.Event()

    def second_time() -> None:
        tries.put(1)
        if tries.qsize() < 2:
            raise Unavailable("away")
        done.set()

    told.watch.clear_up(second_time)
    line.connected = True

    assert done.wait(30)


@pytest.mark.zk
def test_a_dropped_connection_is_suspended_and_back(far, cable: Cable):
    connection, told = far
    session = connection.session

    cable.drop()

    assert [told.next(), told.next()] == [Change.SUSPENDED, Change.BACK]
    assert connection.session == session


@pytest.mark.zk
def test_an_expired_session_is_lost(far):
    connection, told = far

    expire(connection)

    changes = [told.next()]
    while changes[-1] is not Change.BACK:
        changes.append(told.next())
    assert changes[-2:] == [Change.LOST, Change.BACK]


@pytest.mark.zk
def test_a_listener_may_talk_to_zookeeper(far, cable: Cable):
    connection, told = far
    found: list[list[str]] = []
    told.watch.add(lambda change: change is Change.BACK and found.append(connection.children("/")))

    cable.drop()

    eventually(lambda: found)


@pytest.mark.zk
def test_behind_a_silent_link_the_session_is_taken_for_lost(far, cable: Cable):
    _, told = far

    cable.cut()

    assert [told.next(), told.next()] == [Change.SUSPENDED, Change.LOST]
