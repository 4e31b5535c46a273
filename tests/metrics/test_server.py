"""The port of metrics and health, over real connections on loopback."""

import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress

import pytest
import trustme
from pyspider.libs.http_server import Limits

from pyspider_zk.errors import ConfigError
from pyspider_zk.metrics.families import SLOTS_OWNED, Exposition
from pyspider_zk.metrics.health import Health, Pulse
from pyspider_zk.metrics.server import LIMITS, MetricsServer, ScrapeAdmission
from tests.metrics.reading import LOOPBACK, get

TOKEN = "a token of the tests"  # noqa: S105
KNOWS = {"Authorization": f"Bearer {TOKEN}"}
Serve = Callable[..., int]


class ToldComponent:
    """What is told of a component; tests change it."""

    def __init__(self) -> None:
        self.now = 0.0
        self.pulse = Pulse(lambda: self.now)
        self.works = {"lease": True, "taskdb": True}
        self.owned = 7.0
        self.health = Health(lambda: self.pulse.age, 30, lambda: self.works)

    def slots(self) -> Iterator[object]:
        yield SLOTS_OWNED.one(self.owned)


@pytest.fixture
def component() -> ToldComponent:
    return ToldComponent()


@pytest.fixture
def serve(component: ToldComponent) -> Iterator[Serve]:
    """Give a function that serves the component and returns the port."""
    with ExitStack() as stack:

        def serve(
            token: str = "",
            insecure: bool = False,
            tls: ssl.SSLContext | None = None,
            limits: Limits = LIMITS,
        ) -> int:
            exposition, door = Exposition([component.slots]), ScrapeAdmission(token, insecure)
            server = MetricsServer(exposition, component.health, door, tls, limits)
            port = server.start(LOOPBACK, 0)
            stack.callback(server.stop)
            return port

        yield serve


def test_metrics_are_text_of_prometheus(serve: Serve) -> None:
    found = get(serve(), "/metrics")
    assert found.status == 200
    assert "\npyspider_zk_slots_owned 7.0\n" in found.text
    assert "# TYPE pyspider_zk_slots_owned gauge" in found.text
    assert found.headers["Content-Type"].startswith("text/plain")


def test_a_scraper_may_have_openmetrics(serve: Serve) -> None:
    found = get(serve(), "/metrics", Accept="application/openmetrics-text; version=1.0.0")
    assert found.headers["Content-Type"].startswith("application/openmetrics-text")
    assert found.text.endswith("# EOF\n")


def test_the_process_itself_is_measured(serve: Serve) -> None:
    assert "process_resident_memory_bytes" in get(serve(), "/metrics").text


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_a_component_that_works_is_ok(serve: Serve, path: str) -> None:
    assert get(serve(), path)[:2] == (200, "ok\n")


def test_what_does_not_work_is_named(serve: Serve, component: ToldComponent) -> None:
    port = serve()
    component.works = {"lease": True, "taskdb": False}
    assert get(port, "/readyz")[:2] == (503, "taskdb\n")
    assert get(port, "/healthz").status == 200


def test_a_loop_that_stopped_is_neither_alive_nor_ready(
    serve: Serve, component: ToldComponent
) -> None:
    port = serve()
    component.pulse.beat()
    component.now = 30.0
    assert get(port, "/healthz").status == 200
    component.now = 30.1
    assert get(port, "/healthz")[:2] == (503, "the loop has stopped\n")
    assert get(port, "/readyz").status == 503
    component.pulse.beat()
    assert get(port, "/healthz").status == 200


def test_metrics_need_the_token_and_probes_do_not(serve: Serve) -> None:
    port = serve(TOKEN)
    assert get(port, "/metrics", **KNOWS).status == 200
    assert get(port, "/readyz").status == 200
    refused = get(port, "/metrics")
    assert refused.status == 401
    assert refused.headers["WWW-Authenticate"] == "Bearer"
    assert "pyspider_zk" not in refused.text


@pytest.mark.parametrize(
    "presented",
    [f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", f"Basic {TOKEN}", TOKEN, "Bearer ", ""],
)
def test_a_wrong_token_opens_nothing(serve: Serve, presented: str) -> None:
    assert get(serve(TOKEN), "/metrics", Authorization=presented).status == 401


def test_without_a_token_only_loopback_names_are_served(serve: Serve) -> None:
    port = serve()
    assert get(port, "/metrics", Host=f"evil.example:{port}").status == 421
    assert get(port, "/metrics", Host=f"127.0.0.1:{port}").status == 200
    assert get(port, "/metrics", Host=f"[::1]:{port}").status == 200
    assert get(port, "/metrics", Host="[").status == 421


@pytest.mark.parametrize("path", ["/", "/metrics/", "/debug", "/healthz/../metrics", "/%00"])
def test_there_is_nothing_else(serve: Serve, path: str) -> None:
    assert get(serve(), path)[:2] == (404, "404\n")


def test_nothing_tells_what_answers(serve: Serve) -> None:
    port = serve()
    for path in ("/healthz", "/readyz", "/nothing"):
        found = get(port, path)
        assert "Server" not in found.headers
        assert "ornado" not in found.text


def _raw(port: int, sent: bytes) -> bytes:
    with socket.create_connection((LOOPBACK, port), timeout=60) as link:
        link.sendall(sent)
        with suppress(ConnectionResetError):
            return b"".join(iter(lambda: link.recv(65536), b""))
    return b""


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "HEAD", "BREW"])
def test_only_get_is_served(serve: Serve, method: str) -> None:
    assert b" 405 " in _raw(serve(), f"{method} /metrics HTTP/1.1\r\nHost: x\r\n\r\n".encode())


@pytest.mark.parametrize(
    "sent",
    [
        b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * LIMITS.head_bytes + b"\r\n\r\n",
        b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n123456789",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"\0" * LIMITS.head_bytes * 2,
    ],
    ids=["large head", "body", "TLS", "zeros"],
)
def test_what_is_no_request_is_answered_with_nothing_but_a_refusal(
    serve: Serve, sent: bytes
) -> None:
    port = serve()
    assert b"pyspider_zk" not in _raw(port, sent)
    assert get(port, "/healthz").status == 200


def test_a_request_that_comes_byte_by_byte_is_cut_off(serve: Serve) -> None:
    port = serve(limits=Limits(head=0.2))
    with socket.create_connection((LOOPBACK, port), timeout=60) as link:
        link.settimeout(0.02)
        link.sendall(b"GET /healthz HTTP/1.1\r\n")
        for _ in range(1000):
            try:
                link.sendall(b"X")
                if link.recv(1) == b"":
                    return
            except TimeoutError:
                continue
            except ConnectionError:
                return
    pytest.fail("the connection stayed open")


def test_silent_connections_keep_nobody_out(serve: Serve) -> None:
    port = serve(limits=Limits(connections=2, of_peer=2, head=60))
    with ExitStack() as silent:
        links = [socket.create_connection((LOOPBACK, port), timeout=60) for _ in range(2)]
        for each in links:
            silent.enter_context(each)
        assert get(port, "/healthz").status == 200
        assert links[0].recv(1) == b""


def test_strangers_do_not_fill_the_log(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    port = serve()
    for sent in (b"\0\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n"):
        for _ in range(3):
            _raw(port, sent)
    assert [each.getMessage() for each in caplog.records] == [
        "requests from 127.0.0.1 are refused: what they send is no request"
        " (said once in 10 minutes)"
    ]


def test_with_a_certificate_it_speaks_tls_alone(serve: Serve) -> None:
    authority = trustme.CA()
    ours = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(ours)
    port = serve(tls=ours)
    theirs = ssl.create_default_context()
    authority.configure_trust(theirs)
    assert get(port, "/metrics", tls=theirs).status == 200
    assert b"pyspider_zk" not in _raw(port, b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")


def test_a_fault_in_a_measure_fails_that_scrape_alone(
    serve: Serve, component: ToldComponent, caplog: pytest.LogCaptureFixture
) -> None:
    port = serve()
    component.owned = None  # type: ignore[assignment]
    assert get(port, "/metrics")[:2] == (500, "500\n")
    assert "TypeError" in caplog.text
    component.owned = 8.0
    assert "pyspider_zk_slots_owned 8.0" in get(port, "/metrics").text


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "::"])  # noqa: S104
def test_without_a_token_it_listens_on_loopback_only(component: ToldComponent, host: str) -> None:
    server = MetricsServer(Exposition([]), component.health, ScrapeAdmission("", insecure=False))
    with pytest.raises(ConfigError, match="metrics_token_file"):
        server.start(host, 0)


def test_with_a_token_it_may_listen_anywhere(component: ToldComponent) -> None:
    server = MetricsServer(
        Exposition([component.slots]), component.health, ScrapeAdmission(TOKEN, False)
    )
    port = server.start("0.0.0.0", 0)  # noqa: S104
    try:
        assert get(port, "/metrics").status == 401
        assert get(port, "/metrics", **KNOWS).status == 200
    finally:
        server.stop()


def test_the_port_is_free_after_the_end(component: ToldComponent) -> None:
    first = MetricsServer(Exposition([]), component.health, ScrapeAdmission("", insecure=False))
    port = first.start(LOOPBACK, 0)
    taken = MetricsServer(Exposition([]), component.health, ScrapeAdmission("", insecure=False))
    with pytest.raises(OSError, match="in use"):
        taken.start(LOOPBACK, port)
    first.stop()
    second = MetricsServer(Exposition([]), component.health, ScrapeAdmission("", insecure=False))
    assert second.start(LOOPBACK, port) == port
    second.stop()
