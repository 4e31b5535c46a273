"""Logins: find who sent a request, by password or by session; other credentials are refused.

How often wrong passwords may be tried is limited, per user and per peer. The login page gives
sessions, in signed cookies.
"""

import hmac
import logging
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from ipaddress import IPv6Address, ip_address, ip_network
from math import ceil
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from itsdangerous import BadData, URLSafeSerializer
from pyspider.webui.identity import credentials
from werkzeug.sansio.http import parse_cookie

from pyspider_zk.errors import ClusterError
from pyspider_zk.webui.accounts import Account, Accounts
from pyspider_zk.webui.users import Role

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

logger = logging.getLogger(__name__)

MOST_KEYS = 10_000  # that wrong passwords are counted for

COOKIE = "pyspider_zk_session"
LASTS = 12 * 3600  # seconds

LOGIN = "pyspider_zk.login"
"""Key of the login in a request's environment; no header can have this name."""

_REMEMBERED = 1000

_DECOY = Account(
    "",
    Role.VIEWER,
    "scrypt:32768:8:1$0123456789abcdef$00000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000",
    hashed=True,
)


class Limit(NamedTuple):
    """How many wrong passwords there may be in a row.

    Attributes:
        burst: so many at once.
        pause: seconds after which there may be one more.
    """

    burst: int
    pause: float


PER_USER = Limit(10, 6.0)
PER_PEER = Limit(30, 2.0)

STRANGERS = 4
"""Passwords of unknown places that wait to be hashed, at most: the web UI has eight threads."""

LONGEST = 100
"""Characters of a name that wrong passwords are counted for; the header may be much longer."""


class Key(NamedTuple):
    """Key of a count: a user, a peer, or a user at a known peer."""

    kind: str
    name: str

    @property
    def limit(self) -> Limit:
        """How many wrong passwords there may be."""
        return PER_PEER if self.kind == "peer" else PER_USER


def peer_key(address: str) -> Key:
    """Return the key of a peer; an IPv6 /64 network is one peer, because one host has all of it."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return Key("peer", address)
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is None:
        return Key("peer", str(ip_network((parsed, 64), strict=False)))
    return Key("peer", address)


def known_key(name: str, address: str) -> Key:
    """Return the key of a user where that user has logged in before."""
    return Key("user at a known address", f"{peer_key(address).name} {name}")


class Throttle:
    """Counts of wrong passwords; beyond ``most`` keys the least recently used are forgotten.

    Threads: any.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, most: int = MOST_KEYS) -> None:
        self._clock = clock
        self._most = most
        self._levels: OrderedDict[Key, tuple[float, float]] = OrderedDict()  # level, when
        self._lock = threading.Lock()

    def wait(self, keys: Iterable[Key]) -> float:
        """Return the seconds until the next try is allowed to all of these; 0: now."""
        with self._lock:
            now = self._clock()
            return max(0.0, *(self._wait(key, now) for key in keys))

    def failed(self, keys: Iterable[Key]) -> list[Key]:
        """Count a wrong password; return the keys that must wait from now on."""
        with self._lock:
            now = self._clock()
            return [key for key in keys if self._count(key, now)]

    def _count(self, key: Key, now: float) -> bool:
        self._levels[key] = (self._level(key, now) + 1, now)
        self._levels.move_to_end(key)
        if len(self._levels) > self._most:
            self._levels.popitem(last=False)
        return self._wait(key, now) > 0

    def _wait(self, key: Key, now: float) -> float:
        return (self._level(key, now) + 1 - key.limit.burst) * key.limit.pause

    def _level(self, key: Key, now: float) -> float:
        level, at = self._levels.get(key, (0.0, now))
        return max(0.0, level - (now - at) / key.limit.pause)


class LoginSession(NamedTuple):
    """Content of a session cookie, which only we can have written.

    Attributes:
        proof: of the password that was set when it was issued.
    """

    name: str
    proof: str


class LoginSessions:
    """Sessions in signed cookies.

    Nothing is stored here: a session ends when it expires, when the user's password changes, or
    with the key. Threads: any.

    Args:
        key: what they are signed with.
    """

    def __init__(self, key: str, clock: Callable[[], float] = time.time) -> None:
        self._key = key
        self._clock = clock
        self._serializer = URLSafeSerializer(key, salt="pyspider-zk session")

    def issue(self, name: str, secret: str) -> str:
        """Return the cookie of a user.

        Args:
            secret: the user's password, or its hash, as it is kept.
        """
        until = self._clock() + LASTS
        cookie = self._serializer.dumps([name, self.proof(name, secret), until])
        return cookie if isinstance(cookie, str) else cookie.decode()

    def read(self, cookie: str) -> LoginSession | None:
        """Return the content of a cookie; None if it is not ours, or has expired."""
        try:
            name, proof, until = self._serializer.loads(cookie)
        except (BadData, ValueError, TypeError):
            return None
        return LoginSession(name, proof) if self._clock() < until else None

    def proof(self, name: str, secret: str) -> str:
        """Return the proof that a cookie contains instead of the password."""
        return hmac.new(self._key.encode(), f"{name}:{secret}".encode(), "sha256").hexdigest()


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
    """Wrong passwords were tried too often, or too many are being checked.

    Attributes:
        wait: seconds until the next try.
    """

    def __init__(self, wait: float, why: str = "too many wrong passwords") -> None:
        self.wait = ceil(wait)
        super().__init__(f"{why}: try again in {self.wait} s")


class Logins:
    """Logins by password and by session. Threads: any.

    A password is hashed when it is first seen, then remembered by a keyed digest: a client with
    HTTP Basic sends it with every request.
    """

    def __init__(
        self, accounts: Callable[[], Accounts], throttle: Throttle, sessions: LoginSessions
    ) -> None:
        self._accounts = accounts
        self._throttle = throttle
        self._sessions = sessions
        self._key = secrets.token_bytes(32)
        self._hashing = threading.Lock()  # a hash takes 32 MB
        self._strangers = threading.BoundedSemaphore(STRANGERS)
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
        if account is not None and self._remembers(account, password):
            return Login(account.name, account.role)
        keys = self._keys(name, peer)
        if wait := self._throttle.wait(keys):
            raise TooManyTries(wait)
        with self._turn(is_known=len(keys) == 1):
            if not (account and account.hashed) and any(each.hashed for each in accounts.values()):
                _DECOY.has(password)  # every name takes as long as one in the file
            is_right = account is not None and (
                self._remembers(account, password) or account.has(password)
            )
        if account is None or not is_right:
            self._refuse(account, peer, keys)
        self._right.add(self._digest(account, password))
        self._known.add(known_key(name, peer))
        return Login(account.name, account.role)

    @contextmanager
    def _turn(self, *, is_known: bool) -> Iterator[None]:
        """Take the turn to hash a password, which one has at a time.

        Few may wait for it whose place is not known: guesses from many peers would take all of the
        web UI's threads.

        Raises:
            TooManyTries: they wait already.
        """
        if is_known:
            with self._hashing:
                yield
        elif self._strangers.acquire(blocking=False):
            try:
                with self._hashing:
                    yield
            finally:
                self._strangers.release()
        else:
            raise TooManyTries(1, "too many passwords are being checked")

    def _keys(self, name: str, peer: str) -> list[Key]:
        """Return what a wrong password counts for.

        Where a user has logged in before, only what is tried there counts for that user: others
        lock nobody out of a known place.
        """
        known = known_key(name, peer)
        return [known] if known in self._known else [peer_key(peer), Key("user", name[:LONGEST])]

    def _refuse(self, account: Account | None, peer: str, keys: list[Key]) -> NoReturn:
        """Log the refusal without an unknown name, which may be a password."""
        who = repr(account.name) if account else "an unknown name"
        logger.warning("wrong login to the web UI as %s from %s", who, peer)
        for key in self._throttle.failed(keys):
            whom = f"{peer}; a proxy belongs in trusted_proxies" if key.kind == "peer" else who
            logger.warning("too many wrong logins, refused for a while: %s %s", key.kind, whom)
        raise WrongLogin("wrong name or password")

    def _remembers(self, account: Account, password: str) -> bool:
        """Return whether this password of this account was right lately."""
        return self._digest(account, password) in self._right

    def _digest(self, account: Account, password: str) -> bytes:
        """Return the digest of this password of this account as it is now."""
        return hmac.digest(self._key, f"{account.secret}\0{password}".encode(), "sha256")

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
