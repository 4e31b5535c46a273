"""Scripts over WebDAV, through the served web UI and a real HTTP client."""

from collections.abc import Iterator
from typing import Any

import pytest
import requests
from requests.auth import HTTPDigestAuth

from tests.patches.spiders import DEADLINE, Spider

AUTH = ("me", "secret")
LOCK = """<?xml version="1.0"?>
<D:lockinfo xmlns:D="DAV:"><D:lockscope><D:exclusive/></D:lockscope>
<D:locktype><D:write/></D:locktype><D:owner>me</D:owner></D:lockinfo>"""

PROPERTY = """<?xml version="1.0"?>
<D:propertyupdate xmlns:D="DAV:"><D:set><D:prop><D:getlastmodified>x</D:getlastmodified>
</D:prop></D:set></D:propertyupdate>"""


class Dav:
    def __init__(self, url: str, session: requests.Session) -> None:
        self.url = url
        self.session = session

    def __call__(self, method: str, path: str, **kwargs: Any) -> requests.Response:
        return self.session.request(method, f"{self.url}{path}", timeout=DEADLINE, **kwargs)


@pytest.fixture
def dav(spider: Spider) -> Iterator[Dav]:
    import pyspider.webui

    app = pyspider.webui.app.app
    config = dict(app.config)
    app.config.update(projectdb=spider.projectdb, webui_username=AUTH[0], webui_password=AUTH[1])
    spider.start(app, host="127.0.0.1", port=0)
    assert app.ready.wait(DEADLINE)
    with requests.Session() as session:
        yield Dav(f"http://127.0.0.1:{app.port}/dav", session)
    app.quit()
    spider.threads[-1][1].join(DEADLINE)
    app.config.clear()
    app.config.update(config)


def test_the_projects_are_listed(dav: Dav, spider: Spider) -> None:
    spider.add_project("demo", "# script")
    listing = dav("PROPFIND", "/", headers={"Depth": "1"})
    assert listing.status_code == 207
    assert "/dav/demo.py" in listing.text
    assert "<ns0:getcontentlength>8<" in listing.text.replace("D:", "ns0:")
    assert "demo.py" in dav("GET", "/").text


def test_a_script_is_read(dav: Dav, spider: Spider) -> None:
    spider.add_project("demo", "# é")
    assert dav("GET", "/demo.py").content == "# é".encode()


def test_a_script_is_written_and_checked_again(dav: Dav, spider: Spider) -> None:
    spider.add_project("demo", "# old")
    assert dav("PUT", "/demo.py", data="# né").status_code == 204
    project = spider.projectdb.get("demo")
    assert project["script"] == "# né"
    assert project["status"] == "CHECKING"


def test_a_new_script_makes_a_project(dav: Dav, spider: Spider) -> None:
    assert dav("PUT", "/fresh.py", data="# new").status_code in (201, 204)
    project = spider.projectdb.get("fresh")
    assert (project["script"], project["status"]) == ("# new", "TODO")


def test_a_name_that_is_no_project_is_refused(dav: Dav) -> None:
    assert dav("PUT", "/a b.txt", data="x").status_code == 403


def test_a_file_is_locked_and_unlocked(dav: Dav, spider: Spider) -> None:
    spider.add_project("demo", "# old")
    locked = dav("LOCK", "/demo.py", data=LOCK, headers={"Timeout": "Second-60"})
    assert locked.status_code == 200
    token = locked.headers["Lock-Token"]
    assert dav("PUT", "/demo.py", data="# stranger").status_code == 423
    owner = dav("PUT", "/demo.py", data="# owner", headers={"If": f"({token})"})
    assert owner.status_code == 204
    assert dav("UNLOCK", "/demo.py", headers={"Lock-Token": token}).status_code == 204
    assert dav("PUT", "/demo.py", data="# next").status_code == 204


def test_a_project_is_not_deleted(dav: Dav, spider: Spider) -> None:
    spider.add_project("demo", "# script")
    assert dav("DELETE", "/demo.py").status_code >= 400
    assert spider.projectdb.get("demo")


def test_a_locked_project_is_written_only_with_the_password(dav: Dav, spider: Spider) -> None:
    spider.add_project("demo", "# old", group="lock")
    assert dav("PUT", "/demo.py", data="# new").status_code == 403
    assert spider.projectdb.get("demo")["script"] == "# old"
    assert dav("PUT", "/demo.py", data="# new", auth=AUTH).status_code == 204
    assert spider.projectdb.get("demo")["script"] == "# new"


@pytest.mark.parametrize("scheme", [lambda *each: each, HTTPDigestAuth])
def test_with_need_auth_everything_wants_the_password(dav: Dav, scheme: Any) -> None:
    from pyspider.webui.app import app

    app.config["need_auth"] = True
    assert dav("PROPFIND", "/").status_code == 401
    assert dav("PROPFIND", "/", auth=scheme("me", "wrong")).status_code == 401
    assert dav("PROPFIND", "/", auth=scheme(*AUTH)).status_code == 207


@pytest.mark.parametrize("scheme", [lambda *each: each, HTTPDigestAuth])
def test_with_login_to_change_reading_wants_no_password(
    dav: Dav, spider: Spider, scheme: Any
) -> None:
    from pyspider.webui.app import app

    app.config["login_to_change"] = True
    spider.add_project("demo", "# old")
    assert dav("PROPFIND", "/").status_code == 207
    assert dav("PUT", "/demo.py", data="# new").status_code == 401
    assert dav("PUT", "/demo.py", data="# new", auth=scheme("me", "wrong")).status_code == 401
    assert spider.projectdb.get("demo")["script"] == "# old"
    assert dav("PUT", "/demo.py", data="# new", auth=scheme(*AUTH)).status_code == 204
    assert spider.projectdb.get("demo")["script"] == "# new"


@pytest.mark.parametrize("scheme", [lambda *each: each, HTTPDigestAuth])
def test_a_viewer_reads_and_writes_nothing(dav: Dav, spider: Spider, scheme: Any) -> None:
    from pyspider.webui.app import app

    app.config.update(need_auth=True, viewer_username="eve", viewer_password="look")  # noqa: S106
    spider.add_project("demo", "# old")
    assert dav("PROPFIND", "/", auth=scheme("eve", "look")).status_code == 207
    assert dav("PROPFIND", "/", auth=scheme("eve", "wrong")).status_code == 401
    assert dav("PUT", "/demo.py", data="# new", auth=scheme("eve", "look")).status_code == 401
    assert dav("PUT", "/demo.py", data="# new", auth=scheme(*AUTH)).status_code == 204


@pytest.mark.parametrize("scheme", [lambda *each: each, HTTPDigestAuth])
def test_without_a_password_that_was_set_nobody_logs_in(dav: Dav, scheme: Any) -> None:
    from pyspider.webui.app import app

    app.config.update(need_auth=True, webui_password=None)
    assert dav("PROPFIND", "/", auth=scheme(AUTH[0], "")).status_code == 401


@pytest.mark.parametrize(
    ("method", "path", "target", "status"),
    [
        ("DELETE", "/demo.py", "", 403),
        ("DELETE", "/", "", 403),
        ("COPY", "/demo.py", "/other.py", 403),
        ("COPY", "/", "/other", 403),
        ("MOVE", "/demo.py", "/other.py", 403),
        ("COPY", "/demo.py", "http://[::1", 400),
        ("MOVE", "/", "/other", 403),
        ("MKCOL", "/other", "", 405),
        ("PROPPATCH", "/demo.py", "", 207),
    ],
)
def test_what_cannot_be_done_to_scripts_is_refused(
    dav: Dav, spider: Spider, method: str, path: str, target: str, status: int
) -> None:
    spider.add_project("demo", "# old")
    whole = target if target.startswith("http") else f"{dav.url}{target}"
    headers = {"Destination": whole} if target else {}
    body = PROPERTY if method == "PROPPATCH" else ""

    assert dav(method, path, headers=headers, data=body, auth=AUTH).status_code == status
    assert [row["name"] for row in spider.projectdb.get_all()] == ["demo"]
    assert spider.projectdb.get("demo")["script"] == "# old"


def test_bytes_that_are_no_text_are_no_script(dav: Dav, spider: Spider) -> None:
    spider.add_project("demo", "# old")

    assert dav("PUT", "/demo.py", data=b"\xff").status_code == 400
    assert dav("PUT", "/new.py", data=b"\xff").status_code == 400
    assert [row["name"] for row in spider.projectdb.get_all()] == ["demo"]
    assert spider.projectdb.get("demo")["script"] == "# old"


PROPFIND = '<propfind xmlns="DAV:">{}<prop>{}</prop></propfind>'


@pytest.mark.parametrize(
    "body",
    [
        PROPFIND.format("<!-- a -->", "<!-- b --><getcontentlength/><?c d?>"),
        "<?c?>" + PROPFIND.format("<?d?>", "<getcontentlength/>") + "<!-- e -->",
    ],
)
def test_comments_and_instructions_in_xml_mean_nothing(dav: Dav, spider: Spider, body: str) -> None:
    spider.add_project("demo", "# old")

    found = dav("PROPFIND", "/demo.py", data=body)

    assert found.status_code == 207
    assert "getcontentlength>5<" in found.text


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (PROPFIND.format("", "".join(f"<a{number}/>" for number in range(60))), 207),
        (PROPFIND.format("", "".join(f"<a{number}/>" for number in range(63))), 413),
        (PROPFIND.format("", "<a/>" * 60_000), 413),
        (PROPFIND.format("<!--" + 20_000 * "x" + "-->", ""), 413),
    ],
)
def test_properties_are_asked_for_by_the_dozen_only(
    dav: Dav, spider: Spider, body: str, status: int
) -> None:
    spider.add_project("demo", "# old")

    assert dav("PROPFIND", "/", data=body).status_code == status
    assert "demo.py" in dav("GET", "/").text


@pytest.mark.parametrize("method", ["PROPFIND", "PROPPATCH", "LOCK"])
@pytest.mark.parametrize(
    "body",
    [
        b"junk",
        b"\xff\xfe<",
        b"<a>",
        b"<!-- only -->",
        b'<?xml version="1.0" encoding="utf-7"?><a/>',
        b'<?xml version="1.0" encoding="no such"?><a/>',
        b'<!DOCTYPE a [<!ENTITY b "c">]><propfind xmlns="DAV:">&b;</propfind>',
        b'<!DOCTYPE a SYSTEM "file:///etc/passwd"><a/>',
        b"<a>" * 300 + b"</a>" * 300,
        b"<a " + b" ".join(b"b%d=''" % number for number in range(1500)) + b"/>",
        b"<a/>",
    ],
)
def test_xml_that_is_no_request_is_refused(
    dav: Dav, spider: Spider, method: str, body: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    spider.add_project("demo", "# old")

    found = dav(method, "/demo.py", data=body, auth=AUTH)

    assert found.status_code in (400, 413)
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize("path", ["/..%2f../demo.py", "/dem%C1.py"])
@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "PROPFIND"])
def test_a_path_above_the_root_or_of_no_text_is_refused_with_a_whole_answer(
    dav: Dav, method: str, path: str
) -> None:
    found = dav(method, path)

    assert found.status_code == 400
    assert bool(found.content) is (method != "HEAD")


def test_what_head_cannot_find_has_no_body(dav: Dav) -> None:
    assert dav("HEAD", "/a b.txt").status_code == 403
    assert dav("PROPFIND", "/").status_code == 207


def test_a_listing_takes_no_body(dav: Dav, spider: Spider) -> None:
    spider.add_project("demo", "# old")

    assert dav("GET", "/", data="<a/>").status_code == 415
    assert "demo.py" in dav("GET", "/").text
