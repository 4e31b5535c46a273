"""Logins: find who sent a request, by password or by session; other credentials are refused."""

import logging
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from hmac import digest
from math import ceil
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from pyspider.webui.identity import credentials
from werkzeug.sansio.http import parse_cookie

from pyspider_zk.errors import ClusterError
from pyspider_zk.webui.accounts import Account, Accounts
from pyspider_zk.webui.roles import Role
from pyspider_zk.webui.sessions import COOKIE, LoginSessions
from pyspider_zk.webui.throttle import Key, Throttle, known_key, peer_key

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

logger = logging.getLogger(__name__)

LOGIN = "pyspider_zk.login"
"""Key of the login in a request's environment; no header can have this name."""

_REMEMBERED = 1000

_DECOY = Account(
    "",
    Role.VIEWER,
    "scrypt:32768:8:1$0123456789abcdef$00000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000",
    hashed=True,
)


class Login(NamedTuple):
    """Who is logged in."""

    name: str
    role: Role

    @property
    def is_viewer(self) -> bool:
        """Whether they may only look."""
        return self.role is Role.VIEWER


class WrongLogin(ClusterError):
    """A name or password that is wrong, or credentials that cannot be read."""


class TooManyTries(ClusterError):
    """Wrong passwords were tried too often.

    Attributes:
        wait: seconds until the next try.
    """

    def __init__(self, wait: float) -> None:
        self.wait = ceil(wait)
        super().__init__(f"too many wrong passwords: try again in {self.wait} s")


class Logins:
    """Logins by password and by session. Threads: any.

    A password is hashed when it is first seen, then remembered by a keyed digest: a client with
    HTTP Basic sends it with every request.

    Args:
        accounts: returns all accounts by name.
        throttle: counts wrong passwords.
        sessions: of those who logged in by the login page.
    """

    def __init__(
        self, accounts: Callable[[], Accounts], throttle: Throttle, sessions: LoginSessions
    ) -> None:
        self._accounts = accounts
        self._throttle = throttle
        self._sessions = sessions
        self._key = secrets.token_bytes(32)
        self._hashing = threading.Lock()  # a hash takes 32 MB
        self._right = _Latest()
        self._known = _Latest()

    def find(self, environ: "WSGIEnvironment") -> Login | None:
        """Return who sent a request; None if it has no credentials, or nobody can log in.

        Raises:
            WrongLogin: the credentials are wrong, or of an unknown kind.
            TooManyTries: see there.
        """
        accounts = self._accounts()
        if not accounts:
            return None
        if "HTTP_AUTHORIZATION" in environ:
            given = credentials(environ)
            if given is None:
                raise WrongLogin("log in with a name and a password by HTTP Basic")
            name, password = given
            return self._checked(name, password, str(environ.get("REMOTE_ADDR", "")), accounts)
        return self._of_session(environ, accounts)

    def start_session(self, name: str, password: str, peer: str) -> str:
        """Return the cookie of a new session.

        Raises:
            WrongLogin: name or password is wrong.
            TooManyTries: see there.
        """
        accounts = self._accounts()
        login = self._checked(name, password, peer, accounts)
        return self._sessions.issue(login.name, accounts[login.name].secret)

    def _checked(self, name: str, password: str, peer: str, accounts: Accounts) -> Login:
        account = accounts.get(name)
        if account is not None and self._digest(account, password) in self._right:
            return Login(account.name, account.role)
        keys = self._keys(name, peer)
        if wait := self._throttle.wait(keys):
            raise TooManyTries(wait)
        with self._hashing:
            if not (account and account.hashed) and any(each.hashed for each in accounts.values()):
                _DECOY.has(password)  # every name takes as long as one in the file
            is_right = account is not None and account.has(password)
        if account is None or not is_right:
            self._refuse(account, peer, keys)
        self._right.add(self._digest(account, password))
        self._known.add(known_key(name, peer))
        return Login(account.name, account.role)

    def _keys(self, name: str, peer: str) -> list[Key]:
        """Return what a wrong password counts for.

        Where a user has logged in before, only what is tried there counts for that user: others
        lock nobody out of a known place.
        """
        known = known_key(name, peer)
        return [known] if known in self._known else [peer_key(peer), Key("user", name)]

    def _refuse(self, account: Account | None, peer: str, keys: list[Key]) -> NoReturn:
        """Log the refusal without an unknown name, which may be a password."""
        who = repr(account.name) if account else "an unknown name"
        logger.warning("wrong login to the web UI as %s from %s", who, peer)
        for key in self._throttle.failed(keys):
            whom = f"{peer}; a proxy belongs in trusted_proxies" if key.kind == "peer" else who
            logger.warning("too many wrong logins, refused for a while: %s %s", key.kind, whom)
        raise WrongLogin("wrong name or password")

    def _digest(self, account: Account, password: str) -> bytes:
        """Return the digest of this password of this account as it is now."""
        return digest(self._key, f"{account.secret}\0{password}".encode(), "sha256")

    def _of_session(self, environ: "WSGIEnvironment", accounts: Accounts) -> Login | None:
        session = self._sessions.read(_cookie(environ))
        account = accounts.get(session.name) if session else None
        if session is None or account is None:
            return None
        proof = self._sessions.proof(account.name, account.secret)
        return Login(account.name, account.role) if proof == session.proof else None


class _Latest:
    """The latest of what was added. Threads: any."""

    def __init__(self) -> None:
        self._found: OrderedDict[Hashable, None] = OrderedDict()

    def __contains__(self, one: Hashable) -> bool:
        return one in self._found

    def add(self, one: Hashable) -> None:
        self._found[one] = None
        while len(self._found) > _REMEMBERED:
            self._found.popitem(last=False)


def _cookie(environ: "WSGIEnvironment") -> str:
    """Return the session's cookie, empty if there is none; other cookies may be any bytes."""
    header = str(environ.get("HTTP_COOKIE", "")).encode("latin-1").decode(errors="replace")
    return parse_cookie(header).get(COOKIE, "")
