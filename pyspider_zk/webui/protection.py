"""Protection: the checks before pyspider's web UI, put together."""

import secrets
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from http import HTTPStatus
from ipaddress import IPv6Address, ip_address, ip_network
from pathlib import Path
from typing import TYPE_CHECKING, Any

from werkzeug.middleware.dispatcher import DispatcherMiddleware

from pyspider_zk.config import Settings
from pyspider_zk.rpc.server import limits_of
from pyspider_zk.webui import login
from pyspider_zk.webui.access import Access, refuse
from pyspider_zk.webui.accounts import FileAccounts, all_accounts, login_settings
from pyspider_zk.webui.audit import Append, AuditedDav, audited
from pyspider_zk.webui.browsers import Guard, Headers, hosts_of
from pyspider_zk.webui.logins import LOGIN, Logins, LoginSessions, Throttle
from pyspider_zk.webui.page_data import configured, replaced
from pyspider_zk.webui.users import read_users

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

COOKIES = {"SESSION_COOKIE_SAMESITE": "Strict", "SESSION_COOKIE_HTTPONLY": True}
"""Flask's settings for cookies that other sites' requests do not carry and scripts do not see."""


@contextmanager
def protected(
    flask_app: Any, settings: Settings, append: Append, listens: str = "127.0.0.1"
) -> Iterator[None]:
    """Protect pyspider's pages and its WebDAV while the block runs.

    pyspider puts WebDAV beside the Flask application when it begins to serve.

    Args:
        append: writes an event.
        listens: the address that the web UI binds.

    Raises:
        ConfigError: the user file is faulty.
    """
    config, behind = flask_app.config, _webdav()
    logins = _logins(settings, config)
    hosts = hosts_of(listens, settings.trusted_hosts, settings.trusted_origins)

    def wrapped(application: "WSGIApplication") -> "WSGIApplication":
        access = Access(application, logins, config)
        guard = Guard(access, settings.trusted_origins, hosts)
        return Headers(RealIP(guard, settings.trusted_proxies), config.get("cdn") or "")

    ours = {
        **COOKIES,
        **login_settings(settings),
        "identify": lambda environ: environ.get(LOGIN),
        "door": wrapped(DispatcherMiddleware(_let_in, {login.PREFIX: _too_large})),
        "http_limits": limits_of(settings),
    }
    pages = DispatcherMiddleware(flask_app.wsgi_app, {login.PREFIX: login.create_login(logins)})
    with ExitStack() as lent:
        lent.enter_context(replaced(flask_app, "wsgi_app", wrapped(pages)))
        lent.enter_context(configured(config, ours))
        if behind is not None:
            dav = wrapped(AuditedDav(flask_app, behind.dav_app, append))
            lent.enter_context(replaced(behind, "dav_app", dav))
        lent.enter_context(audited(flask_app, append))
        yield


def _logins(settings: Settings, config: Any) -> Logins:
    """Return the logins of all accounts; without a file sessions end with the process."""
    if not settings.users:
        return Logins(all_accounts(config), Throttle(), LoginSessions(secrets.token_hex(32)))
    path = Path(settings.users)
    accounts = all_accounts(config, FileAccounts(path).read)
    return Logins(accounts, Throttle(), LoginSessions(read_users(path).key))


def _let_in(_environ: "WSGIEnvironment", start: "StartResponse") -> list[bytes]:
    """Let a request with a large body in; it passed the checks."""
    start("204 No Content", [])
    return []


def _too_large(environ: "WSGIEnvironment", start: "StartResponse") -> list[bytes]:
    return refuse(environ, start, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "a login is small")


def _webdav() -> Any:
    """Return pyspider's module for WebDAV, None if its dependencies are not installed."""
    try:
        from pyspider.webui import webdav
    except ImportError:
        return None
    return webdav


class RealIP:
    """A WSGI application that is told visitors' addresses instead of its proxies'. Threads: any.

    Each proxy appends the address of its peer to ``X-Forwarded-For``. The last one that is no
    trusted proxy's is the visitor's: whatever stands before it may have come from the visitor.
    """

    def __init__(self, application: "WSGIApplication", proxies: Iterable[str]) -> None:
        self._application = application
        self._proxies = tuple(map(ip_network, proxies))

    def __call__(self, environ: "WSGIEnvironment", start: "StartResponse") -> Iterable[bytes]:
        """Pass the request on with the visitor's address."""
        reported = str(environ.get("HTTP_X_FORWARDED_FOR", "")).split(",")
        address = _plain(str(environ.get("REMOTE_ADDR", "")))
        while address and self._is_proxy(address):
            environ["REMOTE_ADDR"] = address
            address = _plain(reported.pop().strip()) if reported else ""
        if address:
            environ["REMOTE_ADDR"] = address
        return self._application(environ, start)

    def _is_proxy(self, address: str) -> bool:
        return any(ip_address(address) in each for each in self._proxies)


def _plain(text: str) -> str:
    """Return an address in its usual form, empty if it is none."""
    try:
        address = ip_address(text)
    except ValueError:
        return ""
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return str(mapped or address)
