"""One page in a browser: opened, its script run, and told as PhantomJS told it."""

import asyncio
import json
import logging
import re
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Coroutine
from contextlib import asynccontextmanager, suppress
from time import monotonic
from typing import Any

from playwright.async_api import Browser, BrowserContext, CDPSession, Error, Page, Request, Response
from pyspider.libs.fetchable import BadURL
from tornado.httputil import HTTPHeaders

from pyspider_zk.errors import brief
from pyspider_zk.queues.packs import NO_ANSWER
from pyspider_zk.rendering.gate import Gate
from pyspider_zk.rendering.request import RenderRequest

logger = logging.getLogger(__name__)

QUIET = 1.0
"""Seconds without a request after which a page is taken, as PhantomJS' script waited."""

LOOK = 0.1  # seconds
GRACE = 0.8
"""Seconds to tell what a page holds; the fetcher waits for one more than the limit."""

_REDIRECTS = (301, 302, 303, 307, 308)
_EMPTY = (204, 205)
_ENDLESS = ("eventsource", "media", "ping")  # what a page may receive for as long as it is open
_FORM = "application/x-www-form-urlencoded"
_BY_VALUE = {"returnByValue": True}
_OF_PAGES = re.compile(r"accept$|content-type$|if-|range$", re.IGNORECASE)
"""Headers that make no sense for what a page loads."""

_TOLD = "pyspiderScriptResult"
_AT_START = """if (window === window.top) {{
    let result = null;
    try {{ result = ({script})(); }} finally {{ {told}(JSON.stringify(result) || "null"); }}
}}"""
_CONTENT = """(() => {{
    const type = document.doctype ? new XMLSerializer().serializeToString(document.doctype) : "";
    const text = type + (document.documentElement ? document.documentElement.outerHTML : "");
    return text.length > {limit} ? null : text;
}})()"""


class RenderedPage:
    """A page in a context of its own.

    Args:
        gate: through which it connects, unless its task has a proxy.
        page_limit: characters that its content may have.
    """

    def __init__(self, request: RenderRequest, gate: Gate, page_limit: int) -> None:
        self._request = request
        self._gate = gate
        self._page_limit = page_limit
        self._last = monotonic()
        self._pending: set[Request] = set()
        self._tasks: set[asyncio.Future[Any]] = set()
        self._response: Response | None = None
        self._frame_id = ""
        self._is_asked = False
        self._script_result: Any = None
        self._fault = ""
        self._lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    @asynccontextmanager
    async def opened(self, browser: Browser) -> AsyncIterator[None]:
        """Keep it open while the block runs.

        Raises:
            Error: of Playwright; it cannot be opened.
        """
        lose = lambda _: self._lose("Chromium ended, and is started anew")  # noqa: E731
        browser.on("disconnected", lose)
        opening = asyncio.ensure_future(self._context(browser))
        try:
            context = await asyncio.shield(opening)
            self._page = await context.new_page()
            self._session = await context.new_cdp_session(self._page)
            await self._prepare(context, self._page, self._session)
            yield
        finally:
            browser.remove_listener("disconnected", lose)
            for task in self._tasks:
                task.cancel()
            closing = asyncio.ensure_future(_close(opening))
            if opening.done():  # otherwise it closes when it comes
                await closing

    async def render(self, until: float) -> dict[str, Any]:
        """Return the page as it is when nothing is requested any more, or at a time.

        Raises:
            Error: of Playwright; the page is lost.
        """
        await self._within(until - monotonic(), self._load(self._page, self._session))
        left = max(until - monotonic(), 0.0) + GRACE
        told = await self._within(left, self._told(self._page, self._session))
        return told or failed(self._request, "the page does not answer: its script runs on")

    async def _context(self, browser: Browser) -> BrowserContext:
        request = self._request
        width, height = request.viewport
        proxy = {"server": self._gate.address, **(request.proxy or {}), "bypass": "<-loopback>"}
        return await browser.new_context(
            proxy=proxy,  # type: ignore[arg-type]
            user_agent=request.user_agent,
            viewport={"width": width, "height": height},
            ignore_https_errors=not request.verifies,
            accept_downloads=False,
            service_workers="block",
        )

    async def _within(self, limit: float, work: Awaitable[Any]) -> Any:
        """Return what some work comes to; None: not in time.

        Raises:
            Error: the page is lost.
        """
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        await asyncio.wait({task, self._lost}, timeout=limit, return_when="FIRST_COMPLETED")
        if self._lost.done():
            raise Error(self._lost.result())
        return task.result() if task.done() else None

    def _lose(self, reason: str) -> None:
        if not self._lost.done():
            self._lost.set_result(reason)

    def _begin(self, work: Coroutine[Any, Any, object]) -> None:
        """Do something beside; a page that ends meanwhile is nobody's fault."""

        async def quietly() -> None:
            with suppress(Error):
                await work

        task = asyncio.ensure_future(quietly())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _prepare(self, context: BrowserContext, page: Page, session: CDPSession) -> None:
        request = self._request
        context.on("page", lambda other: self._begin(other.close()))  # nobody would look at it
        page.on("crash", lambda _: self._lose("the page crashed, or had too much in memory"))
        page.on("request", self._requested)
        page.on("requestfinished", self._finished)
        page.on("requestfailed", self._finished)
        page.on("response", self._answered)
        session.on("Fetch.requestPaused", lambda event: self._begin(self._let(session, event)))
        await session.send("Fetch.enable", {"patterns": [{"urlPattern": "*"}]})
        self._frame_id = (await session.send("Page.getFrameTree"))["frameTree"]["frame"]["id"]
        where = {"url": request.url, "path": "/"}
        cookies = [{"name": n, "value": v, **where} for n, v in request.cookies.items()]
        await session.send("Network.setCookies", {"cookies": cookies})
        if request.script and request.runs_at_start:
            await self._run_at_start(session)

    async def _run_at_start(self, session: CDPSession) -> None:
        """Have the script run before those of the page, in its first document."""
        for domain in ("Page", "Runtime"):
            await session.send(f"{domain}.enable")
        await session.send("Runtime.addBinding", {"name": _TOLD})
        source = _AT_START.format(script=self._request.script, told=_TOLD)
        added = await session.send("Page.addScriptToEvaluateOnNewDocument", {"source": source})

        def take(event: dict[str, Any]) -> None:
            if event["name"] != _TOLD:
                return
            with suppress(ValueError, RecursionError):  # the page may call it, with anything
                self._script_result = json.loads(event["payload"])
                session.remove_listener("Runtime.bindingCalled", take)
                self._begin(session.send("Page.removeScriptToEvaluateOnNewDocument", added))

        session.on("Runtime.bindingCalled", take)

    def _requested(self, request: Request) -> None:
        self._last = monotonic()
        if request.resource_type not in _ENDLESS:
            self._pending.add(request)

    def _finished(self, request: Request) -> None:
        self._last = monotonic()
        self._pending.discard(request)

    def _answered(self, response: Response) -> None:
        request = response.request
        is_page = request.is_navigation_request() and request.frame.parent_frame is None
        leads_on = response.status in _REDIRECTS and "location" in response.headers
        if self._response is None and is_page and not leads_on:
            self._response = response

    async def _let(self, session: CDPSession, event: dict[str, Any]) -> None:
        """Let a request go on with those headers of the task that may go there, or not at all."""
        is_page = event["frameId"] == self._frame_id and event["resourceType"] == "Document"
        is_first, self._is_asked = is_page and not self._is_asked, self._is_asked or is_page
        options = {"requestId": event["requestId"]}
        try:
            if event["resourceType"] == "Image" and not self._request.loads_images:
                raise BadURL("images are not wanted")
            await session.send(
                "Fetch.continueRequest", options | self._sent(event, is_page, is_first)
            )
        except BadURL as error:
            self._fault = str(error) if is_page else self._fault
            await session.send("Fetch.failRequest", options | {"errorReason": "BlockedByClient"})

    def _sent(self, event: dict[str, Any], is_page: bool, is_first: bool) -> dict[str, Any]:
        """Return how a request differs from the browser's own.

        Raises:
            BadURL: it would take a body to another origin.
        """
        asked, request = event["request"], self._request
        if not asked["url"].startswith("http"):
            return {}
        leads_on = "redirectedRequestId" in event
        carries = is_page and leads_on and bool(asked.get("hasPostData"))
        headers = HTTPHeaders(asked["headers"])
        for name, value in request.headers_for(asked["url"], has_body=carries).get_all():
            if is_page or (name not in headers and not _OF_PAGES.match(name)):
                headers[name] = value
        changed: dict[str, Any] = {}
        if is_first:
            changed = {"method": request.method}
            if request.body:
                headers.setdefault("Content-Type", _FORM)
                changed["postData"] = b64encode(request.body).decode()
        sent = [{"name": name, "value": value} for name, value in headers.get_all()]
        return changed | {"headers": sent}

    async def _load(self, page: Page, session: CDPSession) -> None:
        try:
            await page.goto(self._request.url, wait_until="load", timeout=0)
        except Error as error:
            self._fault = self._fault or self._gate.fault or error.message.partition("\n")[0]
            if self._response is None:
                return
            await page.wait_for_load_state("load", timeout=0)  # where a script led it meanwhile
        if self._request.script and not self._request.runs_at_start:
            await self._run_at_end(session)
        while self._pending or monotonic() - self._last < QUIET:
            await asyncio.sleep(LOOK)

    async def _run_at_end(self, session: CDPSession) -> None:
        call = {"expression": f"({self._request.script})()", **_BY_VALUE, "awaitPromise": True}
        found = await session.send("Runtime.evaluate", call)
        self._script_result = found["result"].get("value")
        if "exceptionDetails" in found:
            said = found["result"].get("description") or found["exceptionDetails"]["text"]
            logger.warning("%.200r: js_script failed: %s", self._request.url, brief(said))

    async def _told(self, page: Page, session: CDPSession) -> dict[str, Any]:
        response, request = self._response, self._request
        if response is None:
            return failed(request, self._fault or f"no answer within {request.limit:g} s")
        is_empty = page.url == "about:blank"  # a download, or a page that cannot be shown
        content = "" if is_empty else await self._content(session)
        if content is None:
            return failed(request, f"the page has more than {self._page_limit} bytes (page_limit)")
        headers = {each["name"]: each["value"] for each in await response.headers_array()}
        cookies = await page.context.cookies([response.url, *([] if is_empty else [page.url])])
        return {
            "orig_url": request.url,
            "status_code": response.status,
            "error": self._fault if is_empty and response.status not in _EMPTY else None,
            "content": content,
            "headers": headers,
            "url": response.url if is_empty else page.url,
            "cookies": {each["name"]: each["value"] for each in cookies},
            "js_script_result": self._script_result,
            "save": request.save,
        }

    async def _content(self, session: CDPSession) -> str | None:
        """Return the page's HTML, told by no script of its own; None: it is too large."""
        world = await session.send("Page.createIsolatedWorld", {"frameId": self._frame_id})
        place = {"contextId": world["executionContextId"], **_BY_VALUE}
        expression = _CONTENT.format(limit=self._page_limit)
        found = await session.send("Runtime.evaluate", {"expression": expression, **place})
        content: str | None = found["result"].get("value")
        return content


async def _close(opening: Awaitable[BrowserContext]) -> None:
    with suppress(Error):  # it ended with its browser
        await (await opening).close()


def failed(request: RenderRequest, error: str) -> dict[str, Any]:
    """Return what is told of a page that there is none of."""
    return {
        "orig_url": request.url,
        "status_code": NO_ANSWER,
        "error": error,
        "content": "",
        "headers": {},
        "url": request.url,
        "cookies": {},
        "js_script_result": None,
        "save": request.save,
    }
