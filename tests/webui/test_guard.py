"""Requests that another site makes a browser send change nothing."""

from collections.abc import Callable, Iterator
from typing import Any

import pyspider.webui.webdav as webdav
import pytest
from pyspider.webui.app import app as stock_app
from werkzeug.middleware.dispatcher import DispatcherMiddleware
from werkzeug.test import Client, TestResponse
from werkzeug.wrappers import Response

from pyspider_zk.webui.guard import Guard, guarded, is_foreign
from pyspider_zk.webui.instance import ClusterWebUI
from pyspider_zk.webui.readers import ReadersOnly

HOST = "crawl.example.org:5000"
TRUSTED = "https://front.example.org"

FOREIGN: list[dict[str, str]] = [
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Sec-Fetch-Site": "something new"},
    {"Sec-Fetch-Site": "cross-site", "Origin": f"http://{HOST}"},
    {"Origin": "http://evil.example.org"},
    {"Origin": "http://crawl.example.org"},
    {"Origin": "http://crawl.example.org:5000.evil.example.org"},
    {"Origin": f"http://{HOST}@evil.example.org"},
    {"Origin": "null"},
    {"Origin": "file://"},
    {"Referer": f"http://evil.example.org/{HOST}"},
    {"Origin": "http://evil.example.org", "Referer": f"http://{HOST}/"},
]
OWN: list[dict[str, str]] = [
    {},
    {"Sec-Fetch-Site": "same-origin", "Origin": f"http://{HOST}"},
    {"Sec-Fetch-Site": "same-origin", "Origin": "https://front-of-a-proxy.example.org"},
    {"Sec-Fetch-Site": "none"},
    {"Origin": f"http://{HOST}"},
    {"Origin": f"https://{HOST.upper()}"},
    {"Referer": f"http://{HOST}/debug/p?x=http://evil.example.org/"},
    {"Origin": TRUSTED},
    {"Origin": f"{TRUSTED}:443"},
    {"Sec-Fetch-Site": "cross-site", "Origin": TRUSTED},
]

Send = Callable[..., TestResponse]


def environ(headers: dict[str, str], method: str = "POST", host: str = HOST) -> dict[str, str]:
    named = {f"HTTP_{name.upper().replace('-', '_')}": value for name, value in headers.items()}
    return {"REQUEST_METHOD": method, "HTTP_HOST": host, **named}


@pytest.mark.parametrize("headers", FOREIGN)
def test_what_another_site_sends_is_foreign(headers: dict[str, str]) -> None:
    assert is_foreign(environ(headers), frozenset({TRUSTED}))


@pytest.mark.parametrize("headers", OWN)
def test_what_comes_from_the_own_pages_or_from_no_page_is_not(headers: dict[str, str]) -> None:
    assert not is_foreign(environ(headers), frozenset({TRUSTED}))


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "PROPFIND"])
def test_looking_is_allowed_from_anywhere(method: str) -> None:
    assert not is_foreign(environ({"Sec-Fetch-Site": "cross-site"}, method))


@pytest.mark.parametrize(
    ("origin", "host"),
    [("http://box", "box:80"), ("https://box:443", "box"), ("http://[::1]:80", "[::1]")],
)
def test_a_scheme_s_own_port_may_be_left_out(origin: str, host: str) -> None:
    assert not is_foreign(environ({"Origin": origin}, host=host))


# -- pyspider's own application --------------------------------------------------------------


@pytest.fixture
def send(ui: ClusterWebUI) -> Iterator[Send]:
    """Give the function that sends a request to pyspider's pages and WebDAV, guarded."""
    ui.config["projectdb"].insert(
        "p", {"status": "STOP", "script": "", "group": "", "comments": "", "rate": 1, "burst": 1}
    )
    with guarded(stock_app, [TRUSTED]):
        client = Client(DispatcherMiddleware(stock_app, {"/dav": webdav.dav_app}))
        yield lambda method, path, headers, **more: client.open(
            path, method=method, base_url=f"http://{HOST}", headers=headers, **more
        )


CHANGES: list[tuple[str, str, dict[str, Any]]] = [
    ("POST", "/update", {"data": {"pk": "p", "name": "status", "value": "RUNNING"}}),
    ("POST", "/debug/p/save", {"data": {"script": "import os"}}),
    ("POST", "/debug/p/run", {"data": {"script": "import os", "task": "{}"}}),
    ("POST", "/run", {"data": {"project": "p"}}),
    ("PUT", "/dav/p.py", {"data": b"import os"}),
    ("DELETE", "/dav/p.py", {}),
    ("MOVE", "/dav/p.py", {}),
]


@pytest.mark.parametrize(("method", "path", "more"), CHANGES)
@pytest.mark.parametrize("headers", [{"Sec-Fetch-Site": "cross-site"}, {"Origin": "http://evil"}])
def test_pages_and_webdav_refuse_other_sites_and_say_what_to_do(
    send: Send, ui: ClusterWebUI, method: str, path: str, more: Any, headers: Any
) -> None:
    before = ui.config["projectdb"].get("p")
    answer = send(method, path, headers, **more)
    assert (answer.status_code, answer.mimetype) == (403, "application/problem+json")
    assert "trusted_origins" in answer.get_data(as_text=True)
    assert ui.config["projectdb"].get("p") == before


@pytest.mark.parametrize("headers", [{}, {"Origin": f"http://{HOST}"}, {"Origin": TRUSTED}])
def test_scripts_and_own_pages_go_on_as_ever(
    send: Send, ui: ClusterWebUI, headers: dict[str, str]
) -> None:
    ui.config["scheduler_rpc"] = None
    update = {"pk": "p", "name": "status", "value": "RUNNING"}
    assert send("POST", "/update", headers, data=update).text == "ok"
    assert send("PUT", "/dav/p.py", headers, data=b"pass").status_code == 204
    row = ui.config["projectdb"].get("p")
    assert (row["status"], row["script"]) == ("CHECKING", "pass")


def test_pages_can_still_be_looked_at_from_a_link(send: Send) -> None:
    assert send("GET", "/", {"Sec-Fetch-Site": "cross-site"}).status_code == 200


def test_afterwards_pyspider_s_application_is_as_before() -> None:
    before = stock_app.wsgi_app, webdav.dav_app, dict(stock_app.config)
    with guarded(stock_app, []):
        assert isinstance(stock_app.wsgi_app, Guard)
        assert isinstance(webdav.dav_app, Guard)
        assert stock_app.config["SESSION_COOKIE_SAMESITE"] == "Lax"
        assert stock_app.config["SESSION_COOKIE_HTTPONLY"] is True
    assert (stock_app.wsgi_app, webdav.dav_app, dict(stock_app.config)) == before


ANN = {"webui_username": "ann", "webui_password": "secret"}
EVE = {"viewer_username": "eve", "viewer_password": "look"}

# -- readers ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "login", "status"),
    [
        ("GET", None, 200),
        ("POST", None, 401),
        ("POST", ("ann", "wrong"), 401),
        ("POST", ("bob", "secret"), 401),
        ("POST", ("ann", "secret"), 200),
        ("PUT", None, 401),
    ],
)
def test_only_who_is_logged_in_may_change_anything(
    method: str, login: tuple[str, str] | None, status: int
) -> None:
    client = Client(ReadersOnly(Response("done"), ANN | {"login_to_change": True}))
    with client.open("/update", method=method, auth=login) as answer:
        assert answer.status_code == status
        assert ("WWW-Authenticate" in answer.headers) == (status == 401)


@pytest.mark.parametrize("more", [{}, {"login_to_change": True}])
@pytest.mark.parametrize(
    ("method", "login", "status"),
    [
        ("GET", ("eve", "look"), 200),
        ("POST", ("eve", "look"), 403),
        ("PUT", ("eve", "look"), 403),
        ("POST", ("ann", "secret"), 200),
    ],
)
def test_a_viewer_may_look_and_is_told_who_may_change(
    more: dict[str, Any], method: str, login: tuple[str, str], status: int
) -> None:
    client = Client(ReadersOnly(Response("done"), ANN | EVE | more))
    with client.open("/update", method=method, auth=login) as answer:
        assert answer.status_code == status
        assert ("eve may only look" in answer.text) == (status == 403)


def test_without_a_name_that_was_set_nobody_is_logged_in() -> None:
    client = Client(ReadersOnly(Response("done"), {"login_to_change": True}))
    with client.post("/update", auth=("None", "")) as answer:
        assert answer.status_code == 401


def test_without_a_password_that_was_set_nobody_is_logged_in() -> None:
    config = {"webui_username": "ann", "login_to_change": True}
    client = Client(ReadersOnly(Response("done"), config))
    for password in ("", "None"):
        with client.post("/update", auth=("ann", password)) as answer:
            assert answer.status_code == 401


def test_no_other_site_may_frame_an_answer() -> None:
    with Client(Guard(Response("done"))).get("/") as answer:
        assert answer.headers["Content-Security-Policy"] == "frame-ancestors 'self'"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
    stricter = {"Content-Security-Policy": "frame-ancestors 'none'"}
    with Client(Guard(Response("done", headers=stricter))).get("/") as answer:
        assert answer.headers.getlist("Content-Security-Policy") == ["frame-ancestors 'none'"]


def test_broken_credentials_are_none() -> None:
    client = Client(ReadersOnly(Response("done"), ANN | {"login_to_change": True}))
    for text in ("Basic %%%", "Basic", "Bearer x", ""):
        with client.post("/update", headers={"Authorization": text}) as answer:
            assert answer.status_code == 401
