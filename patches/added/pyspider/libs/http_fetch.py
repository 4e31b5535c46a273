"""Fetch by HTTP: its redirects, as browsers follow them, its cookies, and one time-out for all."""

import logging
import time
from collections.abc import Callable
from typing import Any

from pyspider.libs import fetchable, origins, wire
from pyspider.libs.page_client import MOST_REDIRECTS, PageRequest
from pyspider.libs.task_cookies import TaskCookies
from tornado.httpclient import HTTPError, HTTPResponse
from tornado.httputil import HTTPHeaders

_REDIRECTS = (301, 302, 303, 307, 308)
_OF_BODY = ("Content-Encoding", "Content-Language", "Content-Location", "Content-Type")

logger = logging.getLogger("fetcher")


class Disallowed(fetchable.Unfetchable):
    """A page that robots.txt keeps for others."""

    code = 403


class Lost(fetchable.Unfetchable):
    """A page that too many redirects lead to, or too slow ones."""


class HttpFetch:
    """Fetch of one task; to be used once, in the fetcher's loop.

    Args:
        fetcher: pyspider's.
        request: of the task, as the fetcher packs it.
        clock: seconds.
    """

    def __init__(
        self,
        fetcher: Any,
        task: dict[str, Any],
        request: dict[str, Any],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._fetcher = fetcher
        self._task = task
        self._options = task.get("fetch") or {}
        self._trusted = bool(self._options.get("location_trusted"))
        self._clock = clock
        self._until = clock() + request["request_timeout"]
        headers, cookies = request["headers"], request.pop("cookies", None) or {}
        header = headers.pop("Cookie", "")
        self._cookies = TaskCookies(request["url"], header, cookies, trusted=self._trusted)
        self._request = request
        self._led_by = ""

    async def run(self) -> dict[str, Any]:
        """Return what is known of the page where the task leads.

        Raises:
            Unfetchable: there is none.
            HTTPError: the connection failed.
        """
        begun = self._clock()
        response = await self._land()
        made = {
            "orig_url": self._task.get("url"),
            "content": response.body or "",
            "headers": dict(response.headers),
            "status_code": response.code,
            "url": response.effective_url,
            "time": self._clock() - begun,
            "cookies": self._cookies.values(),
            "save": self._options.get("save"),
        }
        if response.error and response.code not in range(300, 400):
            made["error"] = str(response.error)
        return made

    async def _land(self) -> HTTPResponse:
        asked = self._options.get("max_redirects")
        most = min(5 if asked is None else asked, MOST_REDIRECTS)
        for _ in range(most + 1):
            response = await self._ask()
            location = next(iter(response.headers.get_list("Location")), "")
            is_followed = self._options.get("allow_redirects", True)
            if response.code not in _REDIRECTS or not location or not is_followed:
                return response
            target = fetchable.redirected_url(self._request["url"], location)
            self._request = redirected(self._request, response.code, target, trusted=self._trusted)
        raise Lost(f"Maximum ({most}) redirects followed")

    async def _ask(self) -> HTTPResponse:
        await ask_robots(self._fetcher, self._options, self._request, self._led_by)
        left = self._until - self._clock()
        if left <= 0:
            raise Lost("the redirects took longer than the timeout")
        own = {"request_timeout": left, "headers": HTTPHeaders(self._request["headers"])}
        request = PageRequest(led_by=self._led_by, owner=self._task, **self._request | own)
        if cookies := self._cookies.header(request):
            request.headers["Cookie"] = cookies
        response = await self._fetcher.http_client.fetch(request, raise_error=False)
        self._cookies.take(response)
        self._led_by = request.address
        return response


async def fetch(fetcher: Any, url: str, task: dict[str, Any]) -> dict[str, Any]:
    """Return what a fetcher tells of a task's page, or of what failed, and log it.

    Raises:
        Unfetchable: the task is at fault, or its site.
    """
    begun = time.time()
    try:
        request = fetcher.pack_tornado_request_parameters(url, task)
        made = await HttpFetch(fetcher, task, request).run()
    except HTTPError as error:
        return fetcher.handle_error("http", url, task, begun, error)  # type: ignore[no-any-return]
    log_page(url, task, made)
    return made


async def ask_robots(
    fetcher: Any, options: dict[str, Any], request: dict[str, Any], led_by: str = ""
) -> None:
    """Ask a site's robots.txt, if a task wants that.

    Args:
        led_by: address that the redirect to this page came from.

    Raises:
        Disallowed: the page is kept for others.
    """
    agent = request["headers"]["User-Agent"]
    is_asked = options.get("robots_txt", False)
    if is_asked and not await fetcher.can_fetch(agent, request["url"], led_by):
        raise Disallowed("Disallowed by robots.txt")


def log_page(url: str, task: dict[str, Any], page: dict[str, Any]) -> None:
    """Log a page that was fetched."""
    level = logging.INFO if 200 <= page["status_code"] < 300 else logging.WARNING
    told = (page["status_code"], task.get("project"), task.get("taskid"), url, page.get("time", 0))
    logger.log(level, "[%d] %s:%s %s %.2fs", *told)


def redirected(request: dict[str, Any], code: int, target: str, *, trusted: bool) -> dict[str, Any]:
    """Return the request that follows a redirect, as the Fetch standard has it.

    Raises:
        BadURL: its body may not go there.
    """
    method, made = request["method"], {**request, "headers": HTTPHeaders(request["headers"])}
    if (code in (301, 302) and method == "POST") or (code == 303 and method != "HEAD"):
        made |= {"method": "GET", "body": None}
        for name in _OF_BODY:
            made["headers"].pop(name, None)
    origins.leave(made, target, trusted=trusted)
    return {**made, "url": target}


def proxied(address: str) -> dict[str, Any]:
    """Return how a request goes by a proxy.

    Raises:
        BadProxy: its address is malformed.
    """
    proxy = fetchable.proxy_of(address)
    made = {"proxy_scheme": proxy.scheme, "proxy_host": proxy.host, "proxy_port": proxy.port}
    login = {"proxy_username": proxy.username, "proxy_password": proxy.password}
    return made | (login if proxy.username else {})


def browsed(fetch: dict[str, Any]) -> dict[str, Any]:
    """Return a request as a browser gets it told: with its cookies, as text."""
    headers = HTTPHeaders(fetch["headers"])
    header, cookies = headers.pop("Cookie", ""), fetch.get("cookies") or {}
    jar = TaskCookies(fetch["url"], header, cookies, trusted=False)
    told = {name: wire.decoded(value) for name, value in headers.items()}
    if cookie := "; ".join(f"{name}={value}" for name, value in jar.values().items()):
        told["Cookie"] = cookie
    return {**{key: fetch[key] for key in fetch if key != "cookies"}, "headers": told}
