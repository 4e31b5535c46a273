"""Bytes to a TCP server and what it answers, past all clients that would mend them."""

import http.client
import io
import select
import socket
from contextlib import suppress
from dataclasses import dataclass

PATIENCE = 30.0  # seconds for an answer; the sender has ended, so there is nothing to wait for
WAITS = 0.4  # seconds after which a server that says nothing is thought to wait for more
MOST = 10_000_000  # bytes of an answer


@dataclass(frozen=True)
class Reply:
    """What a server answered.

    Attributes:
        status: of HTTP; 0: it hung up instead, or answered no HTTP.
        body: of the answer, as it was sent.
        silent: it neither answered nor hung up.
    """

    status: int
    body: bytes = b""
    silent: bool = False


CONTINUE = b"HTTP/1.1 100"


def exchange(address: str, request: bytes, patience: float = PATIENCE) -> Reply:
    """Send all bytes and read the answer. Blocks: ``patience`` a step."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), patience) as link:
            return _exchange(link, request)
    except OSError as error:
        return Reply(0, str(error).encode())


def _exchange(link: socket.socket, request: bytes) -> Reply:
    """Send it all; who waits for more is told after a while that there is none."""
    with suppress(ConnectionError):  # it hung up, maybe with an answer
        link.sendall(request)
        is_answered = select.select([link], [], [], WAITS)[0]
        if not is_answered or link.recv(len(CONTINUE), socket.MSG_PEEK) == CONTINUE:
            link.shutdown(socket.SHUT_WR)
    try:
        return _answer(link, request.partition(b" ")[0].decode("latin-1"))
    except TimeoutError:
        return Reply(0, silent=True)
    except OSError as error:
        return Reply(0, str(error).encode())


def _answer(link: socket.socket, method: str) -> Reply:
    answer = http.client.HTTPResponse(link, method=method)  # to HEAD there is no body
    try:
        answer.begin()
        return Reply(answer.status, answer.read(MOST))
    except http.client.HTTPException as error:
        return Reply(0, repr(error).encode())
    finally:
        answer.close()


def request(method: str, path: str, headers: list[tuple[str, str]], body: bytes) -> bytes:
    """Return a request, whatever is in its parts."""
    head = io.BytesIO()
    head.write(f"{method} {path} HTTP/1.1\r\n".encode("utf-8", "surrogatepass"))
    names = {name.lower() for name, _ in headers}
    for name, value in headers:
        head.write(f"{name}: {value}\r\n".encode("utf-8", "surrogatepass"))
    if "content-length" not in names and "transfer-encoding" not in names:
        head.write(f"Content-Length: {len(body)}\r\n".encode())
    head.write(b"Connection: close\r\n\r\n")
    return head.getvalue() + body
