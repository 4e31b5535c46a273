"""Sessions: signed cookies of those who logged in by the login page."""

import hmac
import time
from collections.abc import Callable
from dataclasses import dataclass

from itsdangerous import BadData, URLSafeSerializer

COOKIE = "pyspider_zk_session"
LASTS = 12 * 3600  # seconds


@dataclass(frozen=True)
class LoginSession:
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
        clock: seconds since the epoch.
    """

    def __init__(self, key: str, clock: Callable[[], float] = time.time) -> None:
        self._key = key
        self._clock = clock
        self._serializer = URLSafeSerializer(key, salt="pyspider-zk session")

    def issue(self, name: str, secret: str) -> str:
        """Return the cookie of a user.

        Args:
            name: the user's.
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
