"""Proof that a caller and a member know the secret, without sending it.

A call carries an HMAC (RFC 2104, with SHA-256) over its addressee, time, user and body. The
response carries one over the call's nonce and its own body, so that neither a response from
anybody else nor an earlier one is accepted.
"""

import hmac
import re
from dataclasses import asdict, dataclass
from hashlib import sha256
from urllib.parse import parse_qsl, urlencode

from pyspider_zk.errors import BadMessage

SCHEME = "PyspiderZk"
"""Scheme of the header ``Authorization``."""

ANSWER_HEADER = "X-PyspiderZk-Proof"

_PURPOSE = (
    b"pyspider-zk XML-RPC 1"  # derives a separate key, should the secret ever be used for more
)
_NONCE = re.compile(r"[0-9a-f]{32}")
_LONGEST_HEADER = 2000  # characters
_LONGEST_USER = 100  # characters


@dataclass(frozen=True)
class Call:
    """Description of a call.

    Attributes:
        host: its addressee, as in the header ``Host``.
        time: when it is made, whole seconds since the epoch.
        nonce: 32 hexadecimal digits, unique to the call.
        user: on whose behalf it is made; empty: unknown.
        digest: SHA-256 of the body, as it is sent.
    """

    host: str
    time: int
    nonce: str
    user: str
    digest: str


class Prover:
    """Creates and checks proofs with one secret. Threads: any."""

    def __init__(self, secret: str) -> None:
        self._key = hmac.digest(secret.encode(), _PURPOSE, sha256)

    def header(self, call: Call) -> str:
        """Return the header ``Authorization`` of a call."""
        parameters = asdict(call)
        del parameters["host"]  # it has a header of its own
        return f"{SCHEME} {urlencode({**parameters, 'proof': self._of_call(call)})}"

    def call(self, header: str, host: str) -> Call:
        """Return the call that a header describes, for a call to a host.

        Raises:
            BadMessage: it is malformed, or does not prove the secret.
        """
        parameters = _parameters(header)
        proof = parameters.pop("proof", "")
        try:
            call = Call(host, int(parameters.pop("time")), **parameters)
        except (TypeError, ValueError, KeyError):
            raise BadMessage("what the call says of itself cannot be read") from None
        if not hmac.compare_digest(proof.encode(), self._of_call(call).encode()):
            raise BadMessage("the call does not prove the secret")
        if not _NONCE.fullmatch(call.nonce):
            raise BadMessage("the call has no nonce")
        return call

    def answer(self, call: Call, body: bytes) -> str:
        """Return the proof of a response."""
        return self._mac("answer", call.nonce, digest(body))

    def proves(self, proof: str, call: Call, body: bytes) -> bool:
        """Return whether a proof is that of the response to a call."""
        return hmac.compare_digest(proof.encode(), self.answer(call, body).encode())

    def _of_call(self, call: Call) -> str:
        return self._mac("call", *map(str, asdict(call).values()))

    def _mac(self, *parts: str) -> str:
        """Return the HMAC of some texts, encoded so that it is clear where each ends."""
        text = urlencode([(str(place), part) for place, part in enumerate(parts)])
        return hmac.new(self._key, text.encode(), sha256).hexdigest()


def digest(body: bytes) -> str:
    """Return the digest of a body."""
    return sha256(body).hexdigest()


def check_user(user: str) -> str:
    """Return the user's name if it is valid; raise ``BadMessage`` if not."""
    if len(user) > _LONGEST_USER or not user.isprintable():
        raise BadMessage(f"a user's name has up to {_LONGEST_USER} printable characters")
    return user


def _parameters(header: str) -> dict[str, str]:
    text = header.removeprefix(f"{SCHEME} ")
    try:
        pairs = parse_qsl(
            text[:_LONGEST_HEADER],
            keep_blank_values=True,
            strict_parsing=True,
            errors="strict",
            max_num_fields=5,
        )
    except ValueError:
        return {}
    return dict(pairs)
