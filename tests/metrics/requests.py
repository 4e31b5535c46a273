"""Requests to a port that serves metrics."""

import http.client
import ssl
from email.message import Message
from typing import NamedTuple

LOOPBACK = "127.0.0.1"


class Response(NamedTuple):
    status: int
    text: str
    headers: Message


def get(port: int, path: str, tls: ssl.SSLContext | None = None, **headers: str) -> Response:
    """Ask the port; an underscore in the name of a header stands for a dash."""
    kind = http.client.HTTPSConnection if tls else http.client.HTTPConnection
    options = {"context": tls} if tls else {}
    link = kind("localhost", port, timeout=60, **options)
    try:
        link.request(
            "GET", path, headers={name.replace("_", "-"): each for name, each in headers.items()}
        )
        answer = link.getresponse()
        return Response(answer.status, answer.read().decode(), answer.headers)
    finally:
        link.close()
