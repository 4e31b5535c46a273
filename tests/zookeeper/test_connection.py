"""Bounded calls, honest transactions, and the session they belong to."""

import errno
import resource
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace

import pytest
from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError

from pyspider_zk.config import Settings
from pyspider_zk.errors import SessionLost, Unavailable
from pyspider_zk.zookeeper.connection import Connection
from pyspider_zk.zookeeper.session import Change
from pyspider_zk.zookeeper.steps import Check, Create, Delete, Write
from pyspider_zk.zookeeper.wire import local_address
from tests.support.crew import Cable, expire
from tests.support.ports import own_port
from tests.support.waiting import eventually

pytestmark = pytest.mark.zk

MANY = 400  # calls; kazoo's thread is woken by a pipe that holds fewer


def test_without_zookeeper_the_address_and_the_option_are_named():
    address = f"127.0.0.1:{own_port()}"

    with pytest.raises(Unavailable, match=f"no ZooKeeper answers at {address}.*--zookeeper"):
        Connection(Settings(hosts=address)).start(patience=0.3)


def test_a_server_that_is_no_zookeeper_is_not_waited_for_longer():
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        address = f"127.0.0.1:{deaf.getsockname()[1]}"

        with pytest.raises(Unavailable):
            Connection(Settings(hosts=address, session=2.0)).start(patience=0.3)


def test_calls_in_a_long_outage_end_however_many_there_are(settings: Settings, cable: Cable):
    def ask_on_and_on() -> None:
        for _ in range(MANY):
            with pytest.raises(Unavailable):
                connection.children("/")
        over.set()

    over = threading.Event()
    connection = Connection(replace(settings, hosts=cable.address, session=30.0), timeout=0.01)
    connection.start()
    cable.cut()
    cable.drop()
    eventually(lambda: not connection.connected)
    threading.Thread(target=ask_on_and_on, daemon=True).start()
    try:
        assert over.wait(60)
    finally:
        cable.mend()
        connection.stop()


def test_stopping_twice_or_before_the_start_is_harmless(settings: Settings):
    connection = Connection(settings)
    connection.stop()
    connection.stop()


def test_data_and_version_come_back(connection: Connection, zk_root: str):
    connection.create(f"{zk_root}/a/b", b"one")

    assert connection.get(f"{zk_root}/a/b") == (b"one", 0)
    assert connection.set(f"{zk_root}/a/b", b"two", version=0) == 1
    assert connection.find_all([f"{zk_root}/a/b", f"{zk_root}/x"]) == [(b"two", 1), None]
    assert connection.children(f"{zk_root}/a") == ["b"]


def test_what_is_missing_is_none_empty_or_harmless(connection: Connection, zk_root: str):
    assert connection.find(f"{zk_root}/x") is None
    assert connection.children(f"{zk_root}/x") == []
    connection.delete(f"{zk_root}/x")


class NewerServer(Cable):
    """A way to a server that answers with an error that nobody knows yet, not with "no node"."""

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data.replace(struct.pack(">i", -101), struct.pack(">i", -9999)))


def test_an_error_that_kazoo_does_not_know_ends_no_connection(settings: Settings):
    way = NewerServer(settings.hosts)
    connection = Connection(replace(settings, hosts=way.address))
    try:
        connection.start()
        session = connection.session

        with pytest.raises(Unavailable, match="/missing"):
            connection.find("/missing")

        assert "zookeeper" in connection.children("/")
        assert connection.session == session
    finally:
        connection.stop()
        way.close()


def test_version_zero_is_a_condition(connection: Connection, zk_root: str):
    connection.create(f"{zk_root}/a")
    connection.set(f"{zk_root}/a", b"1", version=0)

    with pytest.raises(BadVersionError):
        connection.set(f"{zk_root}/a", b"2", version=0)
    with pytest.raises(BadVersionError):
        connection.multi(Write(f"{zk_root}/a", b"2", version=0))


def test_all_steps_are_done_or_none_and_the_cause_is_raised(connection: Connection, zk_root: str):
    connection.create(f"{zk_root}/a")
    steps = (Create(f"{zk_root}/b", b""), Write(f"{zk_root}/a", b"1"))
    causes = {
        NodeExistsError: Create(f"{zk_root}/a", b""),
        NoNodeError: Check(f"{zk_root}/missing"),
        BadVersionError: Check(f"{zk_root}/a", 7),
    }
    for cause, step in causes.items():
        with pytest.raises(cause):
            connection.multi(*steps, step)
        with pytest.raises(cause):
            connection.multi(step, *steps)
    assert connection.children(zk_root) == ["a"]
    assert connection.get(f"{zk_root}/a") == (b"", 0)

    connection.multi(*steps, Delete(f"{zk_root}/a"))

    assert connection.children(zk_root) == ["b"]


def test_each_of_many_transactions_is_done_for_itself(connection: Connection, zk_root: str):
    first, second = f"{zk_root}/first", f"{zk_root}/second"
    connection.create(zk_root)

    refusals = connection.multi_all(
        [
            [Create(first, b"1")],
            [Create(second, b"2"), Create(first, b"again")],
            [Check(first, 0), Create(second, b"3")],
        ]
    )

    assert [type(refusal) for refusal in refusals] == [type(None), NodeExistsError, type(None)]
    assert connection.get(second) == (b"3", 0)
    assert connection.multi_all([]) == []


def test_a_silent_link_ends_in_unavailable(cable: Cable):
    connection = Connection(Settings(hosts=cable.address, session=30.0), timeout=0.2)
    connection.start(60.0)
    cable.cut()

    with pytest.raises(Unavailable, match="does not answer"):
        connection.children("/")
    cable.mend()
    connection.stop()


def test_the_session_stays_while_suspended_and_after(cable: Cable):
    connection = Connection(Settings(hosts=cable.address, session=30.0))
    connection.start()
    session = connection.session
    cable.cut()
    cable.drop()
    eventually(lambda: not connection.connected)
    assert connection.session == session

    with pytest.raises(Unavailable, match="not connected"):
        connection.require()

    cable.mend()
    eventually(lambda: connection.connected)
    assert connection.session == session
    connection.stop()


@contextmanager
def no_descriptors() -> Iterator[None]:
    """Be a process that may open nothing more."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@contextmanager
def no_threads() -> Iterator[None]:
    """Be a process that cannot start another thread: there is no room for its stack."""
    before = threading.stack_size(2**46)
    try:
        yield
    finally:
        threading.stack_size(before)


@pytest.mark.parametrize("wanting", [no_descriptors, no_threads])
def test_a_machine_that_has_nothing_left_is_told_and_no_thread_goes_on(
    settings: Settings, wanting: Callable[[], AbstractContextManager[None]]
):
    connection, before = Connection(settings), set(threading.enumerate())

    with pytest.raises(Unavailable, match="cannot be asked by this machine"), wanting():
        connection.start()

    assert set(threading.enumerate()) <= before


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (OSError(errno.EMFILE, "Too many open files"), "OSError(24, 'Too many open files')"),
        (socket.gaierror(socket.EAI_AGAIN, "again"), "none of the names has an address"),
    ],
    ids=["no descriptors", "no name server"],
)
def test_a_name_that_cannot_be_looked_up_for_a_moment_ends_no_connection(
    cable: Cable,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: OSError,
    told: str,
):
    look_up, failed = socket.getaddrinfo, threading.Event()
    caplog.set_level("INFO")

    def fail_once(host: str, *args: object, **options: object) -> object:
        if host == "localhost" and not failed.is_set():
            failed.set()
            raise error
        return look_up(host, *args, **options)

    connection = Connection(Settings(hosts=cable.address.replace("127.0.0.1", "localhost")))
    connection.start()
    try:
        monkeypatch.setattr(socket, "getaddrinfo", fail_once)
        cable.drop()
        eventually(failed.is_set)
        eventually(lambda: connection.connected)

        assert "zookeeper" in connection.children("/")
        lines = [record.getMessage() for record in caplog.records]
        about = [line for line in lines if "the addresses of ZooKeeper" in line]
        assert [told in line for line in about] == [True, False]
        assert about[-1].endswith("can be looked up again")
    finally:
        connection.stop()


def test_a_callback_that_was_forgotten_is_not_called(cable: Cable):
    connection = Connection(Settings(hosts=cable.address, session=30.0))
    connection.start()
    told: list[object] = []
    forgotten: list[object] = []
    connection.on_change(told.append)
    connection.on_change(forgotten.append)
    connection.forget(forgotten.append)

    cable.drop()

    eventually(lambda: Change.BACK in told)
    assert forgotten == []
    connection.stop()


def test_an_expired_session_is_told_and_followed_by_another(connection: Connection):
    session = connection.session
    expire(connection)

    def is_another() -> bool:
        try:
            connection.children("/")
        except (Unavailable, SessionLost):
            return False
        return connection.session not in (None, session)

    eventually(is_another)


def test_the_address_that_reaches_zookeeper_is_the_local_one():
    assert local_address("127.0.0.1:2181,10.1.1.1:2181") == "127.0.0.1"
    assert local_address("127.0.0.1") == "127.0.0.1"
    assert local_address("[::1]:2181") == "::1"


def test_an_unknown_name_is_told():
    with pytest.raises(Unavailable, match=r"no way to ZooKeeper at nowhere"):
        local_address("nowhere.invalid")
