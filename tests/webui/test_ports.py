"""The web UI's port: who may send much, and who waits for whom."""

import threading
import tracemalloc
from base64 import b64encode
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection

import pyspider.webui  # noqa: F401 - it registers the views
import pytest
from pyspider.webui.app import app as stock_app

from pyspider_zk.config import Settings
from pyspider_zk.webui.lent import configured
from pyspider_zk.webui.protection import protected
from tests.support.strangers import LOOPBACK, connected, told

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
