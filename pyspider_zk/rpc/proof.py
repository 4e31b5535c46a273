"""Proof that a caller and a member know the secret, without sending it.

A call carries an HMAC (RFC 2104, with SHA-256) over whom it is for, when and on whose behalf it
is made, and its body. The answer carries one over the call's nonce and its own body, so that
nobody else's answer is believed and no earlier one fits.
"""

import hmac
import re
from dataclasses import asdict, dataclass
from hashlib import sha256
from urllib.parse import parse_qsl, urlencode

from pyspider_zk.errors import BadMessage

SCHEME = "PyspiderZk"
"""Of the header ``Authorization``."""

ANSWER_HEADER = "X-PyspiderZk-Proof"

_PURPOSE = b"pyspider-zk XML-RPC 1"  # a key of its own, if the secret ever serves for more
_NONCE = re.compile(r"[0-9a-f]{32}")
_LONGEST_HEADER = 2000  # characters
_LONGEST_USER = 100  # characters


@dataclass(frozen=True)
class Call:
    """What a call says of itself.

    Attributes:
        host: whom it is for, as in the header ``Host``.
        time: when it is made, whole seconds since the epoch.
        nonce: 32 hexadecimal digits that no other call has.
        user: on whose behalf it is made; empty: nobody's in particular.
        digest: SHA-256 of the body, as it is sent.
    """

    host: str
    time: int
    nonce: str
    user: str
    digest: str


class Prover:
    """Makes and checks proofs with one secret. Threads: any."""

    def __init__(self, secret: str) -> None:
        self._key = hmac.digest(secret.encode(), _PURPOSE, sha256)

    def header(self, call: Call) -> str:
        """Return the header ``Authorization`` of a call."""
        parameters = asdict(call)
        del parameters["host"]  # which has a header of its own
        return f"{SCHEME} {urlencode({**parameters, 'proof': self._of_call(call)})}"

    def call(self, header: str, host: str) -> Call:
        """Return what the header of a call to a host says.

        Raises:
            BadMessage: it is none, or does not prove the secret.
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
        """Return the proof of an answer."""
        return self._mac("answer", call.nonce, digest(body))

    def proves(self, proof: str, call: Call, body: bytes) -> bool:
        """Return whether a proof is that of the answer to a call."""
        return hmac.compare_digest(proof.encode(), self.answer(call, body).encode())

    def _of_call(self, call: Call) -> str:
        return self._mac("call", *map(str, asdict(call).values()))

    def _mac(self, *parts: str) -> str:
        """Return the HMAC of some texts; their encoding says where each ends."""
        text = urlencode([(str(place), part) for place, part in enumerate(parts)])
        return hmac.new(self._key, text.encode(), sha256).hexdigest()


def digest(body: bytes) -> str:
    """Return the digest of a body."""
    return sha256(body).hexdigest()


def check_user(user: str) -> str:
    """Return the name of a user that can be one.

    Raises:
        BadMessage: it cannot.
    """
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
