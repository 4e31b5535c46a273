"""Headers that restrict what browsers do with our answers."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

_OURS = ("/cluster", "/api/v1", "/login")
_FRAMED = "/blank.html"
_STATIC = ("/static/", "/cluster/static/", "/login/static/")

_STRICT = (
    "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none';"
    " form-action 'self'; frame-ancestors 'none'"
)
_OF_PYSPIDER = (
    "default-src 'none'; script-src 'self'{cdn}; style-src 'self'{cdn};"
    " img-src 'self' data:{cdn}; font-src 'self'{cdn}; connect-src 'self'; frame-src 'self';"
    " object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
_OF_CRAWLED = (  # a crawled page: shown with pictures and styles, and without scripts
    "default-src 'none'; img-src * data: blob:; media-src * data: blob:; font-src * data:;"
    " style-src * 'unsafe-inline'; frame-src data:; form-action 'none'; frame-ancestors 'self'"
)


def policy_for(path: str, cdn: str = "") -> str:
    """Return the content security policy of an answer.

    Args:
        path: of the request.
        cdn: where pyspider's pages load their libraries from; empty: from the web UI itself.
    """
    if path == _FRAMED:
        return _OF_CRAWLED
    if any(path == each or path.startswith(f"{each}/") for each in _OURS):
        return _STRICT
    source = _source(cdn)
    return _OF_PYSPIDER.format(cdn=f" {source}" if source else "")


def headers_for(path: str, cdn: str = "") -> dict[str, str]:
    """Return all headers of an answer, see ``policy_for``; answers with data are not cached."""
    headers = {
        "Content-Security-Policy": policy_for(path, cdn),
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "same-origin",
    }
    return headers if path.startswith(_STATIC) else headers | {"Cache-Control": "no-store"}


class Headers:
    """WSGI application that adds the headers to answers. Threads: any.

    Args:
        application: gives the answers.
        cdn: see ``policy_for``.
    """

    def __init__(self, application: "WSGIApplication", cdn: str = "") -> None:
        self._application = application
        self._cdn = cdn

    def __call__(self, environ: "WSGIEnvironment", start: "StartResponse") -> Iterable[bytes]:
        """Answer; a header that the application sets replaces ours."""
        path = f"{environ.get('SCRIPT_NAME', '')}{environ.get('PATH_INFO', '')}"
        ours = headers_for(path, self._cdn)

        def begin(status: str, headers: list[tuple[str, str]], *info: Any) -> Any:
            told = {name.lower() for name, _ in headers}
            missing = [each for each in ours.items() if each[0].lower() not in told]
            return start(status, [*headers, *missing], *info)

        return self._application(environ, begin)


def _source(cdn: str) -> str:
    """Return the origin of a URL in a policy's form; without a scheme it has the page's."""
    parts = urlsplit(cdn)
    return f"{parts.scheme}://{parts.netloc}" if parts.scheme else parts.netloc
