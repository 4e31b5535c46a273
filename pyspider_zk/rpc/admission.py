"""Admission of XML-RPC calls: not from browsers, and only with a proof of the secret.

A page of any site can make a browser post to an address that only the browser's machine reaches;
so requests from browsers are refused before anything else is checked.
"""

import base64
import hmac
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from http import HTTPStatus
from itertools import takewhile
from urllib.parse import urlsplit

from pyspider_zk.config import Settings
from pyspider_zk.errors import BadMessage
from pyspider_zk.listening import Listener, check_listening, is_loopback
from pyspider_zk.rpc.proof import ANSWER_HEADER, SCHEME, Call, Prover, check_user

logger = logging.getLogger(__name__)

XML = "text/xml"
WINDOW = 300.0  # seconds by which the clocks of caller and member may differ

LISTENER = Listener(
    name="XML-RPC",
    option="--xmlrpc-host",
    opens="change and delete every project, and end schedulers",
    guard="a secret (secret_file, the same for the whole cluster)",
)

CHALLENGE = {"WWW-Authenticate": 'Basic realm="pyspider-zk", charset="UTF-8"'}


@dataclass(frozen=True)
class Caller:
    """Person or program on whose behalf a thread works.

    Attributes:
        user: the name; empty if there is no trustworthy one.
        proven: the caller has proved the secret.
    """

    user: str = ""
    proven: bool = False


NOBODY = Caller()

_current = ContextVar("caller", default=NOBODY)


def current_caller() -> Caller:
    """Return the caller on whose behalf this thread works."""
    return _current.get()


@contextmanager
def calling(caller: Caller) -> Iterator[None]:
    """Work on behalf of a caller while the block runs."""
    before = _current.set(caller)
    try:
        yield
    finally:
        _current.reset(before)


class CallRefused(Exception):
    """Refusal of a call, with status, headers and body of the response."""

    def __init__(
        self,
        status: int,
        why: str,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
    ) -> None:
        super().__init__(why)
        self.status = status
        self.headers = dict(headers or {})
        self.body = body


@dataclass(frozen=True)
class Head:
    """Head of a call's HTTP request.

    Attributes:
        headers: case does not matter; an absent one is None.
        address: host and port at which the call arrived.
    """

    method: str
    headers: Callable[[str], str | None]
    address: tuple[str, int]


@dataclass(frozen=True)
class Admitted:
    """An admitted call.

    Attributes:
        caller: on whose behalf it is made.
        call: its proven description; None if it came without a proof.
    """

    caller: Caller
    call: Call | None = None


class CallAdmission:
    """The rules of the XML-RPC of a member, or of a fetcher. Threads: any.

    Args:
        secret: the cluster's; empty: every caller that is not a browser is admitted.
        names: host names of calls, besides loopback and the address where they arrive.
        insecure: may listen on other addresses without a secret.
        content_type: that calls must have, which no form of a browser has; empty: any.
    """

    def __init__(
        self,
        secret: str = "",
        names: Collection[str] = (),
        insecure: bool = False,
        listener: Listener = LISTENER,
        content_type: str = XML,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._secret = secret.encode()
        self._prover = Prover(secret)
        self._names = frozenset(name.lower() for name in names)
        self._insecure = insecure
        self._listener = listener
        self._content_type = content_type
        self._clock = clock
        self._since = clock()
        self._nonces = _Nonces()

    @property
    def guarded(self) -> bool:
        """Whether there is a secret."""
        return bool(self._secret)

    def listen(self, host: str) -> None:
        """Check that the process may listen on a host, and accept calls to its name.

        Raises:
            ConfigError: everybody could call it.
        """
        check_listening(self._listener, host, guarded=self.guarded, insecure=self._insecure)
        if not self.guarded:
            reach = "every program on this machine" if is_loopback(host) else "whoever reaches it"
            said = (self._listener.name, reach, self._listener.opens)
            logger.warning("%s has no secret: %s may %s; set secret_file", *said)
        self._names |= {host.lower()}

    def admit(self, head: Head) -> Admitted:
        """Authenticate a call.

        Raises:
            CallRefused: it is not for us, or not allowed.
        """
        _check_no_browser(head, self._content_type)
        host, port = self._check_host(head)
        if not self.guarded:
            return Admitted(NOBODY)
        presented = head.headers("authorization") or ""
        if presented.startswith("Basic "):
            return Admitted(Caller(self._named(presented), proven=True))
        if not presented.startswith(f"{SCHEME} "):
            raise _unproven("the cluster's secret is needed")
        call = self._proven(presented, host)
        if port != head.address[1]:
            raise CallRefused(HTTPStatus.MISDIRECTED_REQUEST, "the call is for another member")
        return Admitted(Caller(call.user, proven=True), call)

    def answer(self, admitted: Admitted, body: bytes) -> str | None:
        """Return the proof of a response, None if the call had no proof."""
        return None if admitted.call is None else self._prover.answer(admitted.call, body)

    def _check_host(self, head: Head) -> tuple[str, int | None]:
        """Return the header ``Host``, and the port in it.

        Raises:
            CallRefused: it is not a name of ours; a name that a stranger gave to our address (DNS
                rebinding) makes our answers readable to that stranger's pages.
        """
        host = head.headers("host") or ""
        try:
            parts = urlsplit(f"//{host}")
            name, port = parts.hostname or "", parts.port
        except ValueError:
            name, port = "", None
        arrived = head.address[0].lower().removeprefix("::ffff:")
        if is_loopback(name) or name in self._names or name == arrived:
            return host, port
        raise CallRefused(
            HTTPStatus.MISDIRECTED_REQUEST,
            "calls are not for this host; name it in xmlrpc_names if it is ours",
        )

    def _named(self, presented: str) -> str:
        try:
            user, _, password = base64.b64decode(presented[6:], validate=True).partition(b":")
            if not hmac.compare_digest(password, self._secret):
                raise _unproven("this is not the cluster's secret")
            return check_user(user.decode())
        except (ValueError, BadMessage):
            raise _unproven("the login cannot be read") from None

    def _proven(self, presented: str, host: str) -> Call:
        try:
            call = self._prover.call(presented, host)
            check_user(call.user)
        except BadMessage as error:
            raise _unproven(str(error)) from None
        now = self._clock()
        self._since = min(self._since, now)  # a clock that was set back must shut nobody out
        if abs(now - call.time) > WINDOW or call.time < int(self._since):
            raise self._late(call, int(now))  # what came before the start, nonces do not tell
        if not self._nonces.is_new(call.nonce, now):
            raise _unproven("the call came before")
        return call

    def _late(self, call: Call, now: int) -> CallRefused:
        """Refuse a call of another time; a caller that knows the secret learns our time."""
        body = str(now).encode()
        headers = {**CHALLENGE, ANSWER_HEADER: self._prover.answer(call, body)}
        why = f"the call is of {now - call.time} s ago, or of before the start"
        return CallRefused(HTTPStatus.UNAUTHORIZED, why, headers, body)


def admission_of(
    settings: Settings, listener: Listener = LISTENER, content_type: str = XML
) -> CallAdmission:
    """Return the rules of a process with these settings."""
    names = list(filter(None, (*settings.xmlrpc_names, settings.advertise)))
    return CallAdmission(settings.secret, names, settings.insecure, listener, content_type)


class _Nonces:
    """Nonces of the calls within the window. Only calls with a proof are recorded."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._until: dict[str, float] = {}

    def is_new(self, nonce: str, now: float) -> bool:
        """Return whether a call comes for the first time, and remember it."""
        with self._lock:
            expired = takewhile(lambda item: item[1] <= now, self._until.items())
            for old, _ in list(expired):  # the oldest come first
                del self._until[old]
            new = nonce not in self._until
            self._until.setdefault(nonce, now + 2 * WINDOW)
            return new


def _check_no_browser(head: Head, content_type: str) -> None:
    """Refuse requests of browsers.

    Args:
        content_type: that it must have; empty: any.

    Raises:
        CallRefused: naming what is wrong.
    """
    if head.method != "POST":
        raise CallRefused(HTTPStatus.METHOD_NOT_ALLOWED, "calls are posted", {"Allow": "POST"})
    for name in ("origin", "sec-fetch-site"):
        if head.headers(name) is not None:
            raise CallRefused(HTTPStatus.FORBIDDEN, f"calls from browsers are refused ({name})")
    kind = (head.headers("content-type") or "").partition(";")[0].strip().lower()
    if content_type and kind != content_type:
        why = f"the Content-Type must be {content_type}"
        raise CallRefused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, why)


def _unproven(why: str) -> CallRefused:
    return CallRefused(HTTPStatus.UNAUTHORIZED, why, CHALLENGE)
