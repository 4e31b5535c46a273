"""Answers that are sent as they are made, such as exports of results."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from http.client import HTTPConnection, HTTPResponse, IncompleteRead
from typing import Any

import pytest

from tests.support.strangers import LOOPBACK, connected

DEADLINE = 60.0
PART = b"x" * 100_000

Source = Callable[[], Iterator[bytes]]


class EndlessSource:
    """Bytes without an end; counts what was asked for, and tells when nobody will ask again."""

    def __init__(self) -> None:
        self.made = 0
        self.closed = threading.Event()

    def __call__(self) -> Iterator[bytes]:
        try:
            while True:
                self.made += len(PART)
                yield PART
        finally:
            self.closed.set()


@contextmanager
def serving(source: Source, **limits: Any) -> Iterator[int]:
    """Serve what a source makes at /export, and a page elsewhere; give the port."""
    from pyspider.libs.http_server import Limits
    from pyspider.libs.wsgi_server import WSGIServer

    def application(environ: dict[str, Any], start: Any) -> Any:
        start("200 OK", [])
        return source() if environ["PATH_INFO"] == "/export" else [b"page"]

    server = WSGIServer(application, 0, LOOPBACK, limits=Limits(**limits))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        yield server.port
    finally:
        server.stop()
        thread.join(DEADLINE)
        assert not thread.is_alive()


@contextmanager
def asked(port: int, path: str = "/export") -> Iterator[HTTPResponse]:
    with closing(HTTPConnection(LOOPBACK, port, timeout=DEADLINE)) as link:
        link.request("GET", path)
        yield link.getresponse()


def page(port: int) -> bytes:
    with asked(port, "/") as answer:
        return answer.read()


def test_the_first_bytes_come_before_the_last_are_made_and_pages_meanwhile() -> None:
    released = threading.Event()

    def source() -> Iterator[bytes]:
        yield PART
        assert released.wait(DEADLINE)
        yield b"end"

    with serving(source) as port, asked(port) as first, asked(port) as second:
        assert first.read(1000) == second.read(1000) == PART[:1000]
        assert [page(port) for _ in range(20)] == [b"page"] * 20
        released.set()
        assert first.read() == second.read() == PART[1000:] + b"end"


def test_a_short_answer_is_sent_whole_with_its_length() -> None:
    with serving(lambda: iter([b"a", b"", b"b"])) as port, asked(port) as answer:
        assert (answer.headers["Content-Length"], answer.read()) == ("2", b"ab")


def failing() -> Iterator[bytes]:
    yield PART
    raise ValueError("the database is away")


def test_an_answer_that_fails_half_way_has_no_end(caplog: pytest.LogCaptureFixture) -> None:
    with serving(failing) as port:
        with asked(port) as answer, pytest.raises(IncompleteRead):
            answer.read()
        assert page(port) == b"page"
    assert "GET /export failed" in caplog.text


OLD = b"GET /export HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"  # as some proxies ask


def received(link: socket.socket) -> bytes:
    link.settimeout(DEADLINE)
    return b"".join(iter(lambda: link.recv(2**16), b""))


def test_one_who_knows_no_chunks_sees_the_end_by_the_connections_end() -> None:
    with serving(lambda: iter([PART, b"end"])) as port, connected(port, OLD) as links:
        head, _, body = received(links[0]).partition(b"\r\n\r\n")
    assert b"chunked" not in head
    assert body == PART + b"end"


def test_one_who_knows_no_chunks_sees_a_failure_as_a_broken_connection() -> None:
    with (
        serving(failing) as port,
        connected(port, OLD) as links,
        pytest.raises(ConnectionResetError),
    ):
        received(links[0])


def test_one_who_knows_no_chunks_sees_that_a_stop_has_cut_it_off() -> None:
    source = EndlessSource()
    with ExitStack() as opened:
        with serving(source) as port:
            (link,) = opened.enter_context(connected(port, OLD))
            assert link.recv(10)
        with pytest.raises(ConnectionResetError):
            received(link)


def test_who_goes_away_ends_what_was_made_for_them() -> None:
    source = EndlessSource()
    with serving(source) as port:
        with asked(port) as answer:
            assert answer.read(10)
        assert source.closed.wait(DEADLINE)


def test_who_reads_nothing_is_let_go_and_little_was_made_for_them() -> None:
    source = EndlessSource()
    with serving(source, body=1.0) as port, asked(port):
        assert source.closed.wait(DEADLINE)
        assert page(port) == b"page"
    assert source.made < 32 * 2**20  # the system buffers some


def test_stopping_does_not_wait_for_the_end_of_an_export() -> None:
    source = EndlessSource()
    with closing(socket.socket()) as link:
        with serving(source) as port:
            link.connect((LOOPBACK, port))
            link.sendall(b"GET /export HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert link.recv(10)
        assert source.closed.wait(DEADLINE)
