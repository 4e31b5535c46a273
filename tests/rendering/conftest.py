"""A renderer with a real Chromium, and a site on loopback that tells what it was asked."""

import asyncio
import json
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import pytest
from pyspider.libs.http_server import bind

from pyspider_zk.config import Settings
from pyspider_zk.rendering import page
from pyspider_zk.rendering.chromium import Chromium, chromium_program
from pyspider_zk.rendering.renderer import Renderer
from pyspider_zk.rendering.request import LISTENER
from pyspider_zk.rpc.admission import admission_of
from pyspider_zk.rpc.tls import server_tls
from tests.support.needed import skip_without_needed

LOOPBACK = "127.0.0.1"
LIMIT = 60  # seconds; for a starved machine


@dataclass(frozen=True)
class SiteRequest:
    """A request that a site got; the names of its headers are in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class ScriptedSite:
    """A site whose pages are functions of requests, which return status, headers and body."""

    pages: dict[str, Callable[[SiteRequest], tuple[int, dict[str, str], str]]] = field(
        default_factory=dict
    )
    asked: list[SiteRequest] = field(default_factory=list)
    port: int = 0
    goes_on: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"

    def page(self, path: str, body: str, status: int = 200, **headers: str) -> str:
        """Add a page; return its URL."""
        named = {"Content-Type": "text/html; charset=utf-8", **headers}
        self.pages[path] = lambda _: (status, named, body)
        return self.url + path

    def of(self, path: str) -> list[SiteRequest]:
        """Return the requests for a path."""
        return [each for each in self.asked if each.path == path]


@contextmanager
def serving() -> Iterator[ScriptedSite]:
    """Serve a site."""
    site = ScriptedSite()

    class ScriptedPage(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            headers = {name.lower(): value for name, value in self.headers.items()}
            path = urlsplit(self.path).path
            asked = SiteRequest(self.command, path, headers, self.rfile.read(length))
            site.asked.append(asked)
            page = site.pages.get(path, lambda _: (404, {}, "there is none"))
            status, more, body = page(asked)
            self.send_response(status)
            for name, value in more.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body.encode())))
            self.end_headers()
            self.wfile.write(body.encode())

        do_POST = do_PUT = do_GET  # noqa: N815 - the names are the base's

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer((LOOPBACK, 0), ScriptedPage)
    site.port = server.server_port
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield site
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def site() -> Iterator[ScriptedSite]:
    with serving() as site:
        yield site


@pytest.fixture
def other_site() -> Iterator[ScriptedSite]:
    with serving() as site:
        yield site


class RequestRefused(Exception):
    """A request that the renderer did not take, with status and reason."""


@dataclass(frozen=True)
class RendererPort:
    """A renderer's port."""

    renderer: Renderer
    port: int

    def post(self, document: object, **headers: str) -> Any:
        """Send a document; return the answer.

        Raises:
            RequestRefused: there is none.
        """
        where = f"http://{LOOPBACK}:{self.port}/"
        asked = Request(where, json.dumps(document).encode(), headers)
        try:
            with urlopen(asked, timeout=2 * LIMIT) as answer:  # noqa: S310 - ours
                return json.load(answer)
        except HTTPError as error:
            with error:
                raise RequestRefused(f"{error.code} {error.reason}") from None

    def render(self, url: str, **fetch: Any) -> Any:
        """Return a page, as a fetcher gets it."""
        return self.post({"url": url, "timeout": LIMIT, "headers": {}, **fetch})


@contextmanager
def rendering(
    pages: int = 4, memory: int = 2**32, port: int = 0, **settings: Any
) -> Iterator[RendererPort]:
    """Run a renderer."""
    with skip_without_needed():
        program = chromium_program(os.environ)
    made = Settings(drain=5, **settings)
    entry = admission_of(made, LISTENER, content_type="")
    renderer = Renderer(Chromium(program, memory), pages, made, entry)
    sockets, stopped = bind(LOOPBACK, port), Future[None]()
    serve = renderer.serve(sockets, stopped, server_tls(made))
    thread = threading.Thread(target=lambda: asyncio.run(serve))
    port = sockets[0].getsockname()[1]
    thread.start()
    try:
        yield RendererPort(renderer, port)
    finally:
        stopped.set_result(None)
        thread.join()


@pytest.fixture(scope="session")
def renderer() -> Iterator[RendererPort]:
    """Give a renderer whose browser runs."""
    with rendering() as renderer:
        renderer.render("http://127.0.0.1:1/")
        yield renderer


@pytest.fixture
def long_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait longer for what a page may still ask for: a starved machine is late with its timers."""
    monkeypatch.setattr(page, "QUIET", 5.0)


@pytest.fixture(scope="session")
def open_renderer() -> Iterator[RendererPort]:
    """Give a renderer whose pages may reach all of loopback."""
    with rendering(renderer_networks=("127.0.0.0/8",)) as renderer:
        yield renderer
