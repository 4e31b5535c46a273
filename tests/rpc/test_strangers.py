"""What strangers hold of a member's port: nothing, or little and not for long."""

import socket
import struct
import threading
import xmlrpc.client
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest
from pyspider.libs.http_server import Limits

from pyspider_zk.rpc import server as rpc_server
from pyspider_zk.rpc.server import RpcServer
from tests.support.stand_ins import running
from tests.support.strangers import LOOPBACK, connected, is_cut_off, told

HEAD = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/xml\r\n"
Serve = Callable[..., int]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Give a function that serves functions and returns the port."""
    with ExitStack() as stack:

        def serve(limits: Limits | None = None, **functions: Any) -> int:
            server = RpcServer(functions, limits=limits)
            stack.enter_context(running(server.serve, LOOPBACK, 0))
            stack.callback(server.stop)
            return server.port(60)

        yield serve


def call(port: int, method: str, *args: Any) -> Any:
    with xmlrpc.client.ServerProxy(f"http://{LOOPBACK}:{port}/") as proxy:
        return getattr(proxy, method)(*args)


@pytest.mark.parametrize("sent", [b"", HEAD, HEAD + b"Content-Length: 900\r\n\r\nx"])
def test_silent_connections_take_no_threads_and_keep_nobody_out(serve: Serve, sent: bytes) -> None:
    port = serve(name=lambda: "one")
    before = threading.active_count()
    with connected(port, sent, 300):
        assert [call(port, "name") for _ in range(3)] == ["one"] * 3
        assert threading.active_count() < before + 10


def test_a_head_and_a_body_that_drip_are_cut_off(serve: Serve) -> None:
    port = serve(Limits(head=0.3, body=0.3), name=lambda: "one")
    for sent in (HEAD + b"X: ", HEAD + b"Content-Length: 15000\r\n\r\n"):
        with connected(port, sent) as links:
            assert is_cut_off(links[0])
    assert call(port, "name") == "one"


def test_a_call_that_declares_entities_is_none(serve: Serve) -> None:
    port = serve(name=lambda *_: "one")
    call = xmlrpc.client.dumps(("&b;",), "name").replace("&amp;b;", "&b;")
    bomb = '<!DOCTYPE a [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>'
    body = call.replace("<methodCall>", f"{bomb}<methodCall>").encode()
    head = HEAD + f"Connection: close\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    with connected(port, head + body) as links:
        assert b"it declares an entity" in told(links[0])


def test_aborted_requests_leave_no_traceback_in_the_log(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    port = serve(name=lambda: "one")
    for sent in (b"", b"POST", HEAD, HEAD + b"Content-Length: 900\r\n\r\nx") * 5:
        with connected(port, sent) as links:
            links[0].setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    assert call(port, "name") == "one"
    assert not any(each.exc_info or "refused" in each.getMessage() for each in caplog.records)


def test_refusals_are_told_of_once(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    port = serve()
    for _ in range(5):
        with connected(port, HEAD + b"Origin: http://evil.example\r\n\r\n") as links:
            assert b" 403 " in links[0].recv(1000)
    assert sum("refused" in each.getMessage() for each in caplog.records) == 1


def test_calls_wait_for_a_thread_and_what_they_ask_for_does_not(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    # given two members, and as many calls at each as there are threads, which all ask the other
    monkeypatch.setattr(rpc_server, "CALLS", 2)
    monkeypatch.setattr(rpc_server, "LOCAL_CALLS", 1)
    all_began = threading.Barrier(4)
    ports: dict[str, int] = {}

    def ask(other: str) -> Any:
        all_began.wait(60)
        return call(ports[other], "local_name")

    for name in ("one", "two"):
        ports[name] = serve(local_name=lambda name=name: name, ask=ask)
    # when
    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(call, ports[one], "ask", two) for one, two in PAIRS * 4]
        # then
        assert [each.result(60) for each in asked] == [two for _, two in PAIRS * 4]


PAIRS = [("one", "two"), ("two", "one")]


def test_a_body_is_kept_only_of_who_may_call(serve: Serve) -> None:
    port = serve(size=lambda text: len(text))
    with connected(port, HEAD + b"Origin: http://a\r\nContent-Length: 16000000\r\n\r\n") as links:
        assert told(links[0]).startswith(b"HTTP/1.1 403 ")
    assert call(port, "size", "x" * 5_000_000) == 5_000_000
