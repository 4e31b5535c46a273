"""The fetcher's own XML-RPC: the same admission check as the schedulers'."""

import http.client
import queue
import socket
import threading
import time
import xmlrpc.client
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import pytest
import umsgpack
from pyspider.libs.counter import TimebaseAverageWindowCounter

from pyspider_zk.cluster.records import Member
from pyspider_zk.components.wiring import TOGETHER_OPTION
from pyspider_zk.config import Settings
from pyspider_zk.errors import ClusterError, ConfigError
from pyspider_zk.hooks import ClusterFetcher
from pyspider_zk.rpc.client import call, credentials_of
from tests.support.connected import rpc_url
from tests.support.secured_servers import authority
from tests.support.stand_ins import running

LOOPBACK = "127.0.0.1"
EVERYWHERE = "0.0.0.0"  # noqa: S104 - it is refused
SECRET = "correct horse battery"  # noqa: S105 - of these tests
DEADLINE = 60.0
Serve = Callable[..., ClusterFetcher]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Give a function that serves a fetcher's XML-RPC; nothing of it runs but that."""
    with ExitStack() as stack:

        def serve(settings: Settings) -> ClusterFetcher:
            made = ClusterFetcher(None, None, settings=settings)
            stack.callback(made.close)
            stack.enter_context(running(made.xmlrpc_run, 0))
            stack.callback(made.rpc.stop)
            return made

        yield serve


def address(made: ClusterFetcher) -> str:
    return f"{LOOPBACK}:{made.rpc.bound(DEADLINE)[1]}"


def stock(made: ClusterFetcher, secret: str = SECRET) -> xmlrpc.client.ServerProxy:
    return xmlrpc.client.ServerProxy(rpc_url(address(made), secret), allow_none=True)


def test_it_answers_who_knows_the_secret(serve: Serve) -> None:
    with stock(serve(Settings(secret=SECRET))) as proxy:
        page = umsgpack.unpackb(proxy.fetch({"url": "data:,hello"}).data)
        assert (page["status_code"], page["content"]) == (200, "hello")
        assert proxy.size() == 0
        counted: Any = proxy.counter("5m", "sum")
    assert counted == {"None": {"200.0": 1}}


def test_one_of_several_under_one_command_takes_a_free_port_if_its_own_is_taken(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    first = serve(Settings())
    taken = first.rpc.bound(DEADLINE)[1]
    obj = {TOGETHER_OPTION: True, "config": {}}
    with click.Context(click.Command("all"), obj=obj), ExitStack() as stack:
        second = ClusterFetcher(None, None)
        stack.callback(second.close)
        stack.enter_context(running(second.xmlrpc_run, taken))
        stack.callback(second.rpc.stop)
        assert second.rpc.bound(DEADLINE)[1] not in (0, taken)
        with stock(second) as proxy:
            assert proxy.size() == 0
    assert f"port {taken} is taken" in caplog.text


@pytest.mark.parametrize("method", ["fetch", "size", "counter", "_quit", "system.listMethods"])
def test_it_answers_nobody_else(serve: Serve, method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspider_zk.rpc.server.HOLD_UP", 0.0)
    made = serve(Settings(secret=SECRET))
    for secret in ("", "another secret of ours"):
        with (
            stock(made, secret) as proxy,
            pytest.raises(xmlrpc.client.ProtocolError, match="401"),
        ):
            getattr(proxy, method)()


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "http://evil.example"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Content-Type": "text/plain"}, 415),
        ({"Host": "evil.example"}, 421),
    ],
)
def test_what_a_browser_can_be_made_to_send_is_refused(
    serve: Serve, headers: dict[str, str], status: int
) -> None:
    with closing(http.client.HTTPConnection(address(serve(Settings())), timeout=60)) as link:
        body = xmlrpc.client.dumps(({"url": "data:,x"},), "fetch")
        link.request("POST", "/", body, {"Content-Type": "text/xml", **headers})
        assert link.getresponse().status == status


@pytest.mark.parametrize("task", [None, [], {}, {"url": 7}, {"url": "data:,x", "fetch": 7}])
def test_what_is_no_task_is_refused_and_blocks_nobody(serve: Serve, task: Any) -> None:
    with stock(serve(Settings()), "") as proxy:
        with pytest.raises(xmlrpc.client.Fault, match="fetch: the task") as refused:
            proxy.fetch(task)
        assert refused.value.faultCode == 400
        assert proxy.fetch({"url": "data:,x"})


@pytest.mark.parametrize("asked", [("1y", "sum"), ("5m", "all"), ([], "sum"), ({}, {})])
def test_a_counter_that_is_none_is_refused(serve: Serve, asked: tuple[Any, Any]) -> None:
    with (
        stock(serve(Settings()), "") as proxy,
        pytest.raises(xmlrpc.client.Fault, match="there is no counter"),
    ):
        proxy.counter(*asked)


def test_a_page_may_end_while_counters_are_read(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = serve(Settings())

    def fetched(project: str) -> None:
        made.on_result("data", {"project": project}, {"status_code": 200})

    class SlowCounter(TimebaseAverageWindowCounter):  # type: ignore[misc]
        """A counter that is read as slowly as it takes to count another page."""

        @property
        def sum(self) -> int:
            ends.start()
            ends.join(0.5)
            return 1

    ends = threading.Thread(target=fetched, args=["later"])
    monkeypatch.setattr(made._cnt["5m"], "cls", SlowCounter)
    fetched("p")
    with stock(made, "") as proxy:
        assert proxy.counter("5m", "sum") == {"p": {"200.0": 1}}
    ends.join(DEADLINE)
    assert ("later", 200.0) in made._cnt["5m"].counters


def test_projects_without_pages_for_an_hour_are_no_longer_counted(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, now = serve(Settings()), time.time()
    for seconds, project in ((0, "gone"), (1800, "quiet"), (3700, "busy")):
        monkeypatch.setattr(time, "time", lambda at=now + seconds: at)
        made.on_result("data", {"project": project}, {"status_code": 200})
    assert {project for project, _ in made._cnt["1h"].counters} == {"quiet", "busy"}


def test_it_speaks_tls(serve: Serve, tmp_path: Path) -> None:
    files = authority(tmp_path)
    settings = Settings(
        secret=SECRET,
        xmlrpc_tls=True,
        xmlrpc_tls_ca=str(files.ca),
        xmlrpc_tls_certificate=str(files.server),
        xmlrpc_tls_key=str(files.server),
    )
    member = Member(f"https://localhost:{serve(settings).rpc.bound(DEADLINE)[1]}", "", 0, "", 0.0)
    assert call(member, "size", credentials=credentials_of(settings), timeout=DEADLINE) == 0


@pytest.mark.zk
def test_quit_is_off_unless_asked_for(cluster_settings: Settings) -> None:
    made = ClusterFetcher(queue.Queue(), queue.Queue(), settings=cluster_settings)
    with (
        running(made.run),
        running(made.xmlrpc_run, 0),
        stock(made, cluster_settings.secret) as proxy,
    ):
        with pytest.raises(xmlrpc.client.Fault, match=r"SIGTERM.*allow_quit"):
            proxy._quit()
        made.settings = replace(cluster_settings, allow_quit=True)
        proxy._quit()


@pytest.mark.zk
def test_it_ends_with_the_fetcher(cluster_settings: Settings) -> None:
    made = ClusterFetcher(queue.Queue(), queue.Queue(), settings=cluster_settings)
    with running(made.run), running(made.xmlrpc_run, 0):
        port = made.rpc.bound(DEADLINE)[1]
        made.quit()
    socket.create_server((LOOPBACK, port)).close()


@pytest.mark.zk
def test_an_address_that_others_reach_needs_a_secret(cluster_settings: Settings) -> None:
    made = ClusterFetcher(
        queue.Queue(), queue.Queue(), settings=replace(cluster_settings, secret="")
    )
    with running(made.run, raises=ConfigError):
        made.xmlrpc_run(0, EVERYWHERE)
    with pytest.raises(ConfigError, match=r"the fetcher's XML-RPC there may make it fetch"):
        made.rpc.bound(DEADLINE)


@pytest.mark.zk
def test_a_port_that_is_taken_ends_it_with_the_remedy(cluster_settings: Settings) -> None:
    with socket.create_server((LOOPBACK, 0)) as other:
        made = ClusterFetcher(queue.Queue(), queue.Queue(), settings=cluster_settings)
        with running(made.run, raises=ClusterError):
            made.xmlrpc_run(other.getsockname()[1])
