"""A crawl of pages that scripts build, in a whole cluster; a renderer is killed on the way."""

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from pyspider.database import connect_database

from pyspider_zk.cluster.directory import Directory
from pyspider_zk.cluster.records import Component, ComponentKind
from pyspider_zk.local.folder import Running
from pyspider_zk.rendering.chromium import chromium_program
from tests.rendering.conftest import ScriptedSite, SiteRequest
from tests.support.needed import skip_without_needed
from tests.support.processes import PROGRAM
from tests.support.running_cluster import settings_of, up

pytestmark = [
    pytest.mark.browser,
    pytest.mark.zk,
    pytest.mark.redis,
    pytest.mark.slow,
    pytest.mark.usefixtures("zookeeper", "redis_server"),  # skip where they are missing
]

PAGES = 20
SCRIPT = """from pyspider.libs.base_handler import *


class Handler(BaseHandler):
    crawl_config = {{'retries': 9}}
    retry_delay = {{'': 1}}

    def on_start(self):
        self.crawl('{site}/index', fetch_type='js', callback=self.index)

    def index(self, response):
        for n, each in enumerate(response.doc('a').items()):
            kind = 'js' if n % 2 else None
            self.crawl(each.attr.href, fetch_type=kind, callback=self.page)

    def page(self, response):
        return {{'url': response.url, 'told': response.doc('p').text()}}
"""


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    with skip_without_needed():
        chromium_program(os.environ)
    with up(tmp_path, "--schedulers", "3", "--fetchers", "2", "--renderers", "2") as running:
        yield running


def renderers(running: Running) -> list[Component]:
    with Directory(settings_of(running)) as directory:
        return list(directory.read().components[ComponentKind.RENDERER].values())


def test_no_page_is_missing_though_a_renderer_is_killed(
    running: Running, site: ScriptedSite, eventually: Callable[..., None], tmp_path: Path
) -> None:
    links = "".join(f"<a href='/page/{n}'>{n}</a>" for n in range(PAGES))
    site.page("/index", f"<script>document.write({json.dumps(links)})</script>")
    for n in range(PAGES):
        site.page(f"/page/{n}", f"<p>built {n}</p><script>fetch('/mark')</script>")
    eventually(lambda: len(renderers(running)) == 2, within=120)
    row = {"status": "RUNNING", "group": "", "comments": "", "rate": 50, "burst": 50}
    projects = connect_database(running.projectdb)
    projects.insert("built", {**row, "script": SCRIPT.format(site=site.url)})

    def command(*words: str) -> str:
        line = [*PROGRAM, *words]
        return subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, check=True).stdout

    victim = renderers(running)[0].pid
    killed: list[int] = []

    def kill(_: SiteRequest) -> tuple[int, dict[str, str], str]:
        if not killed and len(site.of("/mark")) > 3:
            killed.append(victim)
            os.kill(victim, signal.SIGKILL)
        return 200, {}, ""

    site.pages["/mark"] = kill
    command("run", "built")
    results = connect_database(running.resultdb)
    eventually(lambda: results.count("built") == PAGES, within=200)
    found = sorted(each["result"]["told"] for each in results.select("built"))
    assert found == sorted(f"built {n}" for n in range(PAGES))
    assert killed == [victim]

    def others() -> list[Component]:  # a killed one is there until its session ends
        return [each for each in renderers(running) if each.pid != victim]

    other, *_ = eventually(others, within=100)
    assert "renderer" in json.loads(command("status", "--json"))["components"]
    with pytest.raises(HTTPError, match="401"):  # who knows no secret
        urlopen(f"http://{other.address}/", timeout=60)
