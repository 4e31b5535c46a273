"""Each may do what their role is for, whatever way they take."""

import threading
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from pyspider.libs.wsgi_server import WSGIServer
from werkzeug.test import Client
from werkzeug.wrappers import Response

from pyspider_zk.webui.access import Access, needed_role
from pyspider_zk.webui.accounts import FileAccounts, all_accounts
from pyspider_zk.webui.logins import PER_PEER, Logins, LoginSessions, Throttle
from pyspider_zk.webui.users import Role, change_users

ANN = {"webui_username": "ann", "webui_password": "secret"}
EVE = {"viewer_username": "eve", "viewer_password": "look"}
OLGA = ("olga", "correct horse")


def client(config: dict[str, Any], path: Path | None = None) -> Client:
    accounts = all_accounts(config, FileAccounts(path).read if path else dict)
    logins = Logins(accounts, Throttle(lambda: 0.0), LoginSessions("k"))
    return Client(Access(Response("done"), logins, config))


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
    opened = client(ANN | {"login_to_change": True})
    with opened.open("/update", method=method, auth=login) as answer:
        assert answer.status_code == status
        assert ("WWW-Authenticate" in answer.headers) == (status == 401)


@pytest.mark.parametrize("more", [{}, {"login_to_change": True}, {"need_auth": True}])
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
    with client(ANN | EVE | more).open("/update", method=method, auth=login) as answer:
        assert answer.status_code == status
        assert ("eve may only look" in answer.text) == (status == 403)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/debug/p", 200),
        ("POST", "/update", 200),
        ("POST", "/api/v1/batches", 200),
        ("POST", "/debug/p/save", 403),
        ("POST", "/debug/p/run", 403),
        ("PUT", "/dav/p.py", 403),
        ("PUT", "/api/v1/projects/p/script", 403),
    ],
)
def test_an_operator_starts_and_stops_and_edits_no_script(
    tmp_path: Path, method: str, path: str, status: int
) -> None:
    file = tmp_path / "users.json"
    change_users(file, Role.OPERATOR, *OLGA)
    with client({}, file).open(path, method=method, auth=OLGA) as answer:
        assert answer.status_code == status
        assert ("log in as an admin" in answer.text) == (status == 403)


def test_with_need_auth_nobody_looks_without_a_login_but_at_the_login_page() -> None:
    opened = client(ANN | {"need_auth": True})
    for path, status in (("/", 401), ("/loginx", 401), ("/login", 200), ("/login/", 200)):
        with opened.get(path) as answer:
            assert answer.status_code == status


@pytest.mark.parametrize("config", [{}, {"webui_username": "ann"}, {"webui_password": "secret"}])
@pytest.mark.parametrize("login", [("None", ""), ("ann", ""), ("ann", "None"), ("", "secret")])
def test_without_a_name_and_a_password_that_were_set_nobody_is_logged_in(
    config: dict[str, Any], login: tuple[str, str]
) -> None:
    with client(config | {"login_to_change": True}).post("/update", auth=login) as answer:
        assert answer.status_code == 401


def test_what_a_page_reads_by_itself_makes_no_browser_prompt_for_a_password() -> None:
    opened, by_itself = client(ANN | {"need_auth": True}), {"X-Requested-With": "fetch"}
    for login in (None, ("ann", "wrong")):
        with opened.get("/", auth=login, headers=by_itself) as answer:
            assert (answer.status_code, "WWW-Authenticate" in answer.headers) == (401, False)
        with opened.get("/", auth=login) as answer:
            assert answer.headers["WWW-Authenticate"].startswith("Basic")


def test_a_refused_head_is_answered_over_the_wire() -> None:
    config = ANN | {"need_auth": True}
    logins = Logins(all_accounts(config, dict), Throttle(lambda: 0.0), LoginSessions("k"))
    server = WSGIServer(Access(Response("done"), logins, config), 0, "127.0.0.1")
    serving = threading.Thread(target=server.run)
    serving.start()
    try:
        with closing(HTTPConnection("127.0.0.1", server.port, timeout=60)) as link:
            link.request("HEAD", "/")
            answer = link.getresponse()
            assert (answer.status, answer.read()) == (401, b"")
    finally:
        server.stop()
        serving.join()


def test_broken_credentials_are_refused() -> None:
    opened = client(ANN)
    for text in ("Basic %%%", "Basic", "Bearer x", ""):
        with opened.post("/update", headers={"Authorization": text}) as answer:
            assert answer.status_code == 401


def test_whoever_guesses_on_is_told_when_to_come_back() -> None:
    opened = client(ANN)
    for number in range(PER_PEER.burst):
        opened.get("/", auth=(f"name{number}", "guess")).close()
    with opened.get("/", auth=("ann", "secret")) as answer:
        assert answer.status_code == 429
        assert int(answer.headers["Retry-After"]) == PER_PEER.pause


@pytest.mark.parametrize(
    ("method", "path", "needed"),
    [
        ("GET", "/", Role.VIEWER),
        ("HEAD", "/debug/p/save", Role.VIEWER),
        ("PROPFIND", "/dav/", Role.VIEWER),
        ("POST", "/update", Role.OPERATOR),
        ("POST", "/run", Role.OPERATOR),
        ("POST", "/api/v1/batches", Role.OPERATOR),
        ("DELETE", "/api/v1/batches/x", Role.OPERATOR),
        ("POST", "/debug/p/save", Role.ADMIN),
        ("POST", "/debug/p/run", Role.ADMIN),
        ("PUT", "/dav/p.py", Role.ADMIN),
        ("MOVE", "/dav/p.py", Role.ADMIN),
        ("POST", "/update/", Role.ADMIN),
        ("POST", "//update", Role.ADMIN),
        ("PUT", "/api/v1/projects/p/script", Role.ADMIN),
        ("PUT", "/api/v1//projects/p/script", Role.ADMIN),
        ("PUT", "//api/v1///projects//p/script", Role.ADMIN),
        ("POST", "/api/v1", Role.ADMIN),
        ("POST", "/api/v1/new", Role.ADMIN),
        ("POST", "/api/v1/members/0/drain", Role.OPERATOR),
        ("POST", "/api/v1/settings", Role.OPERATOR),
        ("POST", "/api/v1/settings2", Role.ADMIN),
        ("POST", "/api/v12/x", Role.ADMIN),
        ("get", "/", Role.ADMIN),
        ("FROB", "/", Role.ADMIN),
    ],
)
def test_a_request_needs_a_role_and_an_unknown_one_the_highest(
    method: str, path: str, needed: Role
) -> None:
    assert needed_role(method, path) is needed


def test_the_roles_are_in_order() -> None:
    assert [[mine.may(needed) for needed in Role] for mine in Role] == [
        [True, False, False],
        [True, True, False],
        [True, True, True],
    ]
