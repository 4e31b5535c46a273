"""A cluster, and a browser that may see nothing but its web UI."""

import json
import os
import threading
from base64 import b64decode
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright
from pyspider.database import connect_database

from pyspider_zk.cluster.records import Member
from pyspider_zk.local import programs
from pyspider_zk.local.folder import Running
from pyspider_zk.local.services import RedisServer, ZooKeeperServer
from pyspider_zk.rpc.client import Credentials, call
from pyspider_zk.secret_files import read_cluster_secret
from tests.support.failing_tasks import store_failures
from tests.support.needed import skip_without_needed
from tests.support.ports import own_port
from tests.support.programs import chromium as chromium_program
from tests.support.running_cluster import up
from tests.support.zookeeper import UnsyncedZooKeeper

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "test-output" / "browser"
WINDOW = {"width": 1280, "height": 800}
PATIENCE = 60_000  # milliseconds; a session must end, or a process start, on a starved machine
OPTIONS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",  # no name leads anywhere
]

expect.set_options(timeout=PATIENCE)

PAGE = """<!DOCTYPE html><html><head><title>page {path}</title></head>
<body><h1>Page {path}</h1><p class="note">of a <b>test</b></p>
<a href="/one">one</a> <a href="/two">two</a></body></html>"""

HOSTILE = """<body onload="top.ran = 'onload'"><h1>Hostile</h1>
<style>h1 {{ color: rgb(1, 2, 3) }}</style>
<img id="sound" src="data:image/gif;base64,R0lGODlhAQABAAAAACwAAAAAAQABAAA=">
<img src="data:," onerror="top.ran = 'onerror'"><svg onload="top.ran = 'svg'"></svg>
<script>top.ran = 'script'</script><iframe srcdoc="<script>top.ran = 'srcdoc'</script>"></iframe>
<object data="/one"></object><a id="lure" href="javascript:void(top.ran = 'link')">lure</a>
<a href="/?<img src='data:,' onerror=top.ran='follow'>">{path}</a></body>"""

DOT = b64decode("R0lGODlhAQABAAAAACwAAAAAAQABAAA=")

LEADING = """<meta http-equiv="refresh" content="0;url={target}"><h1>Leading</h1>"""
PICTURE = """<style>h1 {{ margin-top: 55px }}</style><meta name="referrer" content="unsafe-url">
<img id="dot" src="/dot.gif" style="margin-left: 77px" referrerpolicy="unsafe-url">"""
HIDING = """<form name="addEventListener" class="own"><input name="classList">
<input name="localName"><input name="getAttribute"><i>in a form</i></form>"""

PLAIN = """from pyspider.libs.base_handler import *


class Handler(BaseHandler):
    pass
"""

SCRIPT = """from pyspider.libs.base_handler import *


class Handler(BaseHandler):
    def on_start(self):
        self.crawl('{site}/', callback=self.index_page)

    def index_page(self, response):
        for each in response.doc('a').items():
            self.crawl(each.attr.href, callback=self.detail_page)

    def detail_page(self, response):
        print('seen', response.url)
        return {{'url': response.url, 'title': response.doc('title').text()}}
"""


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    """Give the URL of a site with three pages, and some that mean us no good."""

    class CrawledPage(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            page = HOSTILE if "hostile" in self.path else PAGE
            page = LEADING if "target" in self.path else page
            page += PICTURE if "picture" in self.path else ""
            page += HIDING if "hiding" in self.path else ""
            target = self.path.rpartition("target=")[2]
            body = page.format(path=self.path, target=target).encode()
            kind = "text/plain" if ".txt" in self.path else "text/html"
            if self.path.endswith(".gif"):
                body, kind = DOT, "image/gif"
            if self.path.endswith(".json"):
                body, kind = b'{"a":[1]}', "application/json"
            self.send_response(200)
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), CrawledPage)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@dataclass(frozen=True)
class Web:
    """The web UI of a running cluster, and the databases behind it."""

    running: Running

    @property
    def url(self) -> str:
        return self.running.webui.rstrip("/")

    def secret(self) -> str:
        """Return what opens the schedulers' XML-RPC."""
        return read_cluster_secret(Path(self.running.secret_file))

    def project(self, name: str) -> Any:
        return self._database("projectdb").get(name)

    def add_project(self, name: str, **fields: Any) -> None:
        row = {"status": "TODO", "script": PLAIN, "group": "", "comments": ""}
        self._database("projectdb").insert(name, {**row, "rate": 10, "burst": 10, **fields})

    def change_project(self, name: str, **fields: Any) -> None:
        self._database("projectdb").update(name, fields)

    def drop_project(self, name: str) -> None:
        self._database("projectdb").drop(name)

    def add_task(self, project: str, taskid: str, row: dict[str, Any]) -> None:
        self._database("taskdb").insert(project, taskid, row)

    def add_failures(self, project: str, kind: str, *taskids: str, callback: str = "page") -> None:
        store_failures(self._database("taskdb"), project, kind, *taskids, callback=callback)

    def results(self, name: str) -> int:
        resultdb = self._database("resultdb")
        return resultdb.count(name) if name in resultdb.projects else 0

    def _database(self, kind: str) -> Any:
        return connect_database(getattr(self.running, kind))


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    """Run a cluster with one scheduler."""
    for needed in (programs.java, programs.zookeeper_class_path, programs.redis_server):
        with skip_without_needed():
            needed(os.environ)
    folder = tmp_path_factory.mktemp("cluster")
    with up(folder, "--schedulers", "1") as running:
        yield Web(running)


@dataclass(frozen=True)
class BrowsedCluster:
    """A cluster of two schedulers whose ZooKeeper and Redis a test may stop."""

    web: Web
    zookeeper: ZooKeeperServer
    redis: RedisServer

    def ask(self, path: str) -> Any:
        """Ask the API, past the browser."""
        with urlopen(f"{self.web.url}/api/v1/{path}", timeout=30) as answer:  # noqa: S310 - ours
            return json.load(answer)

    def members(self) -> list[dict[str, Any]]:
        """Return the members as the API tells them."""
        found: list[dict[str, Any]] = self.ask("members")["items"]
        return found

    def make(self, *names: str, status: str = "STOP", group: str = "") -> None:
        """Make projects, once, and let the schedulers know them."""
        for name in names:
            if self.web.project(name) is None:
                self.web.add_project(name, status=status, group=group)
        self.look()

    def look(self) -> None:
        """Make all schedulers look at the project database."""
        for address in self._addresses():
            self._call(address, "local_update_project")

    def run(self, project: str) -> None:
        """Have a project's ``on_start`` called."""
        address, *_ = self._addresses()
        self._call(address, "submit_operation", "run", {"names": [project]})

    def _addresses(self) -> list[str]:
        return [member["address"] for member in self.members()]

    def _call(self, address: str, method: str, *args: Any) -> None:
        record = Member(address, "", 0, "", 0.0)
        call(record, method, *args, credentials=Credentials(self.web.secret()), timeout=60)


@pytest.fixture(scope="module")
def lease() -> float:
    """Give how long a lease lasts: no slot moves because a busy machine stood still for seconds."""
    return 20.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, lease: float) -> Iterator[BrowsedCluster]:
    """Run a cluster with two schedulers; who is killed is seen on a page until its session ends."""
    folder = tmp_path_factory.mktemp("cluster")
    config = folder / "config.json"
    config.write_text(json.dumps({"zookeeper": {"session": 30, "lease": lease}}), encoding="utf-8")
    zookeeper = UnsyncedZooKeeper(folder / "zookeeper", own_port())
    redis = RedisServer(folder / "redis", own_port())
    for server in (zookeeper, redis):
        with skip_without_needed():
            server.start()
    options = ["--schedulers", "2", "--zookeeper", f"{zookeeper.address}/pages"]
    try:
        with up(folder, *options, "--message-queue", redis.url, config=config) as running:
            yield BrowsedCluster(Web(running), zookeeper, redis)
    finally:
        redis.stop()
        zookeeper.stop()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Run a browser.

    For a module only: while it runs, no event loop can run in this thread.
    """
    with skip_without_needed():
        program = chromium_program()
    with sync_playwright() as playwright:
        yield playwright.chromium.launch(executable_path=program, args=OPTIONS)


@dataclass
class PageWatch:
    """What a browser asked for, and what went wrong in it."""

    home: str
    asked: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def over(self, page: Page) -> None:
        """Look at a page from now on."""
        page.on("request", lambda request: self.asked.append(request.url))
        page.on("pageerror", lambda error: self.wrong.append(str(error)))
        page.on("console", self._heard)

    @property
    def strangers(self) -> set[str]:
        """Return the requested URLs of any other server than the web UI."""
        ours = urlsplit(self.home).netloc
        urls = (urlsplit(url) for url in self.asked)
        return {url.geturl() for url in urls if url.netloc not in ("", ours)}

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "assert"):
            self.wrong.append(f"{message.text} ({message.location.get('url')})")


@pytest.fixture
def watch(web: Web) -> PageWatch:
    """Give what is seen of the pages."""
    return PageWatch(web.url)


@pytest.fixture
def page(chromium: Browser, web: Web, watch: PageWatch) -> Iterator[Page]:
    """Give a page with a fresh profile; fail if it has errors or asks another server."""
    # Still colours: axe may not look while one changes into another.
    options = {"base_url": web.url, "viewport": WINDOW, "reduced_motion": "reduce"}
    with chromium.new_context(**options) as context:
        context.on("page", watch.over)
        context.set_default_timeout(PATIENCE)
        page = context.new_page()
        yield page
        page.unroute_all(behavior="ignoreErrors")  # answers under way are of no interest any more
    assert watch.wrong == []
    assert watch.strangers == set()


@pytest.fixture
def picture(request: pytest.FixtureRequest) -> Callable[[Page], None]:
    """Give a function that keeps a picture of a page, for a person to look at."""

    def take(page: Page, name: str = "") -> None:
        file = f"{request.node.originalname.removeprefix('test_')}{name and '-'}{name}.png"
        page.screenshot(path=PICTURES / file)

    return take


def write_script(page: Page, script: str) -> None:
    """Replace the script in the editor, as a person would paste it."""
    page.locator("#script .CodeMirror-code").click()
    page.keyboard.press("Control+A")
    page.keyboard.insert_text(script)


def save(page: Page) -> None:
    """Save the script in the editor."""
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator("#state")).to_have_text("saved")
