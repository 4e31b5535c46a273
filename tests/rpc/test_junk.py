"""What a hostile client sends to a member, and what a hostile member answers."""

import gzip
import http.client
import http.server
import socket
import threading
import xmlrpc.client
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from decimal import Decimal
from typing import Any

import pytest
from pyspider.libs.http_server import Limits

from pyspider_zk.rpc import server as rpc_server
from pyspider_zk.rpc.router import Router
from pyspider_zk.rpc.server import RpcServer
from tests.rpc.test_router import cluster
from tests.support.stand_ins import running

LOOPBACK = "127.0.0.1"
CALL = xmlrpc.client.dumps((1,), "echo").encode()
HEAD = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/xml\r\n"
SMALL = 10_000  # bytes; the limit in these tests


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    monkeypatch.setattr(rpc_server, "BODY_LIMIT", SMALL)
    functions = {"echo": lambda value: value, "size": lambda value: len(value)}
    server = RpcServer(functions, limits=Limits(body=2.0))
    with running(server.serve, LOOPBACK, 0), ExitStack() as stack:
        stack.callback(server.stop)
        yield server.bound(60)[1]


def post(port: int, body: bytes, **headers: str) -> http.client.HTTPResponse:
    with closing(http.client.HTTPConnection(LOOPBACK, port, timeout=60)) as connection:
        connection.putrequest("POST", "/")
        sent = {"content-type": "text/xml", "content-length": str(len(body)), **headers}
        for name, value in sent.items():
            connection.putheader(name, value)
        connection.endheaders()
        with suppress(OSError):  # it may have answered and gone already
            connection.send(body)
        answer = connection.getresponse()
        answer.read()
        return answer


def test_a_call_within_the_limit_is_answered(port: int) -> None:
    assert post(port, CALL).status == 200
    assert post(port, gzip.compress(CALL), **{"content-encoding": "gzip"}).status == 200


def test_an_overlong_body_is_refused_before_it_is_read(port: int) -> None:
    with socket.create_connection((LOOPBACK, port), timeout=60) as client:
        client.sendall(HEAD + b"Content-Length: 100000000000\r\n\r\n")
        assert b" 413 " in client.recv(1000)


@pytest.mark.parametrize(
    ("length", "status"),
    [("-1", 411), ("", 411), ("x", 411), ("1e3", 411), ("9" * 5000, 413), (str(SMALL + 1), 413)],
)
def test_a_length_that_is_none_or_too_much_is_refused(port: int, length: str, status: int) -> None:
    assert post(port, b"", **{"content-length": length}).status == status


def test_a_body_in_chunks_is_refused(port: int) -> None:
    with socket.create_connection((LOOPBACK, port), timeout=60) as client:
        client.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
        assert b" 411 " in client.recv(1000)


def test_a_body_that_inflates_to_too_much_is_refused(port: int) -> None:
    bomb = gzip.compress(b"x" * 100 * SMALL)
    assert len(bomb) < SMALL
    assert post(port, bomb, **{"content-encoding": "gzip"}).status == 413


@pytest.mark.parametrize("body", [b"\x1f\x8b", b"no gzip", gzip.compress(CALL, mtime=0)[:-9]])
def test_a_broken_gzip_body_is_refused(port: int, body: bytes) -> None:
    assert post(port, body, **{"content-encoding": "gzip"}).status == 400


def test_a_body_that_never_comes_is_given_up(port: int) -> None:
    with socket.create_connection((LOOPBACK, port), timeout=60) as client:
        client.sendall(HEAD + b"Content-Length: 5000\r\n\r\n")
        stopped = threading.Event()

        def drip() -> None:
            while not stopped.wait(0.05):
                try:
                    client.sendall(b"x")
                except OSError:
                    return

        with running(drip):
            with suppress(ConnectionResetError):  # so it is told if drops were not read
                assert client.recv(1000) == b""  # the server hung up
            stopped.set()


def test_what_is_no_request_is_told_of_once_and_in_short(
    port: int, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level("INFO")
    for junk in (b"junk" * 1000, b"more" * 1000):
        with socket.create_connection((LOOPBACK, port), timeout=60) as client:
            client.sendall(junk + b"\r\n\r\n")
            assert b"400" in client.recv(1000)
    (said,) = (each.getMessage() for each in caplog.records)
    assert said.startswith("requests from 127.0.0.1 are refused: what they send is no request")
    assert capfd.readouterr().err == ""


def fault(port: int, body: bytes) -> xmlrpc.client.Fault:
    request = {"Content-Type": "text/xml"}
    with closing(http.client.HTTPConnection(LOOPBACK, port, timeout=60)) as connection:
        connection.request("POST", "/", body, request)
        with pytest.raises(xmlrpc.client.Fault) as raised:
            xmlrpc.client.loads(connection.getresponse().read())
    return raised.value


@pytest.mark.parametrize(
    "value", ["<int>x</int>", "<nil/><boolean>7</boolean>", "<base64>a</base64>", "<what/>", "<"]
)
def test_what_is_no_call_is_the_callers_fault(port: int, value: str) -> None:
    params = f"<params><param><value>{value}</value></param></params>"
    body = f"<methodCall><methodName>echo</methodName>{params}</methodCall>"

    assert fault(port, body.encode()).faultCode == 400


@pytest.mark.parametrize(
    ("method", "given"),
    [
        ("echo", ()),
        ("echo", (1, 2)),
        ("nothing", ()),
        ("", (1,)),
        ("system.methodHelp", ([],)),
        ("system.methodSignature", ({},)),
    ],
)
def test_a_call_of_what_is_not_there_is_the_callers_fault(
    port: int, method: str, given: tuple[Any, ...]
) -> None:
    found = fault(port, xmlrpc.client.dumps(given, method).encode())

    assert found.faultCode == 400
    assert method in found.faultString


def test_a_failure_in_a_function_is_logged_and_is_not_the_callers(
    port: int, caplog: pytest.LogCaptureFixture
) -> None:
    found = fault(port, xmlrpc.client.dumps((7,), "size").encode())

    assert found.faultCode == 1
    assert [record.getMessage() for record in caplog.records if record.exc_info] == [
        "'size' failed"
    ]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"junk",
        b"<methodCall/>",
        b"<methodCall><methodName>echo</methodName><params><param><value><int>x</int></value>"
        b"</param></params></methodCall>",
        b"<!DOCTYPE x [<!ENTITY a 'b'>]><methodCall><methodName>&a;</methodName></methodCall>",
    ],
)
def test_what_is_no_call_gets_a_fault_and_the_next_call_an_answer(port: int, body: bytes) -> None:
    post(port, body)
    assert post(port, CALL).status == 200


def test_too_deep_arguments_are_a_fault(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rpc_server, "BODY_LIMIT", 10 * SMALL)
    deep: Any = []
    for _ in range(250):
        deep = [deep]
    with (
        xmlrpc.client.ServerProxy(f"http://{LOOPBACK}:{port}") as proxy,
        pytest.raises(xmlrpc.client.Fault, match="nested deeper"),
    ):
        proxy.size(deep)


# -- a member that answers junk -------------------------------------------------------------------

GOOD = {
    "local_size": lambda: 3,
    "local_counter": lambda *_: {"p": {"success": 1}},
    "local_get_projects_pause_status": lambda: {"p": False},
    "local_webui_update": lambda: {"pause_status": {"p": False}, "counter": {"5m": {"p": {}}}},
    "local_get_active_tasks": lambda *_: [[1.0, {"taskid": "t"}]],
    "local_update_project": lambda: None,
    "local_newtask": lambda _: True,
}
QUESTIONS: list[tuple[str, tuple[Any, ...]]] = [
    ("size", ()),
    ("counter", ("5m", "sum")),
    ("get_projects_pause_status", ()),
    ("webui_update", ()),
    ("get_active_tasks", ()),
]
LIES: list[Any] = [
    None,
    "x",
    7.5,
    [],
    {},
    ["x"],
    [[1]],
    [["x", {}]],
    [[1, 2, 3]],
    {"p": 7},
    {"counter": 7},
    {"pause_status": [], "counter": {}},
    {"pause_status": {}, "counter": {"5m": [1]}, "x": 7},
    True,
]


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as made:
        yield made


def address(stack: ExitStack, functions: Any) -> str:
    server = RpcServer(functions)
    stack.enter_context(running(server.serve, LOOPBACK, 0))
    stack.callback(server.stop)
    return f"{LOOPBACK}:{server.bound(60)[1]}"


def router(stack: ExitStack, other: str) -> Router:
    known = cluster(address(stack, GOOD), other)
    return stack.enter_context(closing(Router(lambda: known, timeout=60.0)))


@pytest.mark.parametrize("lie", LIES, ids=repr)
def test_a_member_that_answers_junk_has_not_answered(stack: ExitStack, lie: Any) -> None:
    asked = router(stack, address(stack, {name: lambda *_: lie for name in GOOD}))
    alone = router(stack, f"{LOOPBACK}:1")
    for method, args in QUESTIONS:
        told = getattr(asked, method)(*args)
        assert told == getattr(alone, method)(*args), method


@pytest.mark.parametrize("value", [Decimal(1), 2**31, -(2**63)])
def test_what_cannot_be_passed_on_is_the_callers_fault(stack: ExitStack, value: Any) -> None:
    asked = router(stack, address(stack, GOOD))

    with pytest.raises(xmlrpc.client.Fault, match="local_counter: cannot be sent") as found:
        asked.counter(value, "sum")
    assert found.value.faultCode == 400


@pytest.mark.parametrize(
    ("value", "culprit"),
    [
        ("a\ud800", r"argument: 'a\ud800'"),
        ({"names": ["p"], "pattern": "\x01"}, r"pattern: '\x01'"),
        ([{"\uffff": 1}], r"argument: '\uffff'"),
    ],
)
def test_text_that_xml_has_not_is_the_callers_fault_and_named(
    stack: ExitStack, value: Any, culprit: str
) -> None:
    asked = router(stack, address(stack, GOOD))

    with pytest.raises(xmlrpc.client.Fault) as found:
        asked.counter(value, "sum")
    assert found.value.faultCode == 400
    assert found.value.faultString.endswith(culprit)


@pytest.mark.parametrize(
    "strange", [f"{LOOPBACK}:{10**30}", f"{LOOPBACK}:70000", "x", ":", f"{'a' * 70}:1", "[::1"]
)
def test_a_member_whose_address_is_none_cannot_be_reached(stack: ExitStack, strange: str) -> None:
    assert router(stack, strange).size() == GOOD["local_size"]()


class JunkPage(http.server.BaseHTTPRequestHandler):
    """Answers every call with the same bytes."""

    body: bytes = b""
    status = 200

    def do_POST(self) -> None:
        self.send_response(self.status)
        self.send_header("content-type", "text/xml")
        self.end_headers()
        try:
            while True:
                self.wfile.write(self.body)
                if len(self.body) < SMALL:
                    return
        except OSError:
            return  # the other one had enough

    def log_message(self, *_: Any) -> None:
        """Keep quiet."""


def site(stack: ExitStack, body: bytes, status: int = 200) -> str:
    handler = type("Handler", (JunkPage,), {"body": body, "status": status})
    server = stack.enter_context(http.server.ThreadingHTTPServer((LOOPBACK, 0), handler))
    stack.enter_context(running(server.serve_forever, 0.01))
    stack.callback(server.shutdown)
    return f"{LOOPBACK}:{server.server_port}"


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"<html>hello</html>", 200),
        (b"", 200),
        (b"\xff\xfe\x00", 200),
        (b"error", 500),
        (b"<methodResponse><params/></methodResponse>", 200),
        (
            b"<methodResponse><params><param><value><int>x</int></value></param></params>"
            b"</methodResponse>",
            200,
        ),
        (
            b"<methodResponse><fault><value><struct/></value></fault></methodResponse>",
            200,
        ),
        (b"<methodResponse>" + b" " * SMALL, 200),  # without an end
    ],
)
def test_what_is_no_answer_at_all_is_none(
    stack: ExitStack, body: bytes, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyspider_zk.rpc.client.ANSWER_LIMIT", 10 * SMALL)
    assert router(stack, site(stack, body, status)).size() == 3


@pytest.mark.parametrize("limit", ["x", None, 1.5, [], True])
def test_a_limit_that_is_no_number_is_named(stack: ExitStack, limit: Any) -> None:
    with pytest.raises(xmlrpc.client.Fault, match="limit must be a whole number"):
        router(stack, address(stack, GOOD)).get_active_tasks(None, limit)


def test_a_member_that_answers_with_an_error_silences_no_other(stack: ExitStack) -> None:
    assert router(stack, address(stack, {})).size() == 3
