"""Real servers that refuse what they are asked: members stay, and own their slots afterwards."""

import itertools
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from pyspider_zk.cluster.presence import Presence
from pyspider_zk.cluster.records import Component, ComponentKind, Load
from pyspider_zk.config import Settings
from pyspider_zk.errors import OverQuota
from pyspider_zk.groups.ids import MemberId
from pyspider_zk.local.services import ZooKeeperServer
from pyspider_zk.zookeeper.connection import Connection
from pyspider_zk.zookeeper.survey import ask
from tests.support.crew import Crew, expire
from tests.support.needed import skip_without_needed
from tests.support.ports import own_port
from tests.support.waiting import eventually

pytestmark = [pytest.mark.zk, pytest.mark.slow]

QUOTA = ["-Dzookeeper.enforceQuota=true"]
THROTTLED = [
    "-Dzookeeper.request_throttle_max_requests=1",
    "-Dzookeeper.request_throttle_stall_time=50",
    "-Dzookeeper.throttled_op_wait_time=1",
]
READ_ONLY = ["-Dreadonlymode.enabled=true"]


class OddServer(ZooKeeperServer):
    """A ZooKeeper that is started with these properties of Java, and lines in its configuration."""

    properties: Sequence[str] = QUOTA
    lines: Sequence[str] = ()

    def _command(self, port: int) -> list[str]:
        program, *others = super()._command(port)
        config = self.folder / "zoo.cfg"
        config.write_text("\n".join([config.read_text(), *self.lines]))
        (self._data / "myid").write_text("1")
        return [program, *self.properties, *others]

    def restart(self, properties: Sequence[str], lines: Sequence[str] = ()) -> None:
        self.properties, self.lines = properties, lines
        self.stop()
        self.start()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[OddServer]:
    """Run a server that enforces quotas."""
    server = OddServer(tmp_path / "zookeeper", own_port())
    with skip_without_needed():
        server.start()
    yield server
    server.stop()


@pytest.fixture
def settings(settings: Settings, server: OddServer) -> Settings:
    """Give the settings of a cluster there; it is restarted within a session."""
    return replace(settings, hosts=server.address, session=20.0)


@pytest.fixture
def is_told(caplog: pytest.LogCaptureFixture) -> Callable[[str], bool]:
    """Give the function that returns whether a line with these words was logged."""
    caplog.set_level(logging.INFO)
    return lambda words: any(words in message for message in list(caplog.messages))


def limit_znodes(connection: Connection, root: str) -> str:
    """Let nobody create more znodes below a root; return the path of what limits them."""
    quota = f"/zookeeper/quota{root}"
    connection.create(f"{quota}/zookeeper_limits", b"count=-1,bytes=-1=;countHardLimit=1")
    connection.create(f"{quota}/zookeeper_stats", b"count=100,bytes=100")
    return f"{quota}/zookeeper_limits"


def limit_bytes(connection: Connection, root: str) -> str:
    """Let nothing grow below a root; return the path of what limits it."""
    quota = f"/zookeeper/quota{root}"
    connection.create(f"{quota}/zookeeper_limits", b"count=-1,bytes=-1=;byteHardLimit=1")
    connection.create(f"{quota}/zookeeper_stats", b"count=100,bytes=100")
    with pytest.raises(OverQuota):
        connection.create(f"{root}/more", b"bytes")
    return f"{quota}/zookeeper_limits"


def test_a_quota_keeps_members_out_until_it_is_raised_and_ends_none(
    crew: Crew, connection: Connection, settings: Settings, is_told: Callable[[str], bool]
):
    first, second = crew.start_and_share(2)
    limits = limit_znodes(connection, settings.root)

    expire(second.coordinator.connection)
    eventually(lambda: is_told("(QuotaExceededError): raise the quota"), "the quota is told")
    renewals = crew.cluster().renewals[first.member]
    eventually(lambda: crew.cluster().renewals[first.member] > renewals + 5, "renewals go on")
    connection.delete(limits)

    crew.shared_by(first, second)


def test_a_worker_that_starts_under_a_quota_waits_until_it_is_raised(
    connection: Connection, settings: Settings, caplog: pytest.LogCaptureFixture
):
    limits = limit_znodes(connection, settings.root)
    presence = Presence(settings, ComponentKind.FETCHER, Component("host", 1, "0", 0.0))
    caplog.set_level(logging.DEBUG)

    with ThreadPoolExecutor(1) as starting:
        started = starting.submit(presence.__enter__)
        eventually(lambda: "QuotaExceededError" in caplog.text, "the quota is met")
        connection.delete(limits)
        started.result()
    presence.__exit__()


def test_a_worker_says_which_quota_keeps_it_from_starting(
    connection: Connection, settings: Settings, monkeypatch: pytest.MonkeyPatch
):
    limit_znodes(connection, settings.root)
    monkeypatch.setattr("pyspider_zk.cluster.presence.PATIENCE", 0.0)

    presence = Presence(settings, ComponentKind.FETCHER, Component("host", 1, "0", 0.0))
    with pytest.raises(OverQuota, match="raise the quota"), presence:
        pass


def test_a_quota_of_bytes_costs_nobody_the_lease(
    crew: Crew,
    connection: Connection,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
):
    members = crew.start_and_share(2)
    before = crew.table()
    limit_bytes(connection, settings.root)

    for member in members:
        growing = (Load(10**digits) for digits in itertools.cycle(range(1, 9)))
        monkeypatch.setattr(member.coordinator, "_load", growing.__next__)
    versions = crew.cluster().renewals
    eventually(lambda: is_renewed(crew, versions, times=10), "renewals go on")

    assert crew.table() == before
    assert sum(len(member.open) for member in members) == len(before)


def test_a_quota_of_bytes_that_allows_no_release_costs_nobody_the_lease(
    crew: Crew, connection: Connection, settings: Settings
):
    first, second = crew.start_and_share(2)
    first.hold_on.set()
    third = crew.start("third")
    eventually(lambda: first.coordinator.view.releasing, "a move that waits for the first")
    limits = limit_bytes(connection, settings.root)

    kept = first.owned
    first.hold_on.clear()
    eventually(lambda: not first.coordinator.view.releasing, "giving up what moves")
    versions = {first.member: crew.cluster().renewals[first.member]}
    eventually(lambda: is_renewed(crew, versions, times=10), "renewals go on")
    eventually(lambda: first.open == set(kept.items()), "open fences")
    connection.delete(limits)

    crew.shared_by(first, second, third)


def is_renewed(crew: Crew, versions: Mapping[MemberId, int], times: int) -> bool:
    """Return whether these leases were renewed so often since they had these versions."""
    now = crew.cluster().renewals
    return all(now.get(member, 0) >= version + times for member, version in versions.items())


def ensemble_without_quorum() -> list[str]:
    """Return the configuration of one of two servers; the other never runs."""
    first, second, third, fourth = (own_port() for _ in range(4))
    servers = [f"server.1=127.0.0.1:{first}:{second}", f"server.2=127.0.0.1:{third}:{fourth}"]
    return [*servers, "initLimit=10", "syncLimit=5"]


@pytest.mark.parametrize(
    ("properties", "lines", "mode", "words"),
    [
        (THROTTLED, list, "standalone", "(ThrottledOpError): it is overloaded"),
        (READ_ONLY, ensemble_without_quorum, "read", "does not answer (ConnectionLoss)"),
    ],
    ids=["throttled", "read-only"],
)
def test_a_server_that_does_not_do_what_it_is_asked_ends_no_member(
    crew: Crew,
    server: OddServer,
    is_told: Callable[[str], bool],
    properties: list[str],
    lines: Callable[[], list[str]],
    mode: str,
    words: str,
):
    members = crew.start_and_share(2)

    server.restart(properties, lines())
    eventually(lambda: ask(server.address, crew.settings).mode == mode, f"it is {mode}")
    eventually(lambda: is_told(words), words)
    assert [member.failure for member in members] == [None, None]
    server.restart([])

    crew.shared_by(*members)
    assert [member.failure for member in members] == [None, None]
