"""``python -m tests.attack.told -c ... webui ...``: the web UI, telling its routes, not serving.

All is put together as the product does; only what would listen is replaced.
"""

import json
import sys
from collections.abc import Iterator
from typing import Any

from flask import Flask
from pyspider.libs import wsgi_server
from werkzeug.middleware.dispatcher import DispatcherMiddleware
from wsgidav.wsgidav_app import WsgiDAVApp

from pyspider_zk.cli.main import main

BEGIN = "routes: "
DAV = "/<path:script>"
_INNER = ("_application", "application", "app", "_app", "_inner")


def routes(application: Any, prefix: str = "") -> Iterator[str]:
    """Yield every route of a WSGI application, however wrapped, as Flask writes its rules.

    Raises:
        TypeError: something answers requests that cannot be seen through.
    """
    if isinstance(application, DispatcherMiddleware):
        yield from routes(application.app, prefix)
        for mount, inner in application.mounts.items():
            yield from routes(inner, prefix + mount)
    elif isinstance(application, Flask) and "wsgi_app" in vars(application):
        yield from routes(application.wsgi_app, prefix)
    elif flask_app := _flask(application):
        yield from (prefix + rule.rule for rule in flask_app.url_map.iter_rules())
    elif isinstance(application, WsgiDAVApp):
        yield from (f"{prefix}/", prefix + DAV)
    else:
        yield from routes(_inner(application), prefix)


def _flask(application: Any) -> Flask | None:
    """Return the Flask application that this is, or whose own method this is."""
    own = getattr(application, "__self__", application)
    return own if isinstance(own, Flask) else None


def _inner(application: Any) -> Any:
    for name in _INNER:
        if name in getattr(application, "__dict__", {}):
            return vars(application)[name]
    raise TypeError(f"{application!r} cannot be seen through: name what it wraps in _INNER")


class _Teller:
    """Stands in for the server: says what it would serve, and ends."""

    def __init__(self, application: Any, port: int, *_: Any, **__: Any) -> None:
        self._application = application
        self.port = port

    def run(self, *_: Any) -> None:
        """Tell the routes."""
        told = sorted(set(routes(self._application)))
        sys.stdout.write(f"{BEGIN}{json.dumps(told)}\n")

    def stop(self) -> None:
        """Do nothing."""


if __name__ == "__main__":
    wsgi_server.WSGIServer = _Teller
    main()
