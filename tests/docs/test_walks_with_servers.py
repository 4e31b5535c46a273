"""Walks through the pages for those who have a ZooKeeper, a Redis and databases of their own."""

import json
from pathlib import Path

import pytest

from pyspider_zk.local.services import ZooKeeperServer
from tests.docs.pages import ROOT
from tests.docs.walk import Ground, walk
from tests.support.database_servers import PostgresServer
from tests.support.ports import own_port

WITH_SERVERS = [
    "docs/tutorial/three-machines.md",
    "docs/how-to/several-machines.md",
    "docs/how-to/secure.md",
    "docs/how-to/users.md",
    "docs/controller.md",
    "docs/job-queue.md",
]
TYPED = {
    "pyspider-zk user set ann": "one of ann's\n",
    "python -c 'import getpass": "a reader's\n",
}

pytestmark = [
    pytest.mark.zk,
    pytest.mark.redis,
    pytest.mark.postgresql,
    pytest.mark.slow,
]


@pytest.fixture
def databases(postgresql: PostgresServer) -> dict[str, str]:
    """Give the URLs of three databases, by what the pages call them."""
    found = {}
    for kind in ("task", "project", "result"):
        url = postgresql.url(kind, postgresql.new_name())
        for host in ("db1", "crawl1"):
            found[f"sqlalchemy+postgresql+{kind}db://crawl:PASSWORD@{host}/{kind}db"] = url
    return found


@pytest.fixture
def services(zookeeper: ZooKeeperServer, zk_root: str, redis_url: str) -> dict[str, str]:
    """Give the ZooKeeper and the Redis, by what the pages call them."""
    return {
        "zk1:2181,zk2:2181,zk3:2181": f"{zookeeper.address}{zk_root}",
        "crawl1:2181,crawl2:2181,crawl3:2181": zookeeper.address,
        '"root": "/crawl"': f'"root": "{zk_root}"',
        "127.0.0.1:2181": f"{zookeeper.address} {zk_root}",
        "redis://redis1:6379/0": redis_url,
        "redis://:PASSWORD@crawl1:6379/0": redis_url,
    }


@pytest.fixture
def machine() -> dict[str, str]:
    """Give what a machine has of its own, by what the pages call it."""
    return {
        "/etc/pyspider-zk.secret": "secret-of-all",
        "python docs/": f"python {ROOT}/docs/",
        "~/pyspider-zk": str(ROOT),
        "http.server 8000 --bind crawl1": f"http.server {own_port()} --bind 127.0.0.1",
        "0.0.0.0": "127.0.0.1",  # noqa: S104
        "config.json webui": f"config.json webui --port {own_port()}",
    }


@pytest.fixture
def folder(tmp_path: Path, zookeeper: ZooKeeperServer, zk_root: str, redis_url: str) -> Path:
    """Give a folder with the files of somebody who has a cluster already."""
    section = {"hosts": zookeeper.address, "root": zk_root, "username": "crawl", "password": "x"}
    config = {
        "taskdb": "sqlite+taskdb:///task.db",
        "projectdb": "sqlite+projectdb:///project.db",
        "message_queue": redis_url,
        "zookeeper": section,
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "password.txt").write_text("one of olga's\n")
    return tmp_path


@pytest.mark.parametrize("page", WITH_SERVERS)
def test_a_page_for_servers_of_ones_own(
    page: str,
    folder: Path,
    services: dict[str, str],
    databases: dict[str, str],
    machine: dict[str, str],
) -> None:
    walk(page, Ground(folder, services | databases | machine, TYPED))
