"""Members and callers that prove the secret to each other, over real servers on loopback."""

import http.client
import logging
import socket
import threading
import time
import xmlrpc.client
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from pyspider.libs.http_server import Limits

from pyspider_zk.cluster.records import Member
from pyspider_zk.errors import ConfigError
from pyspider_zk.rpc import admission
from pyspider_zk.rpc.admission import CallAdmission, Caller, Head, calling, current_caller
from pyspider_zk.rpc.client import Credentials, call
from pyspider_zk.rpc.proof import ANSWER_HEADER, Call, Prover, digest
from pyspider_zk.rpc.router import Router
from pyspider_zk.rpc.server import RpcServer
from tests.rpc.test_router import cluster
from tests.support.stand_ins import running

LOOPBACK = "127.0.0.1"
SECRET = "correct horse battery"  # noqa: S105 - of these tests
KNOWS = Credentials(SECRET, "ann")
Serve = Callable[..., str]


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as made:
        yield made


@pytest.fixture
def serve(stack: ExitStack, monkeypatch: pytest.MonkeyPatch) -> Serve:
    """Give a function that serves a member and returns its address."""
    monkeypatch.setattr("pyspider_zk.rpc.server.HOLD_UP", 0.0)

    def serve(entry: CallAdmission | None = None, **functions: Any) -> str:
        server = RpcServer(functions, entry or CallAdmission(SECRET))
        stack.enter_context(running(server.serve, LOOPBACK, 0))
        stack.callback(server.stop)
        return f"{LOOPBACK}:{server.bound(60)[1]}"

    return serve


def ask(address: str, method: str, *args: Any, credentials: Credentials = KNOWS) -> Any:
    return call(Member(address, "", 0, "", 0.0), method, *args, credentials=credentials, timeout=60)


def who() -> list[Any]:
    return [current_caller().user, current_caller().proven]


def stock(address: str, login: str = "") -> xmlrpc.client.ServerProxy:
    return xmlrpc.client.ServerProxy(f"http://{login}{address}/", allow_none=True)


def test_a_member_is_told_on_whose_behalf_it_is_called(serve: Serve) -> None:
    address = serve(who=who)
    assert ask(address, "who") == ["ann", True]
    with calling(Caller("eve & bob=1\u00e4", proven=False)):
        assert ask(address, "who") == ["eve & bob=1ä", True]


def test_a_member_passes_on_who_asked_it(serve: Serve, stack: ExitStack) -> None:
    owner = serve(local_newtask=lambda _: current_caller().user == "bob", local_size=lambda: 1)
    known = cluster(owner, owner=0)
    router = stack.enter_context(closing(Router(lambda: known, credentials=Credentials(SECRET))))
    asked = serve(newtask=router.newtask, size=router.size)
    with stock(asked, "bob:correct%20horse%20battery@") as proxy:
        assert proxy.newtask({"project": "p"}) is True
        assert proxy.size() == 1


def test_a_stock_client_gives_the_secret_in_its_url(serve: Serve) -> None:
    with stock(serve(who=who), "bob:correct%20horse%20battery@") as proxy:
        assert proxy.who() == ["bob", True]


@pytest.mark.parametrize("login", ["", "ann@", "ann:wrong@"])
def test_a_stock_client_without_it_is_told_so(serve: Serve, login: str) -> None:
    with (
        stock(serve(who=who), login) as proxy,
        pytest.raises(xmlrpc.client.ProtocolError, match="401"),
    ):
        proxy.who()


@pytest.mark.parametrize("secret", ["", "another secret of ours"])
def test_a_caller_without_it_is_told_the_remedy(serve: Serve, secret: str) -> None:
    with pytest.raises(PermissionError, match="secret_file"):
        ask(serve(who=who), "who", credentials=Credentials(secret))


def test_a_member_that_has_no_secret_is_not_believed(serve: Serve) -> None:
    with pytest.raises(PermissionError, match="does not prove"):
        ask(serve(CallAdmission(), who=who), "who")
    assert ask(serve(CallAdmission(), who=who), "who", credentials=Credentials()) == ["", False]


def test_large_answers_and_faults_are_proven_as_well(serve: Serve) -> None:
    address = serve(echo=lambda text: text, fail=lambda: {}["missing"])
    large = "x" * 100_000
    assert ask(address, "echo", large) == large
    with pytest.raises(xmlrpc.client.Fault, match="missing"):
        ask(address, "fail")


@pytest.mark.parametrize("shift", [-10_000, 10_000])
def test_clocks_that_differ_cost_a_second_question(serve: Serve, shift: float) -> None:
    assert ask(serve(CallAdmission(SECRET, clock=lambda: time.time() + shift), who=who), "who")[1]


def test_a_body_that_was_exchanged_is_refused(serve: Serve) -> None:
    address = serve(who=who)
    body = xmlrpc.client.dumps((), "who").encode()
    told = Call(address, int(time.time()), "ab" * 16, "ann", digest(body))
    headers = {"Content-Type": "text/xml", "Authorization": Prover(SECRET).header(told)}
    for sent, status in ((b"x" * len(body), 400), (body, 401)):  # which came before, by then
        with closing(http.client.HTTPConnection(address, timeout=60)) as link:
            link.request("POST", "/", sent, headers)
            assert link.getresponse().status == status


# --- a forged record of a member ----------------------------------------------------------------


class Liar(BaseHTTPRequestHandler):
    """Takes what it is sent and answers what the forger likes."""

    heard: list[str]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.heard += [str(self.headers), body.decode()]
        answer = xmlrpc.client.dumps((True,), methodresponse=True).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/xml")
        self.send_header(ANSWER_HEADER, self.headers.get("authorization", "")[-64:])
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: Any) -> None:
        """Keep quiet."""


@pytest.fixture
def liar(stack: ExitStack) -> tuple[str, list[str]]:
    """Give the address of one who is no member, and what it heard."""
    heard: list[str] = []
    handler = type("Handler", (Liar,), {"heard": heard})
    server = stack.enter_context(ThreadingHTTPServer((LOOPBACK, 0), handler))
    stack.enter_context(running(server.serve_forever, 0.01))
    stack.callback(server.shutdown)
    return f"{LOOPBACK}:{server.server_port}", heard


def test_a_liar_is_not_believed_and_learns_no_secret(liar: tuple[str, list[str]]) -> None:
    address, heard = liar
    with pytest.raises(PermissionError, match="does not prove"):
        ask(address, "newtask", {"project": "p"})
    assert len(heard) == 2
    assert SECRET not in "".join(heard)
    assert "Basic" not in heard[0]


def test_what_a_liar_heard_is_of_no_use_elsewhere(
    serve: Serve, liar: tuple[str, list[str]]
) -> None:
    address, heard = liar
    member = serve(who=who)
    with pytest.raises(PermissionError):
        ask(address, "who")
    sent = dict(line.split(": ", 1) for line in heard[0].splitlines() if line)
    for host in (address, member):
        with closing(http.client.HTTPConnection(member, timeout=60)) as link:
            link.request("POST", "/", heard[1].encode(), {**sent, "Host": host})
            assert link.getresponse().status in (401, 421)


def test_a_liar_leaves_the_cluster_its_voice(
    serve: Serve, stack: ExitStack, liar: tuple[str, list[str]]
) -> None:
    known = cluster(liar[0], serve(local_newtask=lambda _: False, local_size=lambda: 3), owner=0)
    router = stack.enter_context(closing(Router(lambda: known, credentials=KNOWS)))
    assert router.newtask({"project": "one"}) is False  # the liar's True does not count
    assert router.size() == 3


# --- refusals -----------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "PUT", "DELETE", "JUNK"])
def test_what_is_not_posted_is_405(serve: Serve, method: str) -> None:
    with closing(http.client.HTTPConnection(serve(who=who), timeout=60)) as link:
        link.request(method, "/")
        answer = link.getresponse()
        assert (answer.status, answer.getheader("Allow")) == (405, "POST")


def test_a_refusal_is_said_once_and_without_what_was_presented(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    address = serve(who=who)
    with caplog.at_level(logging.INFO):
        for guess in ("guess-one", "guess-two", "guess-three"):
            with pytest.raises(xmlrpc.client.ProtocolError), stock(address, f"u:{guess}@") as proxy:
                proxy.who()
    said = [each.getMessage() for each in caplog.records if "refused" in each.getMessage()]
    assert said == [
        "requests from 127.0.0.1 are refused: this is not the cluster's secret"
        " (said once in 10 minutes)"
    ]
    assert "guess" not in caplog.text


def test_while_wrong_secrets_are_held_up_a_right_one_is_answered(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyspider_zk.rpc.server.HOLD_UP", 3600.0)
    held_up = threading.Event()
    admit = CallAdmission.admit

    def admitted(self: Any, head: Head) -> Any:
        if head.headers("authorization") == "Basic eDp5":
            held_up.set()
        return admit(self, head)

    monkeypatch.setattr(CallAdmission, "admit", admitted)
    address = serve(who=who)
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=60) as guess:
        text = "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/xml\r\n"
        text += "Content-Length: 0\r\nAuthorization: Basic eDp5\r\n\r\n"
        guess.sendall(text.encode())
        assert held_up.wait(60)
        assert ask(address, "who") == ["ann", True]


def test_a_large_call_that_is_refused_still_gets_its_answer(serve: Serve) -> None:
    with stock(serve(who=who)) as proxy, pytest.raises(xmlrpc.client.ProtocolError, match="401"):
        proxy.who("x" * 500_000)


def test_an_address_that_others_reach_needs_a_secret() -> None:
    everywhere = "0.0.0.0"  # noqa: S104 - it is refused
    server = RpcServer({})
    with pytest.raises(ConfigError):
        server.serve(everywhere, 0)
    with pytest.raises(ConfigError, match="--insecure"):
        server.bound(10)
    server.stop()


def test_the_window_is_longer_than_any_call_takes() -> None:
    assert Limits().head + Limits().body < admission.WINDOW
