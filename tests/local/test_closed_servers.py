"""Who has an account on the machine, but not ours, gets nothing of the servers that `up` starts."""

import json
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

from pyspider_zk.config import Settings
from pyspider_zk.errors import Refused
from pyspider_zk.local.folder import Running, with_password
from pyspider_zk.local.services import RedisServer, ZooKeeperServer
from pyspider_zk.zookeeper.connection import Connection
from pyspider_zk.zookeeper.protection import close_server
from tests.local.commands import command_lines, run
from tests.support.running_cluster import settings_of, up

pytestmark = [pytest.mark.zk, pytest.mark.redis]

LOGIN = Settings(username="up", password="of-these-tests")  # noqa: S106
READABLE_BY_DEFAULT = {"/zookeeper/config"}  # ZooKeeper's own, which nobody can change
COMMANDS = (
    ("status",),
    ("status", "--json"),
    ("scale", "1"),
    ("events",),
    ("batches",),
    ("projects",),
    ("dead-letters", "list"),
)


@pytest.fixture(autouse=True)
def _needed(zookeeper: ZooKeeperServer, redis_server: RedisServer) -> None:
    """Skip where there is no ZooKeeper or no Redis; the tests start others."""


@contextmanager
def stranger(hosts: str) -> Iterator[KazooClient]:
    """Give a client that has no login."""
    client = KazooClient(hosts)
    client.start(20)
    try:
        yield client
    finally:
        client.stop()
        client.close()


def znodes(settings: Settings) -> list[str]:
    """Return the paths of all that a server holds."""
    connection = Connection(settings)
    connection.start()
    found = ["/"]
    try:
        for path in found:
            found += [f"{path.rstrip('/')}/{name}" for name in connection.children(path)]
    finally:
        connection.stop()
    return found


def open_to_strangers(settings: Settings) -> set[str]:
    """Return the znodes that somebody without the login can read, change or put others below."""

    def is_open(client: KazooClient, path: str) -> bool:
        below = f"{path.rstrip('/')}/stranger"
        tries = (
            lambda: client.get(path),
            lambda: client.set(path, b""),
            lambda: client.set_acls(path, client.get_acls(path)[0]),
            lambda: client.create(below),
        )
        return any(map(allowed, tries))

    paths = znodes(settings)
    assert len(paths) > 3
    with stranger(settings.hosts) as client:
        return {path for path in paths if is_open(client, path)}


def allowed(attempt) -> bool:
    try:
        attempt()
    except NoAuthError:
        return False
    return True


def asks_for_a_password(running: Running) -> bool:
    with redis.Redis.from_url(running.message_queue.replace("@", "")) as client:
        try:
            client.ping()
        except redis.AuthenticationError:
            return True
    return False


@pytest.mark.slow
def test_strangers_get_nothing_and_commands_need_no_options(
    tmp_path: Path,
) -> None:
    with up(tmp_path, "--schedulers", "1") as running:
        lines = "\n".join(command_lines())
        assert open_to_strangers(settings_of(running)) == READABLE_BY_DEFAULT
        assert asks_for_a_password(running)
        queue = running.message_queue.replace("@", "")
        named = ("--zookeeper", running.zookeeper, "--message-queue", queue)
        said = [run(tmp_path, *command) for command in (*COMMANDS, ("status", *named))]
        json.loads(said[1][1])

    data = tmp_path / "data"
    assert [code for code, _ in said] == [0] * len(said), said
    for file in (data / "zookeeper.password", data / "redis.password"):
        password = file.read_text(encoding="ascii").strip()
        assert len(password) >= 43
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert password not in lines
        assert password not in str(said)
        others = [path for path in tmp_path.rglob("*") if path.is_file() and path != file]
        assert len(others) > 10
        assert [path for path in others if password.encode() in path.read_bytes()] == []

    _lost_password_is_told(tmp_path)


def _lost_password_is_told(folder: Path) -> None:
    """Of servers that were closed with it, and were stopped in order."""
    (folder / "data" / "zookeeper.password").unlink()

    code, told = run(folder, "up", "--schedulers", "1")

    assert code == 6, told
    assert "Traceback" not in told
    assert "zookeeper.password" in told
    assert "delete" in told


@pytest.mark.slow
def test_what_was_open_before_is_closed_and_kept(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir(0o700)
    with ZooKeeperServer(data / "zookeeper") as former, stranger(former.address) as client:
        client.create("/pyspider-zk/scale", b"1", makepath=True)
        client.create("/mine/below", b"kept", makepath=True)
    with RedisServer(data / "redis") as server, redis.Redis.from_url(server.url) as queue:
        queue.set("kept", "x")

    with up(tmp_path, "--schedulers", "1") as running:
        settings = settings_of(running)
        assert open_to_strangers(settings) == READABLE_BY_DEFAULT
        assert {"/mine/below", "/pyspider-zk/scale"} <= set(znodes(settings))
        assert json.loads(run(tmp_path, "status", "--json")[1])["members"][0]["name"] == "up-0"
        url = with_password(running.message_queue, running.redis_password_file)
        with redis.Redis.from_url(url) as queue:
            assert queue.get("kept") == b"x"
    assert "4 znodes of before are closed" in (tmp_path / "out.txt").read_text(encoding="utf-8")


def test_who_was_there_first_at_the_birth_of_a_server_is_told(tmp_path: Path) -> None:
    server = ZooKeeperServer(tmp_path)
    assert server.unused
    with server:
        settings = Settings(hosts=server.address, username="up", password=LOGIN.password)
        with stranger(server.address) as client:
            client.create("/pyspider-zk/assignment", b"forged", makepath=True)
        with pytest.raises(Refused, match="somebody else wrote /pyspider-zk while"):
            close_server(settings, empty=True)


def test_what_has_another_login_is_left_to_it_but_for_the_cluster(tmp_path: Path) -> None:
    with ZooKeeperServer(tmp_path) as server:
        other = Settings(hosts=server.address, root="/theirs", username="them", password="x" * 16)
        settings = Settings(hosts=server.address, username="up", password=LOGIN.password)
        theirs = Connection(other)
        theirs.start()
        theirs.ensure(["/theirs"], b"kept")

        assert close_server(settings, empty=False) == 0

        assert theirs.find("/theirs")[0] == b"kept"
        theirs.stop()
        with stranger(server.address) as client, pytest.raises(NoAuthError):
            client.get("/theirs")


def test_a_cluster_of_another_login_is_not_taken_over(tmp_path: Path) -> None:
    with ZooKeeperServer(tmp_path) as server:
        assert not server.unused
        other = Settings(hosts=server.address, username="them", password="x" * 16)
        theirs = Connection(other)
        theirs.start()
        theirs.ensure([other.root])
        theirs.stop()
        settings = Settings(hosts=server.address, username="up", password=LOGIN.password)
        with pytest.raises(Refused, match="refuses the login 'up'"):
            close_server(settings, empty=False)


def test_a_server_is_closed_once(tmp_path: Path) -> None:
    with ZooKeeperServer(tmp_path) as server:
        settings = Settings(hosts=server.address, username="up", password=LOGIN.password)
        with stranger(server.address) as client:
            client.create("/pyspider-zk/a", makepath=True)
        assert close_server(settings, empty=False) == 2
        assert close_server(settings, empty=False) == 0
        assert open_to_strangers(settings) == READABLE_BY_DEFAULT


def test_a_redis_with_a_password_lets_in_who_knows_it(tmp_path: Path) -> None:
    odd = 'a "quoted" päss/word@host'
    with RedisServer(tmp_path, password=odd) as server:
        with redis.Redis.from_url(server.url) as client:
            assert client.ping()
        with (
            redis.Redis.from_url(f"redis://{server.address}/0") as client,
            pytest.raises(redis.AuthenticationError),
        ):
            client.ping()
    assert [p for p in tmp_path.rglob("*") if p.is_file() and odd.encode() in p.read_bytes()] == []
