"""ZooKeeper servers that are dark, and first in turn, keep nobody from those that answer."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pyspider_zk.cli.status import PATIENCE
from pyspider_zk.config import Settings
from pyspider_zk.zookeeper.connection import Connection

pytestmark = pytest.mark.zk

SESSION = 30.0  # seconds; kazoo would wait so long for a connection, a fifth of it for its answer


@contextmanager
def deaf() -> Iterator[str]:
    """Give an address where connections are made, and nobody answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield address_of(listener)


@contextmanager
def dropping() -> Iterator[str]:
    """Give an address whose packets are dropped: the kernel does so when its queue is full."""
    with (
        socket.create_server(("127.0.0.1", 0), backlog=0) as listener,
        socket.create_connection(listener.getsockname()),
    ):
        yield address_of(listener)


def address_of(listener: socket.socket) -> str:
    return f"127.0.0.1:{listener.getsockname()[1]}"


@pytest.mark.parametrize("dark", [deaf, dropping])
def test_two_dark_servers_of_five_leave_the_others_their_turn(settings: Settings, dark):
    with dark() as address:
        hosts = ",".join([address] * 2 + [settings.hosts] * 3)
        connection = Connection(Settings(hosts=hosts, session=SESSION))
        connection._client.randomize_hosts = False

        connection.start(3 * PATIENCE)  # a starved one answers late

        assert connection.connected
        connection.stop()


def test_a_dark_address_of_a_name_leaves_the_others_their_turn(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
):
    look_up = socket.getaddrinfo

    def both(host: str, port: int, *more: object) -> list[object]:
        if host != "zookeepers":
            return look_up(host, port, *more)
        addresses = [each.split(":") for each in (dark, settings.hosts)]
        return [each for address in addresses for each in look_up(*address, *more)]

    monkeypatch.setattr(socket, "getaddrinfo", both)
    with dropping() as dark:
        connection = Connection(Settings(hosts="zookeepers:2181", session=SESSION))
        connection._client.randomize_hosts = False

        connection.start(3 * PATIENCE)

        assert connection.connected
        connection.stop()
