"""A cluster that crawls on a database server: starts and stops, deaths, and the server away."""

import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from pyspider_zk.client import Client
from tests.support.crawling_cluster import CrawlingCluster
from tests.support.database_servers import PASSWORD, DatabaseServer, MariaServer, PostgresServer

pytestmark = [pytest.mark.zk, pytest.mark.redis, pytest.mark.slow]

TIMES: Mapping[str, float] = {"renewal": 0.5, "lease": 10.0, "session": 15.0}
FINISH = 120.0  # seconds until all pages must be crawled at the end
KINDS = ("task", "project", "result")


@pytest.fixture(
    params=[
        pytest.param(PostgresServer, marks=pytest.mark.postgresql),
        pytest.param(MariaServer, marks=pytest.mark.mariadb),
    ],
    ids=lambda kind: kind.name,
)
def server(request: pytest.FixtureRequest) -> Iterator[DatabaseServer]:
    """Run a server of its own, for the test ends it in between."""
    made: DatabaseServer = request.param()
    with made:
        yield made
    made.remove()


@pytest.fixture
def cluster(server: DatabaseServer, tmp_path: Path) -> Iterator[CrawlingCluster]:
    urls = {kind: server.url(kind, f"{kind}db") for kind in KINDS}
    with CrawlingCluster(tmp_path, TIMES, databases=urls) as made:
        yield made


def status_of(cluster: CrawlingCluster, project: str) -> str:
    with cluster.open_database("project") as projectdb:
        return str(projectdb.get(project)["status"])


def done(client: Client, ask: Callable[..., Any], project: str) -> None:
    ended = client.wait(ask(names=[project]).id, timeout=180)
    assert (ended.done, ended.errors) == (1, {})


def left_of(cluster: CrawlingCluster, project: str) -> list[str]:
    """Return the kinds of the databases that know a project."""
    with ExitStack() as stack:
        task, of_projects, result = (stack.enter_context(cluster.open_database(k)) for k in KINDS)
        known = {"task": project in task.projects, "result": project in result.projects}
        known["project"] = of_projects.get(project) is not None
    return [kind for kind, there in known.items() if there]


def logged(cluster: CrawlingCluster, word: str) -> list[str]:
    """Return the processes in whose logs a word stands."""
    return [name for name, log in cluster.logs().items() if word in log.read_text("utf-8")]


def told(cluster: CrawlingCluster, secret: str) -> list[str]:
    """Return the files of the cluster, and arguments of its processes, that hold a secret."""
    places = [path for path in cluster.data.rglob("*") if path.is_file()]
    places += [Path(f"/proc/{pid}/cmdline") for pid in cluster.processes().values()]
    return [str(path) for path in places if secret.encode() in path.read_bytes()]


def test_no_page_is_lost_on_a_database_server(
    cluster: CrawlingCluster, server: DatabaseServer
) -> None:
    crawled = ["kept", "stopped", "grown"]
    cluster.crawl(crawled, rate=20)
    cluster.await_that("all crawl", cluster.advancing(crawled, 3))

    with Client(replace(cluster.settings, secret=cluster.secret)) as client:
        done(client, client.stop, "stopped")
        assert status_of(cluster, "stopped") == "STOP"
        victims = [pid for name, pid in cluster.processes().items() if "scheduler" in name]
        os.kill(victims[0], signal.SIGKILL)
        cluster.await_that("others crawl on", cluster.advancing(["kept", "grown"], 10))
        done(client, client.start, "stopped")
        cluster.await_that("it goes on", cluster.advancing(["stopped"], 3))

    survivors = cluster.processes()
    server.stop()
    cluster.await_that("it is missed", lambda: logged(cluster, "taskdb is away"))
    server.start()
    cluster.await_that("all crawl again", cluster.advancing(crawled, 3))
    assert {name: cluster.processes().get(name) for name in survivors} == survivors

    cluster.site.end_chains(crawled)
    assert cluster.unfinished(FINISH) == []
    with Client(replace(cluster.settings, secret=cluster.secret)) as client:
        done(client, client.delete, "stopped")
    assert left_of(cluster, "stopped") == []
    assert told(cluster, PASSWORD) == []
    assert told(cluster, quote(PASSWORD, safe="")) == []
