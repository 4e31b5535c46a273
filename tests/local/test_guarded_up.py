"""A whole cluster whose ZooKeeper and Redis want a login: nobody else sees anything of either."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

from pyspider_zk.config import Settings
from pyspider_zk.local.services import RedisServer, ZooKeeperServer
from pyspider_zk.zookeeper.connection import Connection
from tests.local.commands import command_lines, run
from tests.support.running_cluster import up

PASSWORDS = {"zookeeper": "zookeeper-HIDDEN-1", "redis": "redis-HIDDEN/2"}

pytestmark = [pytest.mark.zk, pytest.mark.redis, pytest.mark.slow]


@pytest.fixture
def own_redis(
    redis_server: RedisServer,  # noqa: ARG001 - without a Redis it skips the test
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[RedisServer]:
    """Give a Redis that wants a password."""
    with RedisServer(tmp_path_factory.mktemp("redis")) as server:
        with redis.Redis.from_url(server.url) as client:
            client.config_set("requirepass", PASSWORDS["redis"])
        yield server


@pytest.fixture
def login(
    zookeeper: ZooKeeperServer,
    own_redis: RedisServer,
    zk_root: str,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> Settings:
    """Put where everything is into the environment, the secrets into files."""
    folder = tmp_path_factory.mktemp("secrets")
    (folder / "zookeeper").write_text(PASSWORDS["zookeeper"], encoding="utf-8")
    url = f"redis://:{PASSWORDS['redis'].replace('/', '%2F')}@{own_redis.address}/0"
    (folder / "redis").write_text(url, encoding="utf-8")
    for file in folder.iterdir():
        file.chmod(0o600)
    monkeypatch.setenv("AMQP_URL_FILE", str(folder / "redis"))
    monkeypatch.setenv("PYSPIDER_ZK_HOSTS", zookeeper.address)
    monkeypatch.setenv("PYSPIDER_ZK_ROOT", zk_root)
    monkeypatch.setenv("PYSPIDER_ZK_USERNAME", "crawl")
    monkeypatch.setenv("PYSPIDER_ZK_PASSWORD_FILE", str(folder / "zookeeper"))
    return Settings(
        hosts=zookeeper.address, root=zk_root, username="crawl", password=PASSWORDS["zookeeper"]
    )


def open_to(stranger: KazooClient, paths: list[str]) -> list[str]:
    """Return which of the znodes somebody without the login can read."""

    def is_open(path: str) -> bool:
        try:
            stranger.get(path)
        except NoAuthError:
            return False
        return True

    return [path for path in paths if is_open(path)]


def tree(connection: Connection, path: str) -> list[str]:
    below = (tree(connection, f"{path}/{name}") for name in connection.children(path))
    return [path, *(each for paths in below for each in paths)]


def test_nothing_secret_is_shown_and_nothing_is_open(login: Settings, tmp_path: Path) -> None:
    with up(tmp_path, "--schedulers", "1") as running:
        lines = command_lines()
        told = {
            "up.json": (tmp_path / "data" / "up.json").read_text(encoding="utf-8"),
            "up's output": (tmp_path / "out.txt").read_text(encoding="utf-8"),
            **{log.name: log.read_text() for log in (tmp_path / "data" / "logs").glob("*.log")},
        }
        for command in (["status"], ["status", "--json"], ["dead-letters", "list"]):
            code, told[" ".join(command)] = run(tmp_path, *command)
            assert code == 0, told[" ".join(command)]
        owner, stranger = Connection(login), KazooClient(login.hosts)
        owner.start()
        stranger.start()
        paths = tree(owner, login.root)
        found = open_to(stranger, paths)
        owner.stop()
        stranger.stop()
        stranger.close()

    ours = [line for line in lines if str(running.zookeeper) in line]
    assert len(ours) >= 5
    assert [line for line in lines if "-HIDDEN" in line] == []
    assert [name for name, text in told.items() if "HIDDEN" in text] == []
    assert len(told) >= 9
    assert len(paths) > 20
    assert found == []


@pytest.mark.parametrize("command", [("up",), ("scheduler",), ("fetcher",), ("all",)])
@pytest.mark.parametrize("wrong", ["zookeeper", "redis"])
def test_a_wrong_password_ends_the_start_with_its_remedy(
    login: Settings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    wrong: str,
    command: tuple[str, ...],
) -> None:
    owner = Connection(login)
    owner.start()
    owner.ensure([login.root])
    owner.stop()
    variable = {"zookeeper": "PYSPIDER_ZK_PASSWORD_FILE", "redis": "AMQP_URL_FILE"}[wrong]
    file = tmp_path / "wrong"
    text = Path(os.environ[variable]).read_text(encoding="utf-8").replace("HIDDEN", "OTHER")
    file.write_text(text, encoding="utf-8")
    file.chmod(0o600)
    monkeypatch.setenv(variable, str(file))

    code, told = run(tmp_path, *command)

    assert code == 6, told
    remedy = {"zookeeper": "username, password and scheme", "redis": "(--message-queue or AMQP_URL"}
    assert remedy[wrong] in told
    assert "HIDDEN" not in told
    assert "OTHER" not in told
    assert "Traceback" not in told


def test_without_the_login_a_command_says_what_is_missing(
    login: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = Connection(login)
    owner.start()
    owner.ensure([login.root])
    owner.stop()
    monkeypatch.delenv("PYSPIDER_ZK_USERNAME")
    monkeypatch.delenv("PYSPIDER_ZK_PASSWORD_FILE")

    code, told = run(tmp_path, "status")

    assert code == 6
    assert "PYSPIDER_ZK_USERNAME" in told


def test_a_cluster_without_a_login_is_protected_by_a_command(
    login: Settings, tmp_path: Path
) -> None:
    former = Connection(Settings(hosts=login.hosts, root=login.root))
    former.start()
    former.ensure([f"{login.root}/a", f"{login.root}/b"])
    former.stop()

    assert run(tmp_path, "protect") == (
        0,
        f"3 znodes at {login.root} belong to 'crawl' alone\n",
    )
