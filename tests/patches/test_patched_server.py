"""The server behind the web UI and the XML-RPC interfaces."""

import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest

DEADLINE = 60.0


@contextmanager
def serving(application: Callable[..., Iterable[bytes]]) -> Iterator[str]:
    """Serve in a thread, with slow paths; give the URL."""
    from pyspider.libs.wsgi_server import WSGIServer

    server = WSGIServer(application, 0, "127.0.0.1", lambda path: path.startswith("/slow"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.port}"
    finally:
        server.stop()
        thread.join(DEADLINE)
        assert not thread.is_alive()


def get(url: str | urllib.request.Request, body: bytes | None = None) -> bytes:
    with urllib.request.urlopen(url, body, timeout=DEADLINE) as answer:  # noqa: S310 - our own
        return bytes(answer.read())


def test_a_slow_request_holds_up_only_its_like() -> None:
    released = threading.Event()
    begun = threading.Event()

    def application(environ: dict[str, Any], start: Any) -> list[bytes]:
        start("200 OK", [])
        if environ["PATH_INFO"] == "/slow":
            begun.set()
            assert released.wait(DEADLINE)  # by the quick request, or never
            return [b"at last"]
        return [b"at once"]

    answers: list[bytes] = []
    with serving(application) as url:
        slow = threading.Thread(target=lambda: answers.append(get(f"{url}/slow")))
        slow.start()
        assert begun.wait(DEADLINE)
        assert get(f"{url}/") == b"at once"
        released.set()
        slow.join(DEADLINE)

    assert answers == [b"at last"]


@pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt, BaseException])
def test_a_slow_request_that_fails_leaves_the_next_one_be(error: type[BaseException]) -> None:
    def application(environ: dict[str, Any], start: Any) -> list[bytes]:
        if environ["PATH_INFO"] == "/slow/bad":
            raise error("on trial")
        start("200 OK", [])
        return [b"well"]

    with serving(application) as url:
        with pytest.raises(OSError, match=r"closed|reset|Remote"):
            get(f"{url}/slow/bad")
        assert get(f"{url}/slow") == b"well"


def test_stopping_lets_a_slow_request_end() -> None:
    from pyspider.libs.wsgi_server import WSGIServer

    servers: list[WSGIServer] = []

    def application(_environ: dict[str, Any], start: Any) -> list[bytes]:
        servers[0].stop()
        start("200 OK", [])
        return [b"still answered"]

    servers.append(WSGIServer(application, 0, "127.0.0.1", lambda _: True))
    thread = threading.Thread(target=servers[0].run)
    thread.start()
    assert get(f"http://127.0.0.1:{servers[0].port}/") == b"still answered"
    thread.join(DEADLINE)
    assert not thread.is_alive()


def test_an_overlong_request_is_cut_off_before_the_application_sees_it() -> None:
    from pyspider.libs.wsgi_server import MOST_BYTES

    seen: list[str] = []

    def application(environ: dict[str, Any], start: Any) -> list[bytes]:
        seen.append(environ["PATH_INFO"])
        start("200 OK", [])
        return [b""]

    with serving(application) as url:
        with pytest.raises(OSError, match=r"."):
            get(url, b"x" * (MOST_BYTES + 1))
        place = urlsplit(url)
        with socket.create_connection((place.hostname, place.port), DEADLINE) as link:
            head = f"POST /long HTTP/1.1\r\nHost: x\r\nContent-Length: {MOST_BYTES + 1}\r\n\r\n"
            link.sendall(head.encode())
            assert link.recv(100).startswith(b"HTTP/1.1 413 ")
        get(f"{url}/after")

    assert seen == ["/after"]


@pytest.mark.parametrize("forged", [0, 1])
def test_a_name_with_an_underscore_is_taken_for_no_other_header(forged: int) -> None:
    def application(environ: dict[str, Any], start: Any) -> list[bytes]:
        start("200 OK", [])
        return [environ.get("HTTP_X_FORWARDED_FOR", "none").encode()]

    headers = [("X-Forwarded-For", "192.0.2.7"), ("X_Forwarded_For", "192.0.2.1")]
    with serving(application) as url:
        both = urllib.request.Request(url, headers=dict(headers[:: 1 - 2 * forged]))  # noqa: S310
        assert get(both) == b"192.0.2.7"
        alone = urllib.request.Request(url, headers=dict(headers[1:]))  # noqa: S310
        assert get(alone) == b"none"
