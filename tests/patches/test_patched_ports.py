"""What strangers hold of the port of the web UI: nothing, or little and not for long."""

import gc
import os
import resource
import signal
import socket
import threading
import tracemalloc
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from http.client import HTTPConnection, HTTPException
from typing import Any

import pytest

from tests.support.strangers import LOOPBACK, connected, is_cut_off, told
from tests.support.waiting import eventually

DEADLINE = 60.0
HEAD = b"POST / HTTP/1.1\r\nHost: localhost\r\n"
LARGE = HEAD + b"Content-Length: 16000000\r\n\r\n"


def echo(environ: dict[str, Any], start: Any) -> list[bytes]:
    body = environ["wsgi.input"].read()
    start("200 OK", [])
    return [b"%d" % len(body)]


def known(environ: dict[str, Any], start: Any) -> list[bytes]:
    """Let those in who say a word."""
    start("204 No Content" if "HTTP_WORD" in environ else "401 Say the word", [])
    return []


@contextmanager
def serving(application: Any = echo, **options: Any) -> Iterator[int]:
    from pyspider.libs.wsgi_server import WSGIServer

    server = WSGIServer(application, 0, LOOPBACK, **options)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        yield server.port
    finally:
        server.stop()
        thread.join(DEADLINE)
        assert not thread.is_alive()


def limits(**given: Any) -> Any:
    from pyspider.libs.http_server import Limits

    return Limits(**given)


def ask(port: int, body: bytes = b"", **headers: str) -> tuple[int, bytes]:
    with closing(HTTPConnection(LOOPBACK, port, timeout=DEADLINE)) as link:
        link.request("POST", "/", body, headers)
        answer = link.getresponse()
        return answer.status, answer.read()


def in_time(port: int, body: bytes = b"") -> tuple[int, bytes]:
    """Return status and answer, 0 if it was cut off: a starved machine may drip as well."""
    with suppress(OSError, HTTPException):
        return ask(port, body)
    return 0, b""


def test_large_bodies_of_strangers_are_refused_before_they_are_kept() -> None:
    tracemalloc.start()
    try:
        with serving(door=known) as port:
            before, _ = tracemalloc.get_traced_memory()
            with connected(port, LARGE + b"x" * 2**20, 70) as links:
                said = [told(each) for each in links]
            kept = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    assert {each.partition(b"\r\n")[0] for each in said} <= {b"HTTP/1.1 401 Say the word", b""}
    assert kept < 8 * 2**20


def test_who_is_known_may_send_large_bodies_and_strangers_small_ones() -> None:
    with serving(door=known) as port:
        assert ask(port, b"x" * 10_000) == (200, b"10000")
        assert ask(port, b"x" * 100_000)[0] == 401
        assert ask(port, b"x" * 15_000_000, Word="sesame") == (200, b"15000000")
        too_large = b"Word: sesame\r\nExpect: 100-continue\r\nContent-Length: 17000000\r\n\r\n"
        with connected(port, HEAD + too_large) as links:
            assert b" 413 " in told(links[0])


def test_a_large_body_in_chunks_needs_to_be_known_as_well() -> None:
    chunks = HEAD + b"Transfer-Encoding: chunked\r\n%s\r\n5\r\nhello\r\n0\r\n\r\n"
    with serving(door=known) as port:
        with connected(port, chunks % b"") as links:
            assert b" 401 " in told(links[0])
        with connected(port, chunks % b"Word: sesame\r\nConnection: close\r\n") as links:
            assert told(links[0]).endswith(b"\r\n\r\n5")


def test_large_bodies_take_turns_and_who_waits_too_long_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from pyspider.libs import http_server

    monkeypatch.setattr(http_server, "LARGE_AT_ONCE", 1)
    with serving(limits=limits(head=0.3, body=60)) as port:
        with connected(port, HEAD + b"Content-Length: 2000000\r\n\r\n"):
            eventually(lambda: in_time(port, b"x" * 900_000) == (200, b"900000"))
            waiting = b"Expect: 100-continue\r\nContent-Length: 2000000\r\n\r\n"
            with connected(port, HEAD + waiting) as links:
                assert b" 503 " in told(links[0])
        eventually(lambda: in_time(port, b"x" * 2_000_000) == (200, b"2000000"))


def test_a_head_and_a_body_that_drip_are_cut_off() -> None:
    with serving(limits=limits(head=0.3, body=0.3)) as port:
        with connected(port, b"POST / HTTP/1.1\r\nX: ") as links:
            assert is_cut_off(links[0])
        with connected(port, HEAD + b"Content-Length: 15000\r\n\r\n") as links:
            assert is_cut_off(links[0])
        eventually(lambda: in_time(port)[0] == 200)


def test_a_head_without_an_end_is_cut_off() -> None:
    with serving(limits=limits(head_bytes=10_000)) as port:
        with connected(port, b"GET / HTTP/1.1\r\nX: " + b"x" * 40_000) as links:
            assert told(links[0]) == b""
        assert ask(port)[0] == 200


def open_files() -> int:
    """Return how many files this process has open, which are more than this test's."""
    return len(os.listdir("/proc/self/fd"))


def test_thousands_of_half_heads_keep_nobody_out_and_few_stay_open() -> None:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    count = min(5000, most - 700)
    before = open_files()
    with serving(limits=limits(connections=200)) as port, connected(port, HEAD, count) as links:
        assert ask(port) == (200, b"0")
        assert told(links[0]) == b""
        eventually(lambda: open_files() - before - count < 150)


def test_the_oldest_of_one_peer_makes_room_for_its_next() -> None:
    with serving(limits=limits(connections=4)) as port, connected(port, HEAD, 2) as links:
        with connected(port, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n") as newest:
            assert newest[0].recv(12) == b"HTTP/1.1 200"
        assert told(links[0]) == b""
        links[1].sendall(b"Connection: close\r\nContent-Length: 0\r\n\r\n")
        assert b" 200 " in told(links[1])


def test_what_is_being_answered_makes_no_room() -> None:
    begun, released = threading.Event(), threading.Event()

    def slow(_environ: dict[str, Any], start: Any) -> list[bytes]:
        begun.set()
        assert released.wait(DEADLINE)
        start("200 OK", [])
        return [b"at last"]

    asking = HEAD + b"Connection: close\r\nContent-Length: 0\r\n\r\n"
    with serving(slow, limits=limits(connections=2)) as port, connected(port, asking) as links:
        assert begun.wait(DEADLINE)
        with connected(port, HEAD) as refused:
            assert told(refused[0]) == b""
        released.set()
        assert told(links[0]).endswith(b"at last")


def test_who_reads_no_answer_makes_room() -> None:
    def large(_environ: dict[str, Any], start: Any) -> list[bytes]:
        start("200 OK", [])
        return [b"x" * 20_000_000]

    asking = HEAD + b"Content-Length: 0\r\n\r\n"
    with serving(large, limits=limits(connections=4)) as port, connected(port, asking, 2) as links:
        for each in links:
            assert each.recv(12) == b"HTTP/1.1 200"
        with connected(port, asking) as newest:
            assert newest[0].recv(12) == b"HTTP/1.1 200"


def test_requests_that_nobody_waits_for_are_bounded() -> None:
    begun, released = threading.Semaphore(0), threading.Event()

    def slow(_environ: dict[str, Any], start: Any) -> list[bytes]:
        begun.release()
        assert released.wait(DEADLINE)
        start("200 OK", [])
        return [b"done"]

    asking = HEAD + b"Content-Length: 0\r\n\r\n"
    with serving(slow, threads=8, limits=limits(connections=4, of_peer=4)) as port:
        for _ in range(4):
            with connected(port, asking):
                assert begun.acquire(timeout=DEADLINE)
        try:
            assert ask(port)[0] == 503
        finally:
            released.set()


def test_requests_that_nobody_waits_for_keep_no_other_address_out() -> None:
    begun, released = threading.Semaphore(0), threading.Event()

    def pages(environ: dict[str, Any], start: Any) -> list[bytes]:
        if environ["PATH_INFO"] == "/slow":
            begun.release()
            assert released.wait(DEADLINE)
        start("200 OK", [])
        return [b"done"]

    asking = b"GET /slow HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    with serving(pages, threads=8, limits=limits(connections=4)) as port:
        for _ in range(2):
            with connected(port, asking, source="127.0.0.2"):
                assert begun.acquire(timeout=DEADLINE)
        try:
            with connected(port, asking, source="127.0.0.2") as refused:
                assert b" 503 " in told(refused[0])
            assert ask(port) == (200, b"done")
        finally:
            released.set()


def test_a_slow_page_holds_up_no_other() -> None:
    begun, released = threading.Event(), threading.Event()

    def pages(environ: dict[str, Any], start: Any) -> list[bytes]:
        start("200 OK", [])
        if environ["PATH_INFO"] == "/slow":
            begun.set()
            assert released.wait(DEADLINE)  # by the quick page, or never
        return [b"done"]

    asking = b"GET /slow HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    with serving(pages, threads=2) as port, connected(port, asking) as links:
        assert begun.wait(DEADLINE)
        assert ask(port) == (200, b"done")
        released.set()
        assert told(links[0]).endswith(b"done")


def test_junk_is_told_of_once_and_without_a_traceback(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    junk = [b"junk\r\n\r\n", b"GET\r\n\r\n", b"\x16\x03\x01\x02", b"GET / HTTP/1.1\r\n\r\n"]
    with serving() as port:
        for each in junk * 3:
            with connected(port, each) as links:
                told(links[0])
    assert not any(each.exc_info for each in caplog.records)
    assert [each.getMessage().partition(" (")[0][:70] for each in caplog.records] == [
        "requests from 127.0.0.1 are refused: what they send is no request",
        "requests from 127.0.0.1 are refused: they speak TLS, and this port doe",
    ]


def test_what_is_told_of_strangers_is_bounded(caplog: pytest.LogCaptureFixture) -> None:
    from pyspider.libs.http_server import NOTE_SECONDS, NOTED_AT_MOST, Peers

    now = [0.0]
    peers = Peers(lambda: now[0])
    for number in range(2 * NOTED_AT_MOST):
        peers.note(f"2001:db8::{number}", "junk")
    assert len(caplog.records) == NOTED_AT_MOST
    now[0] = NOTE_SECONDS
    peers.note("2001:db8::0", "junk")
    assert len(caplog.records) == NOTED_AT_MOST + 1


def test_a_port_that_is_taken_leaves_no_socket_open() -> None:
    from pyspider.libs.wsgi_server import WSGIServer

    with socket.create_server((LOOPBACK, 0)) as other:
        gc.disable()  # it would close what was left open
        try:
            before = open_files()
            with pytest.raises(OSError, match="in use") as raised:
                WSGIServer(echo, other.getsockname()[1], LOOPBACK)
            assert open_files() == before, raised
        finally:
            gc.enable()


def test_sigterm_ends_also_what_comes_after_it() -> None:
    from pyspider.run import Instances, quit_on_sigterm

    class QuitCounter:
        ended = False

        def quit(self) -> None:
            self.ended = True

    instances, first, late = Instances(), QuitCounter(), QuitCounter()
    instances.append(first)
    before = signal.getsignal(signal.SIGTERM)
    try:
        quit_on_sigterm(instances)
        os.kill(os.getpid(), signal.SIGTERM)
        instances.append(late)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert (first.ended, late.ended) == (True, True)


def test_a_web_ui_that_is_told_to_quit_before_it_listens_ends() -> None:
    import pyspider.webui  # noqa: F401 - it registers the views
    from pyspider.webui.app import QuitableFlask

    app = QuitableFlask("webui")
    app.quit()
    thread = threading.Thread(target=app.run, kwargs={"port": 0}, daemon=True)
    thread.start()
    thread.join(DEADLINE)
    assert not thread.is_alive()
