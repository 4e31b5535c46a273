"""A silent link is noticed under steady traffic, and another server is tried with the session."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pyspider_zk.config import Settings
from pyspider_zk.controller import Locks
from pyspider_zk.local import services
from pyspider_zk.local.services import ZooKeeperServer
from pyspider_zk.zookeeper.connection import Connection
from tests.support.crew import MORTAL, Cable, Crew
from tests.support.waiting import eventually

pytestmark = pytest.mark.zk

THREADS = 3


class Traffic:
    """Threads that ask all the time, so that kazoo never has a reason to ping."""

    def __init__(self, connection: Connection) -> None:
        self.answers = 0
        self._connection = connection
        self._halt = threading.Event()
        self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(THREADS)]
        for thread in self._threads:
            thread.start()

    def _run(self) -> None:
        while not self._halt.wait(0.1):
            answer = self._connection._client.exists_async("/")
            if answer.wait(0.1) and answer.successful():
                self.answers += 1

    def stop(self) -> None:
        self._halt.set()
        for thread in self._threads:
            thread.join()


@pytest.fixture
def cables(settings: Settings) -> Iterator[list[Cable]]:
    """Give two ways to ZooKeeper."""
    cables = [Cable(settings.hosts), Cable(settings.hosts)]
    yield cables
    for cable in cables:
        cable.close()


def hosts(cables: list[Cable]) -> str:
    return ",".join(cable.address for cable in cables)


def cut_used(cables: list[Cable]) -> None:
    """Cut the way that is used, when it is the only one; the other one stays whole."""
    used = eventually(lambda: _only([cable for cable in cables if cable._links]))
    used.cut()


def _only(found: list[Cable]) -> Cable | None:
    return found[0] if len(found) == 1 else None


def test_a_healthy_second_address_is_tried_under_steady_traffic(cables: list[Cable]):
    connection = Connection(Settings(hosts=hosts(cables), session=15.0))
    connection.start()
    session = connection.session
    traffic = Traffic(connection)
    eventually(lambda: traffic.answers > 3)

    cut_used(cables)
    eventually(lambda: all(cable._links for cable in cables), "the other way is tried")
    before = traffic.answers
    eventually(lambda: traffic.answers > before + 10, "answers on the other way")

    assert connection.session == session
    traffic.stop()
    connection.stop()


def test_a_scheduler_fails_over_and_keeps_its_number(crew: Crew, cables: list[Cable]):
    far = crew.start("far", hosts=hosts(cables), **MORTAL, session=15.0)
    crew.shared_by(far)
    member = far.member
    traffic = Traffic(far.coordinator.connection)

    cut_used(cables)
    eventually(lambda: all(cable._links for cable in cables), "the other way is tried")

    eventually(lambda: len(far.open) == 12, "the fences open again")
    assert far.member.number == member.number
    traffic.stop()


@pytest.fixture
def short_sessions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ZooKeeperServer]:
    """Give a server that grants no session longer than ten seconds."""
    config = services._ZOOKEEPER_CONFIG.replace("=40000", "=10000")
    monkeypatch.setattr(services, "_ZOOKEEPER_CONFIG", config)
    with ZooKeeperServer(tmp_path) as server:
        yield server


def test_a_lock_asked_for_longer_than_the_server_grants_is_given_up_in_time(
    short_sessions: ZooKeeperServer, zk_root: str
):
    near = Settings(hosts=short_sessions.address, root=zk_root, session=100.0)
    cable = Cable(short_sessions.address)
    far = replace(near, hosts=cable.address)
    with Locks(far) as cut_off, Locks(near) as whole:
        traffic = Traffic(cut_off._connection)
        lock = cut_off.lock("one")
        lock.acquire()
        cable.cut()

        with whole.lock("one", timeout=60):
            assert not lock.held
            assert lock.lost.is_set()

        cable.mend()
        lock.release()
        traffic.stop()
    cable.close()
