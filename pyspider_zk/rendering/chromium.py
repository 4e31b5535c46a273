"""Chromium: found, started, watched and replaced."""

import asyncio
import logging
import os
import shutil
import signal
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pyspider_zk.errors import MissingService, brief

if TYPE_CHECKING:
    from playwright.async_api import Browser

PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
"""Names of Chromium, the one first that starts soonest and needs least: it has no window."""

CHROMIUM_MISSING = (
    "Chromium is missing; Debian: apt install chromium-headless-shell, others: chromium;"
    " or name its program with `renderer --chromium`"
)
PLAYWRIGHT_MISSING = "Playwright is missing: pip install 'pyspider-zk[renderer]'"
DRIVER_FAILED = "Playwright's driver does not start; on Debian it needs: apt install libatomic1"

_OPTIONS = [
    "--disable-quic",
    "--disable-sync",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",  # or it went past the proxy
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",  # as headless shells call it
]
_NO_SANDBOX = "sandbox"  # is in what Chromium says if it cannot run in its own

WATCH_SECONDS = 0.5
PATIENCE = 30.0
"""Seconds in which a browser tells of its processes; one that does not, twice, stands still."""

logger = logging.getLogger(__name__)


def chromium_program(environ: Mapping[str, str], chosen: str = "") -> str:
    """Return the program of Chromium.

    Raises:
        MissingService: it, or Playwright, is not installed.
    """
    if find_spec("playwright") is None:
        raise MissingService(PLAYWRIGHT_MISSING)
    names = (chosen,) if chosen else PROGRAMS
    found = (shutil.which(name, path=environ.get("PATH", "")) for name in names)
    program = next(filter(None, found), None)
    if program is None:
        raise MissingService(f"{chosen}: {CHROMIUM_MISSING}" if chosen else CHROMIUM_MISSING)
    return program


class Chromium:
    """Context manager of a browser, which starts when a page needs it, and anew if it ended.

    Its driver, Playwright, then starts anew, too: it may be what ended.

    What its processes have in memory together is bounded: beyond it the largest one is killed,
    which is that of a page, and fails it.

    Args:
        program: of Chromium.
        memory: bytes.

    Raises:
        MissingService: what drives it cannot be started.

    Attributes:
        works: the last start succeeded, if there was one.
    """

    def __init__(self, program: str, memory: int) -> None:
        self._program = program
        self._memory = memory
        self._starting: asyncio.Task[Browser] | None = None
        self._browser: Browser | None = None
        self._main: int | None = None  # its process that starts the others
        self.works = True

    async def __aenter__(self) -> Self:
        await self._drive()
        self._watching = asyncio.create_task(self._watch())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._watching.cancel()
        if self._browser is not None:
            await self._browser.close()
        await self._playwright.stop()

    async def browser(self) -> "Browser":
        """Return the browser that runs; the first one waits until it has started.

        Raises:
            playwright.async_api.Error: it does not start.
            MissingService: what drives it does not start again.
        """
        starting = self._starting
        if starting is None or (starting.done() and not self._is_connected):
            starting = asyncio.create_task(self._start(anew=starting is not None))
            self._starting = starting
        return await asyncio.shield(starting)  # who waits for it may give up

    @property
    def _is_connected(self) -> bool:
        return self._browser is not None and self._browser.is_connected()

    async def _drive(self) -> None:
        from playwright.async_api import async_playwright

        try:
            self._playwright = await async_playwright().start()
        except Exception:  # whatever it makes of its driver's end, which is told on stderr
            raise MissingService(DRIVER_FAILED) from None

    async def _start(self, *, anew: bool) -> "Browser":
        self.works = False
        if anew:
            await self._playwright.stop()
            await self._drive()
        browser = await self._started()
        kinds = {each["type"]: each["id"] for each in await _processes(browser)}
        self._browser, self._main = browser, kinds["browser"]
        self.works = True
        return browser

    async def _started(self) -> "Browser":
        """Start it in its sandbox, or, where the system allows it none, without."""
        from playwright.async_api import Error

        try:
            return await self._launch(sandboxed=True)
        except Error as error:
            if _NO_SANDBOX not in error.message.lower():
                raise
        logger.warning(
            "Chromium runs without its sandbox, which needs another user than root, and user"
            " namespaces: run this renderer where nothing else is worth an attack"
        )
        return await self._launch(sandboxed=False)

    async def _launch(self, *, sandboxed: bool) -> "Browser":
        browser = await self._playwright.chromium.launch(
            executable_path=self._program,
            args=_OPTIONS,
            chromium_sandbox=sandboxed,
            handle_sigint=False,
            handle_sigterm=False,
            handle_sighup=False,
        )
        logger.info("Chromium %s started", browser.version)
        return browser

    async def _watch(self) -> None:
        """Bound its memory, and give up a browser that cannot be asked twice in a row.

        Playwright calls it connected even after the driver ended. A single call may raise what was
        left behind by something else. One that stands still is killed, so that its pages end.
        """
        doubted: Browser | None = None
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            browser = self._browser
            if browser is None or not browser.is_connected():
                continue
            try:
                async with asyncio.timeout(PATIENCE):
                    await self._bound(browser)
            except Exception as error:
                logger.error("Chromium does not tell what it has in memory: %s", brief(error))
                if browser is doubted:
                    self._browser = None
                    if isinstance(error, TimeoutError) and self._main is not None:
                        _kill(self._main)
                doubted = browser
            else:
                doubted = None

    async def _bound(self, browser: "Browser") -> None:
        sizes = {each["id"]: memory_of(each["id"]) for each in await _processes(browser)}
        if sum(sizes.values()) > self._memory:
            largest = max(sizes, key=sizes.__getitem__)
            logger.error("%d MB are too many: the largest is killed", sum(sizes.values()) >> 20)
            _kill(largest)


async def _processes(browser: "Browser") -> list[dict[str, Any]]:
    """Return the id and the type of each process of a browser."""
    session = await browser.new_browser_cdp_session()
    found = await session.send("SystemInfo.getProcessInfo")
    await session.detach()
    processes: list[dict[str, Any]] = found["processInfo"]
    return processes


def _kill(process: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)


def memory_of(pid: int, proc: Path = Path("/proc")) -> int:
    """Return the bytes that a process alone has in memory; 0 if it ended, or nothing tells."""
    try:
        status = (proc / str(pid) / "status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return 0
    return sum(_kilobytes(status)) * 1024


def _kilobytes(status: str) -> Iterator[int]:
    for line in status.splitlines():
        name, _, value = line.partition(":")
        if name in ("RssAnon", "RssShmem"):
            yield int(value.split()[0])
