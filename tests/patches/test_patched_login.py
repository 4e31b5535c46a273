"""Who counts as logged in to pyspider's own web UI, on its pages and over WebDAV."""

import logging
from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import pytest
import requests
from pyspider.webui.identity import Identity, credentials, identify

from tests.patches.spiders import DEADLINE, Spider

LOGIN = {"webui_username": "ann", "webui_password": "secret"}
VIEWER = {"viewer_username": "eve", "viewer_password": "look"}


def coded(text: str) -> str:
    return b64encode(text.encode()).decode()


def sent(header: str) -> dict[str, str]:
    return {"HTTP_AUTHORIZATION": header}


@pytest.mark.parametrize("header", ["Basic {}", "basic {}", "BASIC {}"])
def test_a_login_is_read(header: str) -> None:
    assert credentials(sent(header.format(coded("änn:a:b")))) == ("änn", "a:b")


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Basic",
        "Basic ",
        f"Bogus {coded('ann:secret')}",
        f"Basic\t{coded('ann:secret')}",
        f"Basic  {coded('ann:secret')}",
        f"xxxxxx{coded('ann:secret')}",
        f"Basic {coded('ann:secret')} ",
        f"Basic {coded('ann:secret')}é",
        f"Basic {coded('ann')}",
        "Basic %%%",
        "Basic /w==",
        "Digest username=ann",
    ],
)
def test_what_is_not_exactly_a_login_is_none(header: str) -> None:
    assert credentials(sent(header)) is None
    assert identify(sent(header), LOGIN) is None


@pytest.mark.parametrize(
    ("given", "config", "expected"),
    [
        ("ann:secret", LOGIN | VIEWER, Identity("ann")),
        ("eve:look", LOGIN | VIEWER, Identity("eve", is_viewer=True)),
        ("eve:secret", LOGIN | VIEWER, None),
        ("ann:look", LOGIN | VIEWER, None),
        ("ann:", LOGIN | VIEWER, None),
        ("ann:secret", {}, None),
        ("None:None", {}, None),
        (":", {"webui_username": "", "webui_password": ""}, None),
        ("ann:", {"webui_username": "ann", "webui_password": None}, None),
        ("ann:None", {"webui_username": "ann"}, None),
    ],
)
def test_only_names_and_passwords_that_were_set_are_somebody(
    given: str, config: dict[str, Any], expected: Identity | None
) -> None:
    assert identify(sent(f"Basic {coded(given)}"), config) == expected


@pytest.fixture
def app(spider: Spider) -> Iterator[Any]:
    """Give the application on a spider's databases, with a locked project."""
    import pyspider.webui

    app = pyspider.webui.app.app
    config = dict(app.config)
    app.config.update(projectdb=spider.projectdb, scheduler_rpc=None)
    spider.add_project("demo", "# old", group="lock")
    yield app
    app.debug = False
    app.config.clear()
    app.config.update(config)


@pytest.mark.parametrize("scheme", ["Bogus ", "Basic\t", "xxxxxx"])
def test_a_login_under_another_scheme_saves_nothing(app: Any, spider: Spider, scheme: str) -> None:
    app.config.update(LOGIN)
    header = {"Authorization": f"{scheme}{coded('ann:secret')}"}
    answer = app.test_client().post("/debug/demo/save", data={"script": "#"}, headers=header)
    assert answer.status_code == 401
    assert spider.projectdb.get("demo")["script"] == "# old"


def test_a_presented_password_is_not_logged(app: Any, caplog: pytest.LogCaptureFixture) -> None:
    app.config.update(LOGIN, need_auth=True)
    caplog.set_level(logging.DEBUG)
    for header in ("Bearer hush-hush", f"Basic {coded('hush-hush')}", "Basic hush-hush"):
        assert app.test_client().get("/", headers={"Authorization": header}).status_code == 401
    assert "hush" not in caplog.text
    assert coded("hush-hush") not in caplog.text


@pytest.fixture
def url(app: Any, spider: Spider) -> Iterator[str]:
    """Serve the application, in debug mode."""
    app.debug = True
    spider.start(app, host="127.0.0.1", port=0)
    assert app.ready.wait(DEADLINE)
    yield f"http://127.0.0.1:{app.port}"
    app.quit()
    spider.threads[-1][1].join(DEADLINE)


@pytest.mark.slow
def test_without_a_login_webdav_overwrites_no_locked_project(url: str, spider: Spider) -> None:
    assert requests.put(f"{url}/dav/demo.py", data="# new", timeout=DEADLINE).status_code == 403
    auth = ("anybody", "anything")
    answer = requests.put(f"{url}/dav/demo.py", data="# new", auth=auth, timeout=DEADLINE)
    assert answer.status_code == 403
    assert spider.projectdb.get("demo")["script"] == "# old"


@pytest.mark.slow
def test_debug_mode_serves_no_console(url: str) -> None:
    assert requests.get(f"{url}/console", timeout=DEADLINE).status_code == 404
    query = {"__debugger__": "yes", "cmd": "resource", "f": "debugger.js"}
    assert "debugger" not in requests.get(url, params=query, timeout=DEADLINE).text
