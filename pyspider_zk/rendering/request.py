"""Request for a rendered page: what a fetcher asks for, as pyspider's PhantomJS understood it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from pyspider.libs.fetchable import Unfetchable, sent_url
from pyspider.libs.origins import PORTS, leave
from pyspider.libs.utils import decode_unicode_string
from tornado.httputil import HTTPHeaders

from pyspider_zk.errors import BadRequest
from pyspider_zk.listening import Listener

LISTENER = Listener(
    name="the renderer",
    option="renderer --host",
    opens="make it open any page that its machine reaches, and run JavaScript there",
    guard="a secret (secret_file, the same for the whole cluster)",
)

NOT_SENT = ("Accept-Encoding", "Connection", "Content-Length", "Cookie", "Host", "User-Agent")
"""Headers that are the browser's own, or set otherwise."""

VIEWPORT = (1024, 768 * 3)
LIMIT = 20.0
"""Seconds to load a page, if the task says nothing: PhantomJS' own."""

LARGEST_SIDE = 16384  # of a viewport; Chromium has no larger surfaces


@dataclass(frozen=True)
class RenderRequest:
    """Request for one page.

    Attributes:
        headers: of the task, but for those of ``NOT_SENT``.
        limit: seconds after which the page is taken as it is.
        patience: seconds that the fetcher waits.
        proxy: as Playwright takes it; None: without one.
        is_trusted: what is sent may go to other origins, too (``location_trusted``).
    """

    url: str
    method: str
    headers: HTTPHeaders
    user_agent: str | None
    cookies: Mapping[str, str]
    body: bytes
    limit: float
    patience: float
    script: str
    runs_at_start: bool
    viewport: tuple[int, int]
    loads_images: bool
    proxy: dict[str, str] | None
    verifies: bool
    is_trusted: bool
    save: Any

    @property
    def place(self) -> tuple[str, int]:
        """Host and port of the URL."""
        parts = urlsplit(self.url)
        return parts.hostname or "", parts.port or PORTS[parts.scheme]

    def headers_for(self, url: str, *, has_body: bool) -> HTTPHeaders:
        """Return those of the task's headers that may be sent to a URL.

        Raises:
            BadURL: a body would go to another origin.
        """
        sent: dict[str, Any] = {"url": self.url, "headers": self.headers, "body": has_body}
        leave(sent, url, trusted=self.is_trusted)
        return HTTPHeaders(sent["headers"])


def render_request(document: object) -> RenderRequest:
    """Return what a document asks for.

    Raises:
        BadRequest: it cannot be done.
    """
    if not isinstance(document, dict):
        raise BadRequest("a request must be a JSON object")
    try:
        return _request(document)
    except (Unfetchable, TypeError, ValueError, AttributeError) as error:
        raise BadRequest(str(error)) from error


def _request(document: dict[str, Any]) -> RenderRequest:
    headers = HTTPHeaders({name: str(value) for name, value in _headers(document).items()})
    cookies, agent = headers.get("Cookie", ""), headers.get("User-Agent")
    for name in NOT_SENT:
        headers.pop(name, None)
    limit = float(document.get("timeout") or LIMIT)
    return RenderRequest(
        url=sent_url(str(document.get("url"))),
        method=str(document.get("method") or "GET").upper(),
        headers=headers,
        user_agent=agent,
        cookies=dict(each.strip().split("=", 1) for each in cookies.split(";") if "=" in each),
        body=_body(document.get("body") or document.get("data") or ""),
        limit=limit,
        patience=float(document.get("request_timeout") or limit),
        script=str(document.get("js_script") or ""),
        runs_at_start=document.get("js_run_at") == "document-start",
        viewport=_viewport(document),
        loads_images=document.get("load_images") is not False,
        proxy=_proxy(document),
        verifies=document.get("validate_cert") is not False,
        is_trusted=bool(document.get("location_trusted")),
        save=document.get("save"),
    )


def _headers(document: dict[str, Any]) -> Mapping[str, object]:
    return {
        name: each for name, each in (document.get("headers") or {}).items() if each is not None
    }


def _body(text: str) -> bytes:
    body = decode_unicode_string(text)  # bytes come marked
    return body.encode() if isinstance(body, str) else body


def _viewport(document: dict[str, Any]) -> tuple[int, int]:
    width, height = (
        int(document.get(f"js_viewport_{side}") or usual)
        for side, usual in zip(("width", "height"), VIEWPORT, strict=True)
    )
    if not (0 < width <= LARGEST_SIDE and 0 < height <= LARGEST_SIDE):
        raise BadRequest(f"js_viewport_width, js_viewport_height: from 1 to {LARGEST_SIDE}")
    return width, height


def _proxy(document: dict[str, Any]) -> dict[str, str] | None:
    """Return the proxy of a task or of its fetcher."""
    if not document.get("proxy_host"):
        return None
    kind = document.get("proxy_scheme") or "http"
    made = {"server": f"{kind}://{document['proxy_host']}:{document.get('proxy_port') or 8080}"}
    login = {name: document.get(f"proxy_{name}") for name in ("username", "password")}
    return made | {name: str(each) for name, each in login.items() if each}
