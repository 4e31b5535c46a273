"""The XML-RPC server of a member, and what strangers hold of its port: little, not for long."""

import socket
import struct
import threading
import xmlrpc.client
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from http.client import HTTPException
from typing import Any

import pytest
from pyspider.libs.http_server import Limits

from pyspider_zk.errors import ConfigError
from pyspider_zk.rpc import server as rpc_server
from pyspider_zk.rpc.server import RpcServer
from tests.support.stand_ins import running
from tests.support.strangers import LOOPBACK, connected, is_cut_off, told
from tests.support.waiting import eventually

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
            return server.bound(60)[1]

        yield serve


def call(port: int, method: str, *args: Any, path: str = "/") -> Any:
    url = f"http://{LOOPBACK}:{port}{path}"
    with xmlrpc.client.ServerProxy(url, allow_none=True) as proxy:
        return getattr(proxy, method)(*args)


def in_time(port: int, method: str) -> Any:
    """Return the answer to a call, None if it was cut off: a starved machine may drip as well."""
    with suppress(OSError, HTTPException):
        return call(port, method)
    return None


def bind(port: int) -> socket.socket:
    return socket.create_server((LOOPBACK, port))


def test_port_0_is_any_free_one(serve: Serve) -> None:
    one, two = serve(name=lambda: "one"), serve(name=lambda: "two")
    assert one != two
    assert (call(one, "name"), call(two, "name")) == ("one", "two")


@pytest.mark.parametrize("path", ["/", "/RPC2", "/any/path"])
def test_any_path_is_answered(serve: Serve, path: str) -> None:
    assert call(serve(name=lambda: "one"), "name", path=path) == "one"


def test_none_can_be_sent_and_answered(serve: Serve) -> None:
    assert call(serve(echo=lambda value: value), "echo", None) is None


def test_an_error_of_a_function_comes_as_a_fault(serve: Serve) -> None:
    port = serve(fail=lambda: {}["missing"])
    with pytest.raises(xmlrpc.client.Fault, match="KeyError"):
        call(port, "fail")


def test_a_port_that_is_taken_is_told_to_both_threads() -> None:
    with bind(0) as other:
        port = other.getsockname()[1]
        server = RpcServer({})
        with running(server.serve, LOOPBACK, port, raises=OSError):
            with pytest.raises(OSError, match="in use"):
                server.bound(60)
            server.stop()


@pytest.mark.parametrize("port", [-1, 65536, 10**30])
def test_a_port_that_is_none_is_told_to_both_threads(port: int) -> None:
    server = RpcServer({})
    with pytest.raises(ConfigError, match=f"xmlrpc_port: {port} must be a port from 0 to 65535"):
        server.serve(LOOPBACK, port)
    with pytest.raises(ConfigError, match="xmlrpc_port"):
        server.bound(10)
    server.stop()


def test_a_server_that_nobody_starts_has_no_port() -> None:
    with pytest.raises(TimeoutError):
        RpcServer({}).bound(0)


def test_two_servers_that_call_each_other_at_the_same_time_do_not_block(serve: Serve) -> None:
    # given
    both = threading.Barrier(2)
    ports: dict[str, int] = {}

    def ask(other: str) -> Any:
        both.wait(60)
        return call(ports[other], "name")

    for name in ("one", "two"):
        ports[name] = serve(name=lambda name=name: name, ask=ask)
    # when
    with ThreadPoolExecutor(2) as pool:
        one = pool.submit(call, ports["one"], "ask", "two")
        two = pool.submit(call, ports["two"], "ask", "one")
        # then
        assert (one.result(60), two.result(60)) == ("two", "one")


def test_a_call_that_takes_long_holds_up_no_other(serve: Serve) -> None:
    began, end = threading.Event(), threading.Event()

    def long() -> bool:
        began.set()
        return end.wait(60)

    port = serve(long=long, short=lambda: "short")
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(call, port, "long")
        assert began.wait(60)
        assert call(port, "short") == "short"
        end.set()
        assert answer.result(60) is True


def test_stop_frees_the_port_before_it_returns() -> None:
    server = RpcServer({"name": lambda: "one"})
    with running(server.serve, LOOPBACK, 0):
        port = server.bound(60)[1]
        assert call(port, "name") == "one"
        server.stop()
        bind(port).close()


def test_stop_before_serve_lets_it_end_at_once_and_frees_the_port() -> None:
    server = RpcServer({})
    server.stop()
    server.serve(LOOPBACK, 0)
    bind(server.bound(0)[1]).close()


def test_stop_may_be_called_again_at_any_time() -> None:
    server = RpcServer({})
    server.stop()
    server.serve(LOOPBACK, 0)
    server.stop()
    server.stop()


def test_stop_may_come_from_a_call_that_the_server_answers() -> None:
    server = RpcServer({"_quit": lambda: server.stop()})
    with running(server.serve, LOOPBACK, 0):
        assert call(server.bound(60)[1], "_quit") is None


def test_a_client_that_does_not_wait_for_its_answer_disturbs_nobody(
    serve: Serve, capfd: pytest.CaptureFixture[str]
) -> None:
    # given
    began, gone, done = threading.Event(), threading.Event(), threading.Event()

    def long() -> str:
        began.set()
        gone.wait(60)
        done.set()
        return "x" * 10_000_000

    port = serve(long=long, short=lambda: "short")
    # when
    body = xmlrpc.client.dumps((), "long").encode()
    with socket.create_connection((LOOPBACK, port)) as client:
        head = "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/xml\r\n"
        head += f"Content-Length: {len(body)}\r\n\r\n"
        client.sendall(head.encode() + body)
        assert began.wait(60)
    gone.set()
    assert done.wait(60)
    # then
    assert call(port, "short") == "short"
    assert capfd.readouterr().err == ""


@pytest.mark.skipif(not socket.has_ipv6, reason="there is no IPv6")
def test_an_ipv6_address_can_be_bound() -> None:
    server = RpcServer({"name": lambda: "six"})
    with running(server.serve, "::1", 0):
        with xmlrpc.client.ServerProxy(f"http://[::1]:{server.bound(60)[1]}/") as proxy:
            assert proxy.name() == "six"
        server.stop()


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
    assert eventually(lambda: in_time(port, "name")) == "one"


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
