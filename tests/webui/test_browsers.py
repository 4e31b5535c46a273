"""Another site's requests change nothing; browsers are told what not to do with each answer."""

from collections.abc import Callable, Iterator
from typing import Any

import pyspider.webui.webdav as webdav
import pytest
from pyspider.webui.app import app as stock_app
from werkzeug.middleware.dispatcher import DispatcherMiddleware
from werkzeug.test import Client, TestResponse, run_wsgi_app
from werkzeug.wrappers import Response

from pyspider_zk.config import Settings
from pyspider_zk.webui.browsers import Guard, Headers, Hosts, hosts_of, is_foreign, policy_for
from pyspider_zk.webui.instance import ClusterWebUI
from pyspider_zk.webui.protection import protected

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
    {"Origin": f"http://evil{HOST}"},
    {"Origin": f"http://evil@{HOST}"},
    {"Origin": f"http://{HOST}\\@evil.example.org"},
    {"Origin": f"http://{HOST}, http://evil.example.org"},
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


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("/", "a=\xb7"),
        ("/results", "\xff"),
        ("/a\nb", ""),
        ("/\0", ""),
        ("/\x7f", ""),
        ("/\r", ""),
        ("a\nb", ""),
        ("update", ""),
    ],
)
def test_an_address_that_nobody_can_read_is_refused(path: str, query: str) -> None:
    asked = {**environ({}, "GET", "localhost"), "PATH_INFO": path, "QUERY_STRING": query}

    answer = run_wsgi_app(DispatcherMiddleware(Guard(Response("done")), {"/dav": None}), asked)

    assert answer[1] == "400 Bad Request"
    assert b"%-encoded" in b"".join(answer[0])


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
    settings = Settings(trusted_origins=(TRUSTED,), trusted_hosts=(HOST,))
    with protected(stock_app, settings, lambda _: None):
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
    assert send("GET", "/debug/p/get", {"Sec-Fetch-Site": "cross-site"}).status_code == 200


def test_afterwards_pyspider_s_application_is_as_before() -> None:
    before = stock_app.wsgi_app, webdav.dav_app, dict(stock_app.config)
    hooks = {name: list(each) for name, each in stock_app.after_request_funcs.items()}
    with protected(stock_app, Settings(), lambda _: None):
        assert isinstance(stock_app.wsgi_app, Headers)
        assert isinstance(webdav.dav_app, Headers)
        assert stock_app.config["SESSION_COOKIE_SAMESITE"] == "Strict"
        assert stock_app.config["SESSION_COOKIE_HTTPONLY"] is True
    assert (stock_app.wsgi_app, webdav.dav_app, dict(stock_app.config)) == before
    assert {name: each for name, each in stock_app.after_request_funcs.items() if each} == hooks


# -- names -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given", ["localhost", "LOCALHOST:5000", "127.0.0.1:80", "127.8.9.1", "[::1]:5000", "[::1]"]
)
def test_loopback_is_known_by_every_name(given: str) -> None:
    assert Hosts().know(given)


@pytest.mark.parametrize(
    "given",
    [
        "",
        "evil.example.org",
        "evilcrawl.example.org",
        "crawl.example.org.evil.example.org",
        "crawl.example.org@evil.example.org",
        "evil.example.org:crawl.example.org",
        "crawl.example.org:port",
        "localhost.evil.example.org",
        "127.0.0.1.evil.example.org",
        "192.0.2.1",
        "crawl.example.org/",
        "crawl.example.org\n",
    ],
)
def test_no_other_name_is_known(given: str) -> None:
    assert not hosts_of("127.0.0.1", ["crawl.example.org"], []).know(given)


@pytest.mark.parametrize(
    ("listens", "named", "origins", "given"),
    [
        ("192.0.2.1", [], [], "192.0.2.1:5000"),
        ("box", [], [], "BOX:5000"),
        ("2001:db8::1", [], [], "[2001:db8::1]:5000"),
        ("127.0.0.1", ["crawl.example.org:5000"], [], "crawl.example.org"),
        ("127.0.0.1", [], ["https://crawl.example.org"], "crawl.example.org:443"),
        ("0.0.0.0", [], [], "192.0.2.1:5000"),  # noqa: S104 - asked about
        ("", [], [], "[2001:db8::1]:5000"),
    ],
)
def test_where_it_listens_and_what_was_set_is_known(
    listens: str, named: list[str], origins: list[str], given: str
) -> None:
    assert hosts_of(listens, named, origins).know(given)


def test_a_name_is_not_known_because_it_listens_everywhere() -> None:
    assert not hosts_of("", [], []).know("evil.example.org")


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_site_whose_name_leads_here_is_refused(method: str) -> None:
    name = "evil.example.org:5000"
    headers = {"Host": name, "Origin": f"http://{name}", "Sec-Fetch-Site": "same-origin"}
    with Client(Guard(Response("done"))).open("/", method=method, headers=headers) as answer:
        assert answer.status_code == 403
        assert "trusted_hosts" in answer.text


PAGES = [
    "/",
    "/results",
    "/cluster/",
    "/cluster/editor",
    "/api/v1/batches",
    "/login/",
    "/dav/",
    "/clusterx",
]


def directives(policy: str) -> dict[str, list[str]]:
    split = [each.split() for each in policy.split(";")]
    return {each[0]: each[1:] for each in split}


@pytest.mark.parametrize("path", PAGES)
def test_no_page_runs_code_of_others_or_its_own_markup(path: str) -> None:
    told = directives(policy_for(path))
    for kind in ("script-src", "style-src"):
        assert told.get(kind, told["default-src"]) == ["'self'"]
    assert told["object-src"] == told["base-uri"] == told["frame-ancestors"] == ["'none'"]
    assert told["form-action"] == ["'self'"]


def test_a_crawled_page_runs_nothing_and_only_the_editor_frames_it() -> None:
    told = directives(policy_for("/blank.html"))
    assert told["default-src"] == ["'none'"]
    assert "script-src" not in told
    assert told["frame-ancestors"] == ["'self'"]


@pytest.mark.parametrize(
    ("cdn", "source"),
    [("//cdn.example.org/libs/", "cdn.example.org"), ("https://a.b:1/c", "https://a.b:1")],
)
def test_a_cdn_that_was_named_may_send_libraries(cdn: str, source: str) -> None:
    told = directives(policy_for("/cluster/editor", cdn))
    assert told["script-src"] == told["style-src"] == ["'self'", source]
    assert told["default-src"] == ["'self'"]
    assert source not in policy_for("/cluster/", cdn)


@pytest.mark.parametrize(
    ("path", "kept"), [("/", False), ("/queues", False), ("/static/x.js", True), ("/dav/", False)]
)
def test_no_cache_keeps_what_has_data(path: str, kept: bool) -> None:
    with Client(Headers(Response("x"))).get(path) as answer:
        assert ("no-store" in answer.headers.get("Cache-Control", "")) is not kept
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Referrer-Policy"] == "same-origin"


def test_what_the_application_says_stands() -> None:
    said = {"Content-Security-Policy": "sandbox"}
    with Client(Headers(Response("x", headers=said))).get("/") as answer:
        assert answer.headers.getlist("Content-Security-Policy") == ["sandbox"]
