"""Whose address a request has, who may send much, and that what was lent is taken back."""

import threading
import tracemalloc
from base64 import b64encode
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from http.client import HTTPConnection
from types import SimpleNamespace
from typing import Any

import pyspider.webui  # noqa: F401 - it registers the views
import pyspider.webui.webdav as webdav
import pytest
from pyspider.webui.app import app as stock_app
from werkzeug.middleware.dispatcher import DispatcherMiddleware
from werkzeug.test import Client, TestResponse
from werkzeug.wrappers import Request, Response

from pyspider_zk.config import Settings
from pyspider_zk.webui.instance import ClusterWebUI
from pyspider_zk.webui.logins import PER_PEER
from pyspider_zk.webui.page_data import configured, replaced
from pyspider_zk.webui.protection import RealIP, protected
from tests.support.strangers import LOOPBACK, connected, told

PROXIES = ("192.0.2.1/32", "10.0.0.0/8", "2001:db8::/64")


def visitor(peer: str, *reported: str, proxies: tuple[str, ...] = PROXIES) -> str:
    """Return the address that an application is told."""

    @Request.application
    def application(request: Request) -> Response:
        return Response(request.remote_addr)

    headers = [("X-Forwarded-For", ", ".join(reported))] if reported else []
    client = Client(RealIP(application, proxies))
    return client.get("/", headers=headers, environ_base={"REMOTE_ADDR": peer}).text


@pytest.mark.parametrize(
    ("peer", "reported", "told"),
    [
        ("192.0.2.1", ["198.51.100.7"], "198.51.100.7"),
        ("192.0.2.1", ["203.0.113.9", "198.51.100.7"], "198.51.100.7"),
        ("192.0.2.1", ["203.0.113.9", "198.51.100.7", "10.1.2.3"], "198.51.100.7"),
        ("192.0.2.1", ["10.9.9.9", "198.51.100.7", "10.1.2.3"], "198.51.100.7"),
        ("192.0.2.1", ["10.9.9.9", "10.1.2.3"], "10.9.9.9"),
        ("192.0.2.1", ["2001:DB8:0:1::7"], "2001:db8:0:1::7"),
        ("2001:db8::1", ["198.51.100.7"], "198.51.100.7"),
        ("::ffff:192.0.2.1", ["::ffff:198.51.100.7"], "198.51.100.7"),
        ("192.0.2.1", [], "192.0.2.1"),
    ],
)
def test_the_last_address_that_is_no_proxy_s_is_the_visitor_s(
    peer: str, reported: list[str], told: str
) -> None:
    assert visitor(peer, *reported) == told


@pytest.mark.parametrize("peer", ["192.0.2.2", "198.51.100.7", "2001:db8:0:1::1"])
def test_who_is_no_proxy_is_not_believed(peer: str) -> None:
    assert visitor(peer, "203.0.113.9") == peer
    assert visitor(peer, "203.0.113.9", proxies=()) == peer


@pytest.mark.parametrize("junk", ["unknown", "", "198.51.100.7:80", "_hidden", "x" * 9000, "1.2.3"])
def test_what_is_no_address_is_not_believed_nor_what_stands_before_it(junk: str) -> None:
    assert visitor("192.0.2.1", "203.0.113.9", junk) == "192.0.2.1"
    assert visitor("192.0.2.1", "203.0.113.9", junk, "10.1.2.3") == "10.1.2.3"


@contextmanager
def served(ui: ClusterWebUI, events: list[Any], **settings: Any) -> Iterator[Client]:
    ui.config.update(webui_username="ann", webui_password="secret", need_auth=True)  # noqa: S106
    with protected(ui.flask_app, Settings(**settings), events.append):
        both = DispatcherMiddleware(stock_app.wsgi_app, {"/dav": webdav.dav_app})
        yield Client(both)


def sent(client: Client, path: str, address: str, **request: Any) -> TestResponse:
    peer, headers = {"REMOTE_ADDR": "127.0.0.1"}, {"X-Forwarded-For": address}
    method = request.pop("method", "POST")
    return client.open(path, method=method, environ_base=peer, headers=headers, **request)


def log_in(client: Client, address: str, password: str) -> int:
    login = {"name": "ann", "password": password}
    return sent(client, "/login/", address, data=login).status_code


@pytest.mark.parametrize(("proxies", "others"), [((), 429), (("127.0.0.1",), 401)])
def test_behind_a_trusted_proxy_nobody_locks_out_the_others(
    ui: ClusterWebUI, proxies: tuple[str, ...], others: int
) -> None:
    with served(ui, [], trusted_proxies=proxies) as client:
        for number in range(PER_PEER.burst):
            guess = {"name": f"user{number}", "password": "guess"}
            assert sent(client, "/login/", "198.51.100.7", data=guess).status_code == 401
        assert log_in(client, "198.51.100.7", "guess") == 429
        assert log_in(client, "203.0.113.2", "guess") == others


def test_the_log_and_events_tell_the_visitor_s_address(
    ui: ClusterWebUI, caplog: pytest.LogCaptureFixture
) -> None:
    events: list[Any] = []
    with served(ui, events, trusted_proxies=("127.0.0.0/8",)) as client:
        log_in(client, "203.0.113.1", "guess")
        sent(client, "/dav/p.py", "203.0.113.1", method="PUT", data="", auth=("ann", "secret"))
    assert "wrong login to the web UI as 'ann' from 203.0.113.1" in caplog.text
    assert [event.data["peer"] for event in events] == ["203.0.113.1"]


def test_the_login_page_says_how_to_log_out(ui: ClusterWebUI) -> None:
    with served(ui, []) as client:
        by_password = client.get("/login/", auth=("ann", "secret")).text
        assert "close it to log out" in by_password
        assert "/login/out" not in by_password
        log_in(client, "203.0.113.1", "secret")
        assert 'action="/login/out"' in client.get("/login/").text


DEADLINE = 60.0
LOGINS = {"need_auth": True, "webui_username": "ann", "webui_password": "secret"}
VIEWER = Settings(viewer_username="eve", viewer_password="secret")  # noqa: S106 - of these tests
HEAD = b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 16000000\r\n"


@pytest.fixture
def port() -> Iterator[int]:
    with configured(stock_app.config, LOGINS), protected(stock_app, VIEWER, lambda *_: None):
        serving = threading.Thread(target=stock_app.run, kwargs={"port": 0})
        serving.start()
        assert stock_app.ready.wait(DEADLINE)
        yield stock_app.port
        stock_app.quit()
        serving.join(DEADLINE)


def post(port: int, path: str, size: int, name: str = "", **headers: str) -> int:
    if name:
        headers["Authorization"] = f"Basic {b64encode(f'{name}:secret'.encode()).decode()}"
    with closing(HTTPConnection(LOOPBACK, port, timeout=DEADLINE)) as link:
        link.request("POST", path, b"x" * size, headers)
        return link.getresponse().status


def test_unfinished_logins_hold_no_memory(port: int) -> None:
    post(port, "/login/", 10)
    tracemalloc.start()
    try:
        with connected(port, HEAD % b"/login/" + b"\r\n" + b"x" * 2**20, 70) as links:
            said = {told(each)[:12] for each in links}
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert said <= {b"HTTP/1.1 413", b""}
    assert most < 16 * 2**20


@pytest.mark.parametrize(
    ("name", "path", "status"),
    [
        ("", "/nothing", 401),
        ("", "/login/", 413),
        ("", "/dav/p.py", 401),
        ("eve", "/nothing", 403),
        ("ann", "/nothing", 404),
        ("ann", "/login/", 413),
    ],
)
def test_who_may_send_a_large_body(port: int, name: str, path: str, status: int) -> None:
    assert post(port, path, 100_000, name) == status


def test_another_site_sends_no_large_body_on_behalf_of_an_admin(port: int) -> None:
    assert post(port, "/nothing", 100_000, "ann", Origin="http://evil.example") == 403


def test_a_wrong_password_is_counted_once_for_a_large_body(
    port: int, caplog: pytest.LogCaptureFixture
) -> None:
    head = HEAD % b"/nothing" + b"Authorization: Basic YW5uOng=\r\n\r\n"
    with connected(port, head) as links:
        assert told(links[0]).startswith(b"HTTP/1.1 401")
    assert caplog.text.count("wrong login to the web UI") == 1


def test_settings_are_as_before_once_the_block_ends() -> None:
    config = {"kept": 1, "other": 2}

    with suppress(OSError), configured(config, {"kept": 7, "new": 8}):
        assert config == {"kept": 7, "other": 2, "new": 8}
        config["other"] = 3
        raise OSError("away")

    assert config == {"kept": 1, "other": 3}


def test_an_attribute_is_as_before_once_the_block_ends() -> None:
    owner = SimpleNamespace(app="before")

    with suppress(OSError), replaced(owner, "app", "now"):
        assert owner.app == "now"
        raise OSError("away")

    assert owner.app == "before"
