"""A session is over here before it can be over at the server, and what happens to it is told."""

import queue
import socket
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest
from kazoo.client import KazooState
from kazoo.exceptions import SessionExpiredError

from pyspider_zk.config import Settings
from pyspider_zk.zookeeper.connection import Connection
from pyspider_zk.zookeeper.session import Change, Session
from pyspider_zk.zookeeper.wire import Wire
from tests.support.crew import Cable, expire
from tests.support.waiting import eventually

SESSION = 6.0
ID, ANOTHER = 7, 8


@dataclass
class SessionClock:
    """A clock that the test sets."""

    time: float = 1000.0

    def __call__(self) -> float:
        return self.time


@dataclass
class Line:
    """A session, and the server's ends of the sockets that it made."""

    asked: float = 12.0
    resumes: bool = False
    clock: SessionClock = field(default_factory=SessionClock)
    far: list[socket.socket] = field(default_factory=list)
    wires: list[Wire] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.session = Session(self.asked, self.clock, resumes=self.resumes)

    def open(self) -> Wire:
        def within(_: float) -> socket.socket:
            near, far = socket.socketpair()
            near.settimeout(0.01)
            self.far.append(far)
            return near

        self.wires.append(self.session.connect(within))
        return self.wires[-1]

    def patience(self, tries: int) -> list[float]:
        """Return how long each of some servers may take, if all are silent."""
        given: list[float] = []

        def in_vain(patience: float) -> socket.socket:
            given.append(patience)
            self.clock.time += patience
            raise TimeoutError

        for _ in range(tries):
            with pytest.raises(TimeoutError):
                self.session.connect(in_vain)
        return given

    def connect(self, session: int = ID, granted: float | None = None) -> Wire:
        """Connect, and let kazoo read what the server says."""
        wire = self.open()
        milliseconds = int((granted or self.asked) * 1000)
        self.far[-1].sendall(struct.pack(">iiiq", 37, 0, milliseconds, session))
        wire.recv(4)
        wire.recv(16)
        self.session.on_state(KazooState.CONNECTED, session)
        return wire

    def after(self, seconds: float) -> "Session":
        self.clock.time += seconds
        self.session.look()
        return self.session

    @property
    def changes(self) -> list[Change | None]:
        changes = self.session.changes
        return [changes.get() for _ in range(changes.qsize())]

    def stop(self) -> None:
        for end in [*self.far, *self.wires]:
            end.close()


@pytest.fixture
def make() -> Iterator[Callable[..., Line]]:
    lines: list[Line] = []

    def make(**options: object) -> Line:
        lines.append(Line(**options))
        return lines[-1]

    yield make
    for line in lines:
        line.stop()


def is_severed(wire: Wire) -> bool:
    try:
        return wire.recv(1) == b""
    except TimeoutError:
        return False


def test_a_session_that_nobody_answers_in_is_given_up_before_the_server_can_end_it(make):
    line = make(asked=12.0)
    wire = line.connect()

    assert line.after(10.7).id == ID
    assert line.after(0.2).id is None
    assert line.changes == [Change.BACK, Change.LOST]
    assert is_severed(wire)


def test_the_time_counts_from_the_sending_of_what_was_answered(make):
    line = make(asked=12.0)
    line.connect()
    sent = line.session.now()
    line.clock.time += 5
    line.session.answered(sent)

    assert line.after(6).id is None


def test_asking_for_the_id_is_enough_to_know(make):
    line = make()
    line.connect()
    line.clock.time += 60

    assert line.session.id is None


def test_an_answer_that_comes_too_late_brings_nothing_back(make):
    line = make(asked=12.0)
    line.connect()
    line.clock.time += 5
    sent = line.session.now()
    line.clock.time += 6

    line.session.answered(sent)

    assert line.session.id is None


def test_what_was_given_up_never_comes_back_and_another_begins(make):
    line = make()
    line.connect()
    line.after(60)

    line.session.on_state(KazooState.CONNECTED, ID)
    assert line.session.id is None
    with pytest.raises(SessionExpiredError):
        line.open()

    line.session.on_state(KazooState.LOST, None)
    line.connect(ANOTHER)
    assert line.session.id == ANOTHER


def test_a_session_given_up_while_connecting_is_given_up(make):
    line = make()
    line.connect()
    far: list[socket.socket] = []

    def slowly(_: float) -> socket.socket:
        line.after(60)
        near, other = socket.socketpair()
        far.append(other)
        return near

    wire = line.session.connect(slowly)

    assert is_severed(wire)
    wire.close()
    far[0].close()


def test_what_is_bounded_otherwise_goes_on_in_the_same_session(make):
    line = make(resumes=True)
    line.connect()
    line.session.on_state(KazooState.SUSPENDED, None)

    assert line.after(3600).id == ID
    line.connect(ID)
    assert line.session.id == ID


def test_a_silent_link_is_severed_so_that_another_server_is_tried(make):
    line = make(asked=12.0)
    wire = line.connect()

    line.after(7.9)
    assert not is_severed(wire)
    line.after(0.2)
    assert is_severed(wire)
    assert line.session.id == ID


def test_answers_keep_the_link(make):
    line = make(asked=12.0)
    wire = line.connect()
    for _ in range(20):
        line.after(7)
        line.session.answered(line.session.now())

    assert not is_severed(wire)
    assert line.session.id == ID


def test_a_server_that_does_not_take_the_session_over_is_left_soon(make):
    line = make(asked=12.0)
    line.connect()
    line.after(8.1)
    deaf = line.open()

    line.after(1.9)
    assert not is_severed(deaf)
    line.after(0.2)
    assert is_severed(deaf)
    assert line.session.id == ID


def test_the_next_server_gets_twice_the_time(make):
    line = make(asked=12.0, resumes=True)
    line.connect()
    patience = []
    for _ in range(5):
        deaf, began = line.open(), line.clock.time
        while not is_severed(deaf):
            line.after(0.5)
        patience.append(line.clock.time - began - 0.5)

    assert patience == [2.0, 4.0, 8.0, 12.0, 12.0]


def test_before_a_first_session_each_server_has_a_turn_while_somebody_waits(make):
    line = make(asked=12.0)
    line.session.share(5.0, 5)

    assert line.patience(10) == [1.0] * 5 + [2.0] * 5


def test_after_a_session_was_lost_each_server_has_a_turn_as_before_the_first(make):
    line = make(asked=12.0)
    line.session.share(5.0, 5)
    line.connect()
    line.session.on_state(KazooState.LOST, None)

    assert line.patience(2) == [1.0, 1.0]


def test_a_server_may_never_take_longer_than_a_session(make):
    line = make(asked=4.0)
    line.session.share(10.0, 2)

    assert line.patience(2) == [4.0, 4.0]


def test_a_dark_server_that_is_tried_twice_gets_no_more_time_from_a_session_at_stake(make):
    line = make(asked=12.0)
    line.session.share(5.0, 3)
    line.connect()

    assert line.patience(2) == [2.0, 2.0]


def test_servers_that_refuse_do_not_count_as_silent(make):
    line = make(asked=12.0, resumes=True)
    line.connect()
    line.after(8.1)

    def refused(_: float) -> socket.socket:
        raise ConnectionRefusedError

    for _ in range(20):
        with pytest.raises(ConnectionRefusedError):
            line.session.connect(refused)
    deaf = line.open()
    line.after(2.1)

    assert is_severed(deaf)


def test_a_connection_that_is_not_made_in_time_counts_as_silent(make):
    line = make(asked=12.0, resumes=True)
    line.connect()
    line.after(8.1)

    line.patience(2000)
    slow = line.open()
    line.after(11.9)

    assert not is_severed(slow)


def test_after_an_answer_the_time_is_short_again(make):
    line = make(asked=12.0, resumes=True)
    line.connect()
    line.after(8.1)
    line.open()
    line.after(2.1)
    line.connect()
    line.after(8.1)

    deaf = line.open()
    line.after(2.1)

    assert is_severed(deaf)


@pytest.mark.parametrize("granted", [4.0, 40.0])
def test_what_the_server_grants_counts_and_is_said_once(make, granted, caplog):
    line = make(asked=12.0)
    line.connect(granted=granted)
    line.connect(granted=granted)

    assert line.session.times.granted == granted
    assert line.after(granted * 0.8).id == ID
    assert line.after(granted * 0.15).id is None
    told = [one.getMessage() for one in caplog.records if "was requested" in one.getMessage()]
    assert len(told) == 1
    assert f"grants {granted:g} s" in told[0]


class Told:
    """What a connection tells."""

    def __init__(self, connection: Connection) -> None:
        self.changes: queue.SimpleQueue[Change] = queue.SimpleQueue()
        connection.on_change(self.changes.put)

    def next(self) -> Change:
        return self.changes.get(timeout=60)

    def until(self, last: Change) -> list[Change]:
        changes = [self.next()]
        while changes[-1] is not last:
            changes.append(self.next())
        return changes


@pytest.fixture
def far(cable: Cable) -> Iterator[tuple[Connection, Told]]:
    connection = Connection(Settings(hosts=cable.address, session=SESSION))
    connection.start()
    yield connection, Told(connection)
    cable.mend()
    connection.stop()


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

    told.until(Change.LOST)  # its owner may have been back before
    assert told.next() is Change.BACK


@pytest.mark.zk
def test_a_listener_that_fails_does_not_keep_others_from_being_told(far):
    connection, _ = far
    connection.on_change(lambda _: 1 / 0)
    others = Told(connection)

    expire(connection)

    others.until(Change.LOST)


@pytest.mark.zk
def test_behind_a_silent_link_the_session_is_lost_once_and_another_begins(far, cable: Cable):
    connection, told = far
    session = connection.session

    cable.cut()

    assert [told.next(), told.next()] == [Change.SUSPENDED, Change.LOST]
    assert connection.session is None
    assert not connection.connected
    cable.mend()
    assert told.next() is Change.BACK
    assert connection.session not in (None, session)


@pytest.mark.zk
def test_a_link_that_is_used_by_nobody_keeps_its_session(settings: Settings):
    connection = Connection(Settings(hosts=settings.hosts, session=20.0))
    connection.start()
    told = Told(connection)
    session, begun = connection.session, connection._session.now()

    eventually(lambda: connection._session.now() - begun > 20)

    assert connection.session == session
    assert told.changes.empty()
    connection.stop()


@pytest.mark.zk
def test_more_than_the_server_grants_is_not_counted_on(settings: Settings):
    greedy = Connection(Settings(hosts=settings.hosts, session=100.0))
    greedy.start()

    assert greedy.times.granted == 40.0
    greedy.stop()
