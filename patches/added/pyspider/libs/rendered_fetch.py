"""Fetch by a renderer: pages as a browser shows them, by the protocol of pyspider's PhantomJS."""

import asyncio
import json
import logging
import time
from typing import Any

import pycurl
from pyspider.libs import fetch_arguments, http_fetch, storable
from pyspider.libs.fetchable import Unfetchable
from tornado.curl_httpclient import CurlError
from tornado.httpclient import HTTPRequest, HTTPResponse

MISSING = (
    "no renderer: run `pyspider-zk renderer` (it needs Chromium and Playwright), and tell fetchers"
    " where: --phantomjs-proxy HOST:PORT"
)

_NO_PAGE = "no page from the renderer"
_PAUSE = 1.0  # seconds between two tries to reach it
_SOON = 60.0  # seconds; schedulers wait some minutes longer for a task than its limits say
_ENDED = (pycurl.E_GOT_NOTHING, pycurl.E_RECV_ERROR, pycurl.E_PARTIAL_FILE)

logger = logging.getLogger("fetcher")


class NoRenderer(Unfetchable):
    """A page that only a renderer makes, and there is none."""

    code = 501


class NotRendered(Unfetchable):
    """A page that the renderer did not make."""


async def fetch(fetcher: Any, url: str, task: dict[str, Any]) -> dict[str, Any]:
    """Return what a fetcher's renderer tells of a task's page, and log it.

    Raises:
        Unfetchable: there is no page.
    """
    if not fetcher.phantomjs_proxy:
        raise NoRenderer(MISSING)
    options = fetch_arguments.request_of(task.get("fetch") or {})
    request = {**options, **fetcher.pack_tornado_request_parameters(url, task)}
    await http_fetch.ask_robots(fetcher, options, request)
    page = _page(await _asked(fetcher, request))
    http_fetch.log_page(url, task, page)
    return page


async def _asked(fetcher: Any, request: dict[str, Any]) -> HTTPResponse:
    """Ask the renderer; while nobody listens there, which a restart takes, wait as for a site.

    To fail at once would use up a project's tries, and pause it after ten. A renderer that ended
    with the page in hand is asked once more, unless that would change something twice or take too
    long; and only once, for the page may be what ends renderers.
    """
    patience = request.get("connect_timeout", 20)
    began = time.monotonic()
    until = began + patience
    may_end = request.get("method", "GET") in ("GET", "HEAD")
    while True:
        try:
            return await _answered(fetcher, request, patience)
        except CurlError as error:
            if may_end and error.errno in _ENDED and time.monotonic() < began + _SOON:
                may_end = False
                until = time.monotonic() + patience
            elif error.errno != pycurl.E_COULDNT_CONNECT or time.monotonic() > until:
                raise NotRendered(f"{_NO_PAGE}: {error}") from None
            logger.warning("%s waits for the renderer: %s", request["url"], error)
        await asyncio.sleep(_PAUSE)


async def _answered(fetcher: Any, request: dict[str, Any], patience: float) -> HTTPResponse:
    """Ask once, with a proof of its own: a renderer refuses calls from before its start."""
    document = json.dumps(storable.stored("fetch", http_fetch.browsed(request))).encode()
    post = HTTPRequest(
        fetcher.phantomjs_proxy,
        "POST",
        follow_redirects=False,
        connect_timeout=patience,
        request_timeout=request.get("request_timeout", 120) + 1,
        **fetcher.posted(document),
    )
    return await fetcher.http_client.fetch(post, raise_error=False)  # type: ignore[no-any-return]


def _page(response: HTTPResponse) -> dict[str, Any]:
    """Return the page that an answer holds, also that of a page which failed.

    Raises:
        NotRendered: it holds none.
    """
    try:
        page = json.loads(response.body or b"")
        page["status_code"] = int(page["status_code"])
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise NotRendered(f"{_NO_PAGE}: {response.error or error}") from None
    return page  # type: ignore[no-any-return]
