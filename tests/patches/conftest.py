"""A loopback site, a pyspider on sqlite, and the engine of the edits as a module."""

import contextlib
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.patches.databases import backend, databases, server_backend
from tests.patches.spiders import SCRIPT, Spider, SpiderSite

__all__ = ["backend", "databases", "server_backend"]  # fixtures

PATCHES = Path(__file__).resolve().parents[2] / "patches"
sys.path.insert(0, str(PATCHES))  # for the engine; the installed pyspider needs nothing of it


class BusyServer(ThreadingHTTPServer):
    """A server that refuses nobody if a hundred come at a time."""

    request_queue_size = 128


@contextlib.contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """Serve on a free loopback port; give the URL."""
    server = BusyServer(("127.0.0.1", 0), handler)
    server.release = threading.Event()  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.release.set()  # type: ignore[attr-defined]
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def site() -> Iterator[str]:
    with serving(SpiderSite) as url:
        yield url


@pytest.fixture
def script(site: str) -> str:
    return SCRIPT.replace("__SITE__", site)


@pytest.fixture
def spider(tmp_path: Path) -> Iterator[Spider]:
    spider = Spider(tmp_path)
    yield spider
    spider.stop()


@pytest.fixture
def fetcher() -> Iterator[Any]:
    """Give a fetcher that is called, without queues."""
    from pyspider.fetcher import Fetcher

    fetcher = Fetcher(None, None, async_mode=False)
    yield fetcher
    fetcher.close()


def fetch(fetcher: Any, url: str, **options: Any) -> Any:
    """Return what is known of a page, fetched with the options of a task."""
    return fetcher.fetch({"project": "demo", "taskid": "t", "url": url, "fetch": options})
