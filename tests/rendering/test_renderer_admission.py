"""Who may ask a renderer, and how fetchers of the cluster do."""

import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from pyspider_zk.config import Settings
from pyspider_zk.workers.fetcher import ClusterFetcher
from tests.rendering.conftest import RendererPort, ScriptedSite, rendering
from tests.support.ports import own_port
from tests.support.secured_servers import authority

pytestmark = pytest.mark.browser

START = 300  # seconds in which a browser has started, on however busy a machine
SECRET = "correct horse battery"  # noqa: S105 - of these tests
Fetch = Callable[..., Any]


@pytest.fixture
def fetch(site: ScriptedSite) -> Iterator[Fetch]:
    """Give a function that renders the site's page by a fetcher with some settings."""
    url = site.page("/", "<script>document.write('built')</script>")
    with ExitStack() as stack:

        def fetch(renderer: str, patience: float = START, **settings: Any) -> Any:
            fetcher = ClusterFetcher(None, None, settings=Settings(**settings))
            stack.callback(fetcher.close)
            fetcher.phantomjs_proxy = renderer
            how = {"fetch_type": "js", "connect_timeout": patience}
            return fetcher.sync_fetch({"project": "p", "taskid": "t", "url": url, "fetch": how})

        yield fetch


@pytest.fixture(scope="module")
def guarded() -> Iterator[RendererPort]:
    with rendering(secret=SECRET) as renderer:
        yield renderer


def test_who_proves_the_secret_is_answered(guarded: RendererPort, fetch: Fetch) -> None:
    page = fetch(f"127.0.0.1:{guarded.port}", secret=SECRET)
    assert (page["status_code"], "built" in page["content"]) == (200, True), page


@pytest.mark.parametrize(
    ("secret", "why"),
    [("", "the cluster's secret is needed"), ("another one", "does not prove the secret")],
)
def test_who_does_not_is_refused_and_says_so(
    guarded: RendererPort, fetch: Fetch, site: ScriptedSite, secret: str, why: str
) -> None:
    page = fetch(f"http://127.0.0.1:{guarded.port}", secret=secret)
    assert page["status_code"] == 599
    assert page["error"].startswith("HTTP 599: no page from the renderer: HTTP 401: ")
    assert why in page["error"]
    assert site.asked == []


def test_a_stranger_learns_that_it_is_closed(guarded: RendererPort) -> None:
    with pytest.raises(HTTPError, match="401"):
        urlopen(f"http://127.0.0.1:{guarded.port}/")


def test_a_renderer_for_others_is_asked_by_tls(fetch: Fetch, tmp_path: Path) -> None:
    made = authority(tmp_path)
    files = {
        "xmlrpc_tls_certificate": str(made.server),
        "xmlrpc_tls_key": str(made.server),
        "secret": SECRET,
    }
    with rendering(**files) as renderer:
        address = f"https://localhost:{renderer.port}"
        page = fetch(address, secret=SECRET, xmlrpc_tls_ca=str(made.ca))
        assert (page["status_code"], "built" in page["content"]) == (200, True), page
        page = fetch(address, secret=SECRET)
        assert page["status_code"] == 599
        assert "certificate" in page["error"]


def test_a_renderer_is_reached_though_pages_of_its_network_are_not(
    renderer: RendererPort, fetch: Fetch
) -> None:
    page = fetch(f"127.0.0.1:{renderer.port}", forbidden_networks=("127.0.0.0/8",))
    assert page["status_code"] == 200, page


@pytest.mark.parametrize("secret", ["", SECRET], ids=["open", "guarded"])
def test_a_renderer_that_starts_again_is_waited_for(
    fetch: Fetch, caplog: pytest.LogCaptureFixture, eventually: Callable[..., None], secret: str
) -> None:
    port = own_port()
    with ThreadPoolExecutor(1) as threads:
        page = threads.submit(fetch, f"127.0.0.1:{port}", secret=secret)
        eventually(lambda: "waits for the renderer" in caplog.text, within=60)
        asked = int(time.time())
        eventually(lambda: int(time.time()) > asked)  # proofs tell whole seconds
        with rendering(port=port, secret=secret):
            assert page.result(START)["status_code"] == 200


@contextmanager
def dying(times: int) -> Iterator[tuple[int, list[bytes]]]:
    """Give a renderer that ends with each page in hand, so many times: its port, what it took."""
    taken: list[bytes] = []
    listening = socket.create_server(("127.0.0.1", own_port()))

    def die() -> None:
        for left in reversed(range(times)):
            connection, _ = listening.accept()
            with connection:
                taken.append(connection.recv(2**16))
                if not left:
                    listening.close()

    thread = Thread(target=die, daemon=True)  # it may be asked less often
    thread.start()
    yield listening.getsockname()[1], taken


def test_a_page_in_hand_of_a_renderer_that_ends_is_asked_for_again(
    fetch: Fetch, caplog: pytest.LogCaptureFixture, eventually: Callable[..., None]
) -> None:
    with dying(1) as (port, taken), ThreadPoolExecutor(1) as threads:
        page = threads.submit(fetch, f"127.0.0.1:{port}")
        eventually(lambda: "Failed to connect" in caplog.text or page.done(), within=60)
        with rendering(port=port):
            assert page.result(START)["status_code"] == 200
        assert len(taken) == 1


def test_a_page_that_ends_two_renderers_is_not_asked_for_again(fetch: Fetch) -> None:
    with dying(3) as (port, taken):
        page = fetch(f"127.0.0.1:{port}")
        assert page["status_code"] == 599
        assert page["error"].startswith("HTTP 599: no page from the renderer")
        assert len(taken) == 2


def test_a_renderer_that_is_away_is_named(fetch: Fetch) -> None:
    page = fetch("127.0.0.1:1", patience=0.1)
    assert page["status_code"] == 599
    assert "no page from the renderer" in page["error"]
    assert "127.0.0.1" in page["error"]
    assert page["traceback"] is None
