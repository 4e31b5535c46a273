"""Admission of calls as they come by HTTP: by their heads, before their bodies are read."""

import asyncio
from hmac import compare_digest
from http import HTTPStatus

from pyspider.libs.http_server import refused
from tornado.httputil import HTTPServerRequest

from pyspider_zk.rpc.admission import Admitted, CallAdmission, CallRefused, Head
from pyspider_zk.rpc.proof import digest

HOLD_UP = 1.0  # seconds before a wrong secret is answered
HELD_UP_AT_ONCE = 16


class HttpAdmission:
    """Admission to a port. Threads: that of its loop."""

    def __init__(self, entry: CallAdmission) -> None:
        self._entry = entry
        self._held_up = asyncio.Semaphore(HELD_UP_AT_ONCE)

    async def admit(self, request: HTTPServerRequest) -> Admitted:
        """Authenticate a call.

        Raises:
            Refused: it is not for us, or not allowed.
        """
        host, port = request.connection.stream.socket.getsockname()[:2]  # type: ignore[union-attr]
        try:
            return self._entry.admit(Head(request.method or "", request.headers.get, (host, port)))
        except CallRefused as error:
            if error.status == HTTPStatus.UNAUTHORIZED and "Authorization" in request.headers:
                await self._hold_up()
            raise refused(error.status, str(error), error.headers, error.body) from None

    async def _hold_up(self) -> None:
        """Delay the response to a wrong secret: together they get a few responses per second.

        A correct secret is answered at once, also from the same address: otherwise a stranger on
        loopback could lock out everybody.
        """
        async with self._held_up:
            await asyncio.sleep(HOLD_UP)


def check_body(admitted: Admitted, body: bytes) -> None:
    """Check that a call's body is the one that its proof is of.

    Raises:
        CallRefused: it is another.
    """
    call = admitted.call
    if call is not None and not compare_digest(digest(body), call.digest):
        raise CallRefused(HTTPStatus.BAD_REQUEST, "the body is not the one that was proven")
