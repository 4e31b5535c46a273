"""Whatever saves a script in the web UI leaves a version of it, and says who it was."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from pyspider.webui import webdav
from pyspider.webui.app import app as stock_app
from werkzeug.middleware.dispatcher import DispatcherMiddleware
from werkzeug.test import Client

from pyspider_zk.config import Settings
from pyspider_zk.projects.script_versions import ScriptVersions
from pyspider_zk.webui.instance import ClusterWebUI
from pyspider_zk.webui.protection import protected
from pyspider_zk.webui.saved_scripts import SavingProjects

ANN = ("ann", "secret")


@pytest.fixture
def versions(ui: ClusterWebUI) -> Iterator[ScriptVersions]:
    with closing(ScriptVersions(ui.config["projectdb"])) as made:
        yield made


@pytest.fixture
def client(ui: ClusterWebUI, versions: ScriptVersions) -> Iterator[Client]:
    """Give a client of the pages and WebDAV, with a project of before there were versions."""
    projectdb = ui.config["projectdb"]
    projectdb.insert("p", {"status": "RUNNING", "script": "old", "group": "", "comments": ""})
    ui.config.update(webui_username=ANN[0], webui_password=ANN[1], scheduler_rpc=None)
    ui.config["projectdb"] = SavingProjects(projectdb, versions)
    with protected(stock_app, Settings(), lambda _: None):
        yield Client(DispatcherMiddleware(stock_app, {"/dav": webdav.dav_app}))


def send(client: Client, method: str, path: str, auth: Any = ANN, **more: Any) -> None:
    answer = client.open(path, method=method, auth=auth, base_url="http://localhost", **more)
    assert answer.status_code < 300, answer.text


def told(versions: ScriptVersions, project: str) -> list[tuple[str | None, str]]:
    found = versions.versions(project)
    return [(versions.script(project, each.saved_at), each.who) for each in found]


def test_the_editor_and_webdav_leave_versions_and_who_saved_them(
    client: Client, versions: ScriptVersions
) -> None:
    send(client, "POST", "/update", data={"pk": "p", "name": "group", "value": "g"})
    assert told(versions, "p") == []
    send(client, "POST", "/debug/p/save", data={"script": "edited"})
    send(client, "PUT", "/dav/p.py", data=b"put")
    send(client, "PUT", "/dav/p.py", data=b"by whom", auth=None)
    assert told(versions, "p") == [("by whom", ""), ("put", "ann"), ("edited", "ann"), ("old", "")]
    send(client, "PUT", "/dav/made.py", data=b"new")
    send(client, "POST", "/debug/born/save", data={"script": "new"})
    assert told(versions, "made") == told(versions, "born") == [("new", "ann")]


def test_what_was_written_past_the_web_ui_is_kept_when_it_is_replaced(
    client: Client, ui: ClusterWebUI, versions: ScriptVersions
) -> None:
    send(client, "POST", "/debug/p/save", data={"script": "edited"})
    ui.config["projectdb"].original.update("p", {"script": "by SQL"})
    send(client, "POST", "/debug/p/save", data={"script": "last"})
    assert [script for script, _ in told(versions, "p")] == ["last", "by SQL", "edited", "old"]


def test_a_version_that_cannot_be_kept_undoes_no_save_and_is_logged(
    client: Client, ui: ClusterWebUI, caplog: pytest.LogCaptureFixture
) -> None:
    ui.config["projectdb"].original._execute('CREATE TABLE "pyspider-zk-scripts" (x)')
    send(client, "POST", "/debug/p/save", data={"script": "secret"})
    assert ui.config["projectdb"].get("p")["script"] == "secret"
    assert "the script of p is saved, but its versions are not" in caplog.text
    assert "secret" not in caplog.text


def test_a_version_is_never_of_the_future(
    client: Client, ui: ClusterWebUI, versions: ScriptVersions
) -> None:
    ui.config["projectdb"]._execute("UPDATE projectdb SET updatetime = 1e18")
    for script in ("one", "two"):
        send(client, "PUT", "/dav/p.py", data=script.encode())
    assert told(versions, "p") == [("two", "ann"), ("one", "ann"), ("old", "")]


def test_a_project_shows_no_version_of_another_that_had_its_name(
    client: Client, ui: ClusterWebUI, versions: ScriptVersions
) -> None:
    send(client, "PUT", "/dav/p.py", data=b"edited")
    ui.config["projectdb"].drop("p")
    assert ui.config["projectdb"].update("p", {"script": "late"}) == 0
    send(client, "POST", "/debug/p/save", data={"script": "new"})
    assert told(versions, "p") == [("new", "ann")]
