"""What fails: the browser, a page's process, and places that are all taken."""

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from pyspider_zk.errors import MissingService
from pyspider_zk.rendering import chromium
from tests.rendering.conftest import (
    LIMIT,
    LOOPBACK,
    RendererPort,
    ScriptedSite,
    SiteRequest,
    rendering,
)
from tests.support.crawling_cluster import children
from tests.support.processes import ROOT
from tests.support.waiting import eventually

WAITS = """<p>there</p><script>fetch("/waits")</script>"""


STARTS = """import asyncio
from pyspider_zk.rendering.chromium import Chromium

async def start():
    async with Chromium("chromium", 2**30):
        pass

asyncio.run(start())
"""


def test_a_driver_that_does_not_start_is_named_with_its_remedy() -> None:
    environ = os.environ | {"PLAYWRIGHT_NODEJS_PATH": "/bin/false", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", STARTS]  # Playwright leaves behind what it failed to start
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    said = r"^pyspider_zk\.errors\.MissingService: .*driver does not start.*libatomic1"
    assert re.search(said, done.stderr, re.MULTILINE), done.stderr


class Held:
    """A page that is loaded, and waits for one more answer until it is let go."""

    def __init__(self, site: ScriptedSite, pages: int = 1) -> None:
        self._loaded = threading.Semaphore(0)
        self._goes_on = threading.Event()
        self._pages = pages
        self.url = site.page("/held", WAITS)
        site.pages["/waits"] = self._wait

    def _wait(self, _: SiteRequest) -> tuple[int, dict[str, str], str]:
        self._loaded.release()
        self._goes_on.wait(LIMIT)
        return 200, {}, ""

    def await_all(self) -> None:
        for _ in range(self._pages):
            self.await_one()

    def await_one(self) -> None:
        assert self._loaded.acquire(timeout=LIMIT)

    def let_go(self) -> None:
        self._goes_on.set()


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as threads:
        yield threads


def processes(kind: str, parent: int = 0) -> list[int]:
    """Return the processes of a kind that this one started, or those below."""
    found = []
    for pid in children(parent or os.getpid()):
        with suppress(OSError):
            line = Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8")
            is_browser = "--remote-debugging-pipe" in line and "--type=" not in line
            found += [pid] if (f"--type={kind}" in line if kind else is_browser) else []
        found += processes(kind, pid)
    return found


@pytest.mark.browser
def test_a_crash_of_the_browser_fails_its_pages_at_once_and_no_later_one(
    site: ScriptedSite, threads: ThreadPoolExecutor
) -> None:
    held = Held(site, 3)
    with rendering() as renderer:
        pages = [threads.submit(renderer.render, held.url) for _ in range(3)]
        held.await_all()
        for pid in processes(""):
            os.kill(pid, signal.SIGKILL)
        for page in pages:  # the site has not answered yet, so their time-out is not what ends them
            told = page.result(LIMIT)
            assert told["status_code"] == 599
            assert told["error"].endswith("Chromium ended, and is started anew")
        held.let_go()
        again = renderer.render(held.url)
        assert again["status_code"] == 200, again
        assert renderer.renderer.parts() == {"browser": True}


def drivers() -> set[int]:
    """Return the processes of Playwright that this one started."""
    found = set()
    for pid in children(os.getpid()):
        with suppress(OSError):
            line = Path(f"/proc/{pid}/cmdline").read_bytes()
            found |= {pid} if b"run-driver" in line else set()
    return found


@pytest.mark.browser
@pytest.mark.parametrize("is_used", [True, False])
def test_a_driver_that_ends_is_replaced_with_its_browser(site: ScriptedSite, is_used: bool) -> None:
    others, url = drivers(), site.page("/", "<p>there</p>")
    with rendering() as renderer:
        urlopen(f"http://{LOOPBACK}:{renderer.port}/").close()  # it has started its driver
        if is_used:
            assert renderer.render(url)["status_code"] == 200
        (driver,) = drivers() - others
        os.kill(driver, signal.SIGKILL)
        eventually(lambda: renderer.render(url)["status_code"] == 200)
        assert len(drivers() - others) == 1
        assert renderer.renderer.parts() == {"browser": True}


@pytest.mark.browser
def test_a_driver_that_does_not_start_again_fails_pages_and_is_told(
    site: ScriptedSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    others, url = drivers(), site.page("/", "<p>there</p>")
    with rendering() as renderer:
        assert renderer.render(url)["status_code"] == 200
        (driver,) = drivers() - others
        with monkeypatch.context() as broken:
            broken.setenv("PLAYWRIGHT_NODEJS_PATH", "/bin/false")
            os.kill(driver, signal.SIGKILL)
            eventually(lambda: "does not start" in renderer.render(url)["error"])
            assert renderer.renderer.parts() == {"browser": False}
        assert renderer.render(url)["status_code"] == 200


@pytest.mark.browser
def test_a_browser_that_stands_still_is_replaced_and_gives_its_places_back(
    site: ScriptedSite, monkeypatch: pytest.MonkeyPatch, threads: ThreadPoolExecutor
) -> None:
    monkeypatch.setattr(chromium, "PATIENCE", 1.0)
    held = Held(site)
    with rendering(pages=1) as renderer:
        page = threads.submit(renderer.render, held.url)
        held.await_all()
        *_, browser = processes("")  # the one before, if any, is a shell that started it
        os.kill(browser, signal.SIGSTOP)
        told = page.result(LIMIT)
        assert told["error"].endswith("Chromium ended, and is started anew")
        held.let_go()
        assert renderer.render(held.url)["status_code"] == 200
        assert browser not in processes("")


@pytest.mark.browser
def test_memory_is_looked_at_again_after_a_look_that_failed(
    site: ScriptedSite, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    failed, looked_again = set[Any](), threading.Event()

    def size(_: int) -> int:
        watch = asyncio.current_task()
        if watch not in failed:
            failed.add(watch)
            raise ValueError("an odd size")
        looked_again.set()
        return 0

    monkeypatch.setattr(chromium, "memory_of", size)
    with rendering() as renderer:
        renderer.render(site.page("/", ""))
        assert looked_again.wait(LIMIT)
    assert "an odd size" in caplog.text


@pytest.mark.browser
def test_a_crash_of_a_page_fails_it_at_once_and_not_the_browser(
    site: ScriptedSite, threads: ThreadPoolExecutor
) -> None:
    held = Held(site)
    with rendering() as renderer:
        page = threads.submit(renderer.render, held.url)
        held.await_all()
        browser = processes("")
        for pid in processes("renderer"):
            os.kill(pid, signal.SIGKILL)
        assert "the page crashed" in page.result(LIMIT)["error"]
        held.let_go()
        again = renderer.render(held.url)
        assert again["status_code"] == 200, again
        assert processes("") == browser


@pytest.mark.browser
def test_a_page_that_takes_all_memory_fails_and_no_other(
    site: ScriptedSite, threads: ThreadPoolExecutor
) -> None:
    held = Held(site)
    fills = "<script>a = []; setInterval(() => a.push(new Uint8Array(2e7).fill(1)), 10)</script>"
    with rendering(memory=900 * 2**20) as renderer:
        first = threads.submit(renderer.render, held.url)
        held.await_all()
        told = renderer.render(site.page("/fills", WAITS + fills))
        assert told["status_code"] == 599
        assert "had too much in memory" in told["error"]
        held.let_go()
        assert first.result(LIMIT)["status_code"] == 200


@pytest.mark.browser
def test_pages_are_open_at_the_same_time_up_to_a_limit(
    site: ScriptedSite, threads: ThreadPoolExecutor
) -> None:
    held = Held(site, 2)
    with rendering(pages=2) as renderer:
        pages = [threads.submit(renderer.render, held.url) for _ in range(2)]
        held.await_all()
        told = renderer.render(held.url, request_timeout=1)
        assert told["status_code"] == 599
        assert told["error"] == "the renderer is busy: all of its 2 pages (--pages) are open"
        third = threads.submit(renderer.render, held.url)
        held.let_go()
        assert [page.result(LIMIT)["status_code"] for page in (*pages, third)] == [200] * 3


def test_a_browser_that_does_not_start_fails_pages_and_is_told(
    site: ScriptedSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chromium, "PROGRAMS", ("false",))
    with rendering() as renderer:
        told = renderer.render(site.page("/", ""))
        assert (told["status_code"], site.asked) == (599, [])
        assert "launch" in told["error"]
        assert renderer.renderer.parts() == {"browser": False}


def test_a_missing_program_is_named_with_its_remedy() -> None:
    with pytest.raises(MissingService, match="apt install chromium-headless-shell"):
        chromium.chromium_program({"PATH": "/nowhere"})
    with pytest.raises(MissingService, match=r"^/no/chrome: Chromium is missing.*--chromium"):
        chromium.chromium_program(os.environ, "/no/chrome")


def test_memory_of_a_process_that_ended_is_none(tmp_path: Path) -> None:
    assert chromium.memory_of(1, tmp_path) == 0
    assert chromium.memory_of(os.getpid()) > 2**20


def test_names_that_are_slow_to_resolve_hold_their_own_page_alone(
    renderer: RendererPort, site: ScriptedSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve, may_go, begun = socket.getaddrinfo, threading.Event(), threading.Semaphore(0)

    def slowly(host: Any, *rest: Any, **more: Any) -> Any:
        if not str(host).endswith("slow.example"):
            return resolve(host, *rest, **more)
        begun.release()
        may_go.wait(LIMIT)
        raise socket.gaierror(socket.EAI_AGAIN, "no name server answers")

    monkeypatch.setattr(socket, "getaddrinfo", slowly)
    names = "".join(f"<img src='http://r{number}.slow.example/'>" for number in range(40))
    with ThreadPoolExecutor(1) as pool:
        hostile = pool.submit(renderer.render, site.page("/names", names))
        for _ in range(40):  # so many threads as there are for it
            begun.acquire(timeout=0.2)
        page = renderer.render(site.page("/other", "<p>here</p>"), timeout=LIMIT / 4)
        may_go.set()
        assert hostile.result()["status_code"] == 200
    assert (page["status_code"], "here" in page["content"]) == (200, True)
