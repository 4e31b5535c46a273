"""Whose address a request has behind proxies, and who is throttled by it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyspider.webui.webdav as webdav
import pytest
from pyspider.webui.app import app as stock_app
from werkzeug.middleware.dispatcher import DispatcherMiddleware
from werkzeug.test import Client, TestResponse
from werkzeug.wrappers import Request, Response

from pyspider_zk.config import Settings
from pyspider_zk.webui.instance import ClusterWebUI
from pyspider_zk.webui.logins import PER_PEER
from pyspider_zk.webui.protection import RealIP, protected

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
