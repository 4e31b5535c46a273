"""Each change by pyspider's pages and by WebDAV leaves an event."""

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pyspider.webui.webdav as webdav
import pytest
from pyspider.webui.app import app as stock_app
from werkzeug.middleware.dispatcher import DispatcherMiddleware
from werkzeug.test import Client, TestResponse

from pyspider_zk.cluster.events import Event
from pyspider_zk.config import Settings
from pyspider_zk.errors import Unavailable
from pyspider_zk.webui.instance import ClusterWebUI
from pyspider_zk.webui.protection import protected

ANN = ("ann", "secret")

Send = Callable[..., TestResponse]


@pytest.fixture
def events() -> list[Event]:
    return []


@pytest.fixture
def send(ui: ClusterWebUI, events: list[Event]) -> Iterator[Send]:
    """Give the function that sends Ann's requests to pyspider's pages and WebDAV."""
    yield from sending(ui, events.append)


def sending(ui: ClusterWebUI, append: Callable[[Event], Any]) -> Iterator[Send]:
    row = {"status": "STOP", "script": "", "group": "", "comments": "", "rate": 1, "burst": 1}
    ui.config["projectdb"].insert("p", row)
    ui.config.update(webui_username=ANN[0], webui_password=ANN[1], scheduler_rpc=None)
    with protected(stock_app, Settings(), append):
        client = Client(DispatcherMiddleware(stock_app, {"/dav": webdav.dav_app}))
        yield lambda method, path, **more: client.open(
            path, method=method, **({"auth": ANN, "base_url": "http://localhost"} | more)
        )


UPDATE = {"pk": "p", "name": "status", "value": "RUNNING"}
TASK = '{"taskid": "t", "project": "p", "url": "data:,x", "process": {"callback": "f"}}'
CHANGES: list[tuple[str, str, dict[str, Any], str, str, list[str]]] = [
    ("POST", "/update", {"data": UPDATE}, "change", "done", ["p"]),
    ("POST", "/update", {"data": UPDATE | {"pk": "q"}}, "change", "refused (404)", ["q"]),
    ("POST", "/debug/p/save", {"data": {"script": "#"}}, "script", "done", ["p"]),
    ("POST", "/debug/p/run", {"data": {"script": "#", "task": TASK}}, "trial", "done", ["p"]),
    ("PUT", "/dav/p.py", {"data": b"#"}, "script", "done", ["p"]),
    ("PUT", "/dav/new.py", {"data": b"#"}, "script", "done", ["new"]),
    ("PUT", "/dav/p.py/.", {"data": b"#"}, "script", "done", ["p"]),
    ("DELETE", "/dav/p.py", {}, "script", "refused (403)", ["p"]),
    (
        "MOVE",
        "/dav/p.py",
        {"headers": {"Destination": "http://localhost/dav/q%2Epy"}},
        "script",
        "refused (403)",
        ["p", "q"],
    ),
]


@pytest.mark.parametrize(("method", "path", "more", "kind", "result", "projects"), CHANGES)
def test_a_change_is_told_with_who_what_and_result(
    send: Send,
    events: list[Event],
    method: str,
    path: str,
    more: dict[str, Any],
    kind: str,
    result: str,
    projects: list[str],
) -> None:
    send(method, path, **more)
    (event,) = events
    assert (event.kind, event.who) == (kind, "ann")
    assert (event.data["result"], event.data["projects"]) == (result, projects)
    assert event.text.endswith(f": {result}")
    assert event.at > 1e9


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/debug/p/get"), ("PROPFIND", "/dav/"), ("GET", "/dav/p.py")],
)
def test_looking_leaves_no_event(send: Send, events: list[Event], method: str, path: str) -> None:
    assert send(method, path).status_code < 300
    assert events == []


def test_what_never_came_so_far_leaves_none(send: Send, events: list[Event]) -> None:
    assert send("POST", "/update", data=UPDATE, auth=("ann", "guess")).status_code == 401
    headers = {"Origin": "http://evil.example.org"}
    assert send("PUT", "/dav/p.py", headers=headers, data=b"#").status_code == 403
    assert send("DELETE", "/dav/p.py", base_url="http://evil").status_code == 403
    assert events == []


def test_who_is_not_logged_in_has_no_name(send: Send, events: list[Event]) -> None:
    assert send("POST", "/update", data=UPDATE, auth=None).text == "ok"
    assert events[0].who == ""


def test_a_script_or_a_long_value_is_not_in_the_log(send: Send, events: list[Event]) -> None:
    send("POST", "/debug/p/save", data={"script": "hush"})
    send("POST", "/update", data={"pk": "p" * 1000, "name": "n" * 1000, "value": "v" * 1000})
    assert all("hush" not in str(event) and len(str(event)) < 500 for event in events)


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/"), ("GET", "/queues"), ("POST", "/nowhere")]
)
def test_a_form_that_no_page_reads_is_not_read(
    send: Send, monkeypatch: pytest.MonkeyPatch, method: str, path: str
) -> None:
    monkeypatch.setitem(stock_app.config, "MAX_CONTENT_LENGTH", 10)
    assert send(method, path, data={"pk": "p" * 20}).status_code < 500


@pytest.mark.parametrize("path", ["/update", "/run", "/debug/p/save"])
def test_a_form_that_is_too_large_is_refused_even_if_its_page_does_not_read_it(
    send: Send, events: list[Event], monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setitem(stock_app.config, "MAX_CONTENT_LENGTH", 10)
    assert send("POST", path, data={"pk": "p" * 20}).status_code == 413
    assert [event.data["result"] for event in events] == ["refused (413)"]


def test_an_event_log_that_is_away_undoes_nothing_and_is_told(
    ui: ClusterWebUI, caplog: pytest.LogCaptureFixture
) -> None:
    def away(_: Event) -> None:
        raise Unavailable("no ZooKeeper")

    for send in sending(ui, away):
        with caplog.at_level(logging.WARNING):
            assert send("PUT", "/dav/p.py", data=b"# new").status_code == 204
            assert send("POST", "/update", data=UPDATE).text == "ok"
    row = ui.config["projectdb"].get("p")
    assert (row["script"], row["status"]) == ("# new", "RUNNING")
    assert "PUT of p by WebDAV: done by ann; it is not in the event log" in caplog.text
    assert "set status of p" in caplog.text
