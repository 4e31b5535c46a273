"""Real servers: they start, answer, keep their data and go; their ports."""

import socket

import pytest
import redis
from kazoo.client import KazooClient

from pyspider_zk.errors import Unavailable
from pyspider_zk.local import services
from pyspider_zk.local.child import tail
from pyspider_zk.local.services import (
    LASTING,
    RedisServer,
    ZooKeeperServer,
    any_free,
    is_free,
    preferred_port,
    remember_port,
)
from tests.support.ports import own_port


@pytest.fixture
def needs_zookeeper(zookeeper):
    """Skip where there is no ZooKeeper; the tests start one of their own."""


@pytest.fixture
def needs_redis(redis_server):
    """Skip where there is no Redis; the tests start one of their own."""


def remember(server):
    with_client(server, lambda client: client.create("/kept", b"x"))


def with_client(server, do):
    client = KazooClient(server.address, timeout=5)
    client.start()
    try:
        return do(client)
    finally:
        client.stop()
        client.close()


@pytest.mark.zk
@pytest.mark.usefixtures("needs_zookeeper")
def test_zookeeper_comes_back_with_its_data_on_its_port(tmp_path):
    remember_port(tmp_path / "port", own_port())
    with ZooKeeperServer(tmp_path) as server:
        remember(server)
        address = server.address
    assert not server.running

    with ZooKeeperServer(tmp_path) as again:
        assert again.address == address
        assert with_client(again, lambda client: client.get("/kept")[0]) == b"x"


@pytest.mark.zk
@pytest.mark.usefixtures("needs_zookeeper")
def test_zookeeper_keeps_what_it_acknowledged_when_it_is_killed(tmp_path, faults, eventually):
    with ZooKeeperServer(tmp_path, own_port()) as server:
        remember(server)

        faults.kill(server.pid)
        eventually(lambda: not server.running)
        server.start()

        assert with_client(server, lambda client: client.exists("/kept"))


@pytest.mark.zk
@pytest.mark.usefixtures("needs_zookeeper")
def test_zookeeper_keeps_its_data_in_its_folder_whatever_that_is_called(tmp_path):
    folder = tmp_path / "Müller \\u0041 🕷"

    with ZooKeeperServer(folder) as server:
        remember(server)

    assert (folder / "data" / "version-2").is_dir()


@pytest.mark.zk
def test_short_sessions_are_possible(zookeeper):
    client = KazooClient(zookeeper.address, timeout=2)
    client.start()
    session = client._session_timeout
    client.stop()
    client.close()

    assert session == 2000


@pytest.mark.redis
@pytest.mark.usefixtures("needs_redis")
def test_redis_comes_back_with_its_data_on_its_port(tmp_path):
    remember_port(tmp_path / "port", own_port())
    with RedisServer(tmp_path) as server, redis.Redis.from_url(server.url) as client:
        client.set("kept", "x")
        url = server.url

    with RedisServer(tmp_path) as again, redis.Redis.from_url(again.url) as client:
        assert again.url == url
        assert client.get("kept") == b"x"


@pytest.mark.redis
@pytest.mark.usefixtures("needs_redis")
def test_a_wanted_port_that_is_taken_is_an_error(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        with pytest.raises(Unavailable, match=f"port {port} is taken"):
            RedisServer(tmp_path, port).start()


@pytest.mark.redis
@pytest.mark.usefixtures("needs_redis")
def test_a_server_whose_port_was_taken_since_is_not_started_at_another(tmp_path):
    with RedisServer(tmp_path, own_port()) as server:
        server.stop()
        with (
            socket.create_server(("127.0.0.1", server.port)),
            pytest.raises(Unavailable, match=f"port {server.port} is taken"),
        ):
            server.start()


@pytest.mark.redis
@pytest.mark.usefixtures("needs_redis")
def test_another_server_on_the_remembered_port_is_not_taken_for_ours(tmp_path):
    with RedisServer(tmp_path / "other") as other:
        (tmp_path / "port").write_text(str(other.port), encoding="ascii")

        with RedisServer(tmp_path) as server:
            assert server.port != other.port


@pytest.mark.redis
@pytest.mark.usefixtures("needs_redis")
def test_a_port_that_is_taken_at_the_last_moment_is_given_up(tmp_path, monkeypatch):
    with RedisServer(tmp_path / "other") as other:
        choices = iter([other.port, own_port()])
        monkeypatch.setattr(services, "preferred_port", lambda _note: next(choices))

        with RedisServer(tmp_path / "ours") as server:
            assert server.port != other.port


@pytest.mark.redis
@pytest.mark.usefixtures("needs_redis")
def test_a_server_that_dies_at_its_start_shows_the_end_of_its_log(tmp_path):
    (tmp_path / "appendonlydir").write_text("in the way", encoding="ascii")

    with pytest.raises(Unavailable, match="Redis ended at its start") as died:
        RedisServer(tmp_path).start()

    assert tail(tmp_path / "redis.log").splitlines()[-1] in str(died.value)


@pytest.mark.redis
@pytest.mark.usefixtures("needs_redis")
def test_a_running_server_is_not_started_twice(tmp_path):
    with RedisServer(tmp_path) as server, pytest.raises(RuntimeError):
        server.start()


def test_a_server_that_was_never_started_has_no_address(tmp_path):
    server = RedisServer(tmp_path)

    with pytest.raises(RuntimeError):
        _ = server.address
    assert not server.running
    server.stop()


def test_a_port_that_somebody_listens_on_is_not_free():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert not is_free(taken.getsockname()[1])


def test_a_port_is_none_that_outgoing_connections_get():
    assert all(any_free() in LASTING for _ in range(20))


def test_if_all_of_those_are_taken_another_one_serves(monkeypatch):
    monkeypatch.setattr(services, "is_free", lambda _: False)

    with socket.create_server(("127.0.0.1", any_free())):
        pass


def test_a_remembered_port_is_preferred_while_it_is_free(tmp_path):
    port = any_free()
    remember_port(tmp_path / "port", port)

    assert preferred_port(tmp_path / "port") == port


def test_a_remembered_port_that_is_taken_gives_way_to_another(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        remember_port(tmp_path / "port", port)

        assert preferred_port(tmp_path / "port") != port


def test_a_note_that_is_no_port_is_ignored(tmp_path):
    for text in ("", "none", "0", "70000", "-1"):
        (tmp_path / "port").write_text(text, encoding="ascii")

        assert is_free(preferred_port(tmp_path / "port"))
