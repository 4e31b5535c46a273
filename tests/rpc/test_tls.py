"""XML-RPC over TLS, with real certificates, between members, clients and stock clients."""

import re
import socket
import ssl
import xmlrpc.client
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspider.libs.http_server import Limits

from pyspider_zk.client import Client
from pyspider_zk.cluster.records import Member
from pyspider_zk.config import Settings
from pyspider_zk.errors import ConfigError
from pyspider_zk.rpc.admission import CallAdmission
from pyspider_zk.rpc.client import call, credentials_of
from pyspider_zk.rpc.server import RpcServer
from pyspider_zk.rpc.tls import server_tls
from tests.support.live_cluster import LiveCluster
from tests.support.secured_servers import Authority, authority
from tests.support.stand_ins import running

LOOPBACK = "127.0.0.1"
SECRET = "correct horse battery"  # noqa: S105 - of these tests
Serve = Callable[..., int]
Eventually = Callable[..., None]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def settings(certificates: Authority) -> Settings:
    """Give the settings of a process that speaks TLS only."""
    return Settings(
        secret=SECRET,
        xmlrpc_tls=True,
        xmlrpc_tls_ca=str(certificates.ca),
        xmlrpc_tls_certificate=str(certificates.server),
        xmlrpc_tls_key=str(certificates.server),
    )


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Give a function that serves as these settings say, and returns the port."""
    with ExitStack() as stack:

        def serve(settings: Settings, limits: Limits | None = None) -> int:
            functions, entry = {"echo": lambda value: value}, CallAdmission(settings.secret)
            server = RpcServer(functions, entry, partial(server_tls, settings), limits)
            stack.enter_context(running(server.serve, LOOPBACK, 0))
            stack.callback(server.stop)
            return server.bound(60)[1]

        yield serve


def ask(settings: Settings, address: str, value: Any = 1) -> Any:
    """Call as a process with these settings does."""
    member = Member(address, "", 0, "", 0.0)
    return call(member, "echo", value, credentials=credentials_of(settings), timeout=60)


# --- it works -----------------------------------------------------------------------------------


def test_a_member_is_called_by_the_name_in_its_certificate(
    serve: Serve, settings: Settings
) -> None:
    address = f"https://localhost:{serve(settings)}"
    assert ask(settings, address, "x" * 100_000) == "x" * 100_000


def test_a_cluster_without_a_secret_can_have_it_too(serve: Serve, settings: Settings) -> None:
    open_to_all = replace(settings, secret="")
    assert ask(open_to_all, f"https://localhost:{serve(open_to_all)}") == 1


def test_a_stock_client_calls_by_https(
    serve: Serve, settings: Settings, certificates: Authority
) -> None:
    url = f"https://ann:{SECRET.replace(' ', '%20')}@localhost:{serve(settings)}/"
    context = ssl.create_default_context(cafile=str(certificates.ca))
    with xmlrpc.client.ServerProxy(url, context=context) as proxy:
        assert proxy.echo("x") == "x"


def test_a_stock_client_finds_the_authority_in_its_environment(
    serve: Serve, settings: Settings, certificates: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.ca))
    url = f"https://ann:{SECRET.replace(' ', '%20')}@localhost:{serve(settings)}/"
    with xmlrpc.client.ServerProxy(url) as proxy:
        assert proxy.echo("x") == "x"


@pytest.mark.parametrize(
    ("version", "fits"),
    [
        (ssl.TLSVersion.TLSv1_1, False),
        (ssl.TLSVersion.TLSv1_2, True),
        (ssl.TLSVersion.TLSv1_3, True),
    ],
)
@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1 is deprecated:DeprecationWarning")
def test_nothing_older_than_1_2_is_spoken(
    serve: Serve, settings: Settings, certificates: Authority, version: ssl.TLSVersion, fits: bool
) -> None:
    context = ssl.create_default_context(cafile=str(certificates.ca))
    context.set_ciphers("ALL:@SECLEVEL=0")  # with which OpenSSL itself still speaks the old ones
    context.minimum_version = context.maximum_version = version
    with socket.create_connection((LOOPBACK, serve(settings)), timeout=60) as link:
        try:
            with context.wrap_socket(link, server_hostname="localhost") as tls:
                spoken = tls.version()
        except ssl.SSLError as error:
            spoken = error.reason
    assert spoken == (version.name.replace("_", ".") if fits else "TLSV1_ALERT_PROTOCOL_VERSION")


# --- it does not, and says why ------------------------------------------------------------------


def test_a_certificate_for_another_name_is_not_believed(serve: Serve, settings: Settings) -> None:
    address = f"{LOOPBACK}:{serve(settings)}"
    with pytest.raises(ConnectionError, match=r"not valid for '127.0.0.1'.*advertise") as refused:
        ask(settings, f"https://{address}")
    assert f"there is no TLS with {address}" in str(refused.value)


@pytest.mark.parametrize("ca", ["", "another"])
def test_a_certificate_of_another_authority_is_not_believed(
    serve: Serve, settings: Settings, ca: str, tmp_path: Path
) -> None:
    address = f"localhost:{serve(settings)}"
    elsewhere = replace(settings, xmlrpc_tls_ca=str(authority(tmp_path).ca) if ca else "")
    with pytest.raises(ConnectionError, match=rf"no TLS with {address}: .*xmlrpc_tls_ca"):
        ask(elsewhere, f"https://{address}")
    assert ask(settings, f"https://{address}") == 1


def test_silence_is_not_taken_for_a_lack_of_tls(settings: Settings) -> None:
    with socket.create_server((LOOPBACK, 0)) as silent:
        member = Member(f"https://{LOOPBACK}:{silent.getsockname()[1]}", "", 0, "", 0.0)
        with pytest.raises(TimeoutError, match=r"has not answered within 0\.1 s"):
            call(member, "echo", credentials=credentials_of(settings), timeout=0.1)


def test_who_shakes_no_hands_is_told_of_once(
    serve: Serve,
    settings: Settings,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    eventually: Eventually,
) -> None:
    address = f"https://localhost:{serve(settings)}"
    elsewhere = replace(settings, xmlrpc_tls_ca=str(authority(tmp_path).ca))
    for _ in range(2):
        with pytest.raises(ConnectionError):
            ask(elsewhere, address)
    said = "requests from 127.0.0.1 are refused: the TLS handshake failed: "
    eventually(lambda: said in caplog.text)
    assert ask(settings, address) == 1
    assert caplog.text.count(said) == 1


def test_a_stock_client_without_tls_is_told_to_use_it(serve: Serve, settings: Settings) -> None:
    url = f"http://ann:{SECRET.replace(' ', '%20')}@localhost:{serve(settings)}/"
    with (
        xmlrpc.client.ServerProxy(url) as proxy,
        pytest.raises(xmlrpc.client.ProtocolError, match="TLS only: call it by https"),
    ):
        proxy.echo("x" * 100_000)


@pytest.mark.parametrize("secret", ["", SECRET])
def test_a_member_without_tls_is_told_to_use_it(
    serve: Serve, settings: Settings, secret: str
) -> None:
    with pytest.raises(OSError, match="TLS only: call it by https"):
        ask(Settings(secret=secret), f"localhost:{serve(settings)}")


def test_what_must_have_tls_calls_nobody_without(serve: Serve, settings: Settings) -> None:
    plain = serve(Settings(secret=SECRET))
    with pytest.raises(ConnectionError, match=f"localhost:{plain} speaks no TLS: .*certificate"):
        ask(settings, f"localhost:{plain}")


def test_a_server_without_tls_says_so_at_once(
    serve: Serve, settings: Settings, caplog: pytest.LogCaptureFixture, eventually: Eventually
) -> None:
    plain = serve(Settings(secret=SECRET))
    with pytest.raises(ConnectionError, match=rf"no TLS with localhost:{plain}: WRONG_VERSION"):
        ask(settings, f"https://localhost:{plain}")
    eventually(lambda: "refused: they speak TLS, and this port does not" in caplog.text)
    assert ask(Settings(secret=SECRET), f"localhost:{plain}") == 1


@pytest.mark.parametrize("host", ["", "a..b", "x" * 300, "\x00", "[::1", "user@host"])
def test_an_address_that_is_none_is_an_error_of_the_link(settings: Settings, host: str) -> None:
    with pytest.raises(OSError, match=r"."):
        ask(settings, f"https://{host}:1")


# --- nobody is stopped by others ----------------------------------------------------------------


@pytest.mark.parametrize(
    "said", [b"", b"\x16", b"\x16\x03\x01\x02\x00\x01", b"junk", b"\x00" * 999]
)
def test_who_connects_and_never_shakes_hands_stops_nobody(
    serve: Serve, settings: Settings, said: bytes
) -> None:
    port = serve(settings)
    with ExitStack() as silent:
        for _ in range(40):
            link = socket.create_connection((LOOPBACK, port), timeout=60)
            silent.enter_context(link).sendall(said)
        assert ask(settings, f"https://localhost:{port}") == 1


def test_who_never_shakes_hands_is_hung_up_on(serve: Serve, settings: Settings) -> None:
    port = serve(settings, Limits(head=0.2))
    with socket.create_connection((LOOPBACK, port), timeout=60) as link:
        link.sendall(b"\x16\x03\x01\x02\x00\x01")
        assert link.recv(1000) == b""


def test_a_call_that_never_arrives_is_given_up(
    serve: Serve, settings: Settings, certificates: Authority
) -> None:
    port = serve(settings, Limits(head=2.0))
    context = ssl.create_default_context(cafile=str(certificates.ca))
    with (
        socket.create_connection((LOOPBACK, port), timeout=60) as link,
        context.wrap_socket(link, server_hostname="localhost") as tls,
    ):
        tls.sendall(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/xml\r\n")
        assert tls.recv(1000) == b""


# --- files --------------------------------------------------------------------------------------


def test_a_file_that_cannot_be_used_is_named(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "junk").write_text("HIDDEN", encoding="utf-8")
    for name in ("missing", "junk"):
        path = str(tmp_path / name)
        with pytest.raises(ConfigError, match=f"xmlrpc_tls_ca: cannot use {re.escape(path)}"):
            credentials_of(replace(settings, xmlrpc_tls_ca=path)).check()
        server = RpcServer({}, None, partial(server_tls, replace(settings, xmlrpc_tls_key=path)))
        with pytest.raises(ConfigError, match="xmlrpc_tls_key: cannot use") as refused:
            server.serve(LOOPBACK, 0)
        assert "HIDDEN" not in str(refused.value)
        with pytest.raises(ConfigError):
            server.bound(10)


def test_what_serves_must_have_a_certificate_if_tls_is_a_must() -> None:
    with pytest.raises(ConfigError, match="xmlrpc_tls_certificate and xmlrpc_tls_key"):
        server_tls(Settings(xmlrpc_tls=True))
    assert server_tls(Settings()) is None


# --- a cluster ----------------------------------------------------------------------------------


@pytest.mark.zk
def test_a_cluster_can_be_changed_to_tls_one_member_after_the_other(
    cluster_settings: Settings, settings: Settings, tmp_path: Path, eventually: Eventually
) -> None:
    """First everybody knows the authority, then members get certificates, then it is a must."""
    base = replace(cluster_settings, slots=4, xmlrpc_tls_ca=settings.xmlrpc_tls_ca)
    spoken = replace(
        base,
        advertise="localhost",
        xmlrpc_tls_certificate=settings.xmlrpc_tls_certificate,
        xmlrpc_tls_key=settings.xmlrpc_tls_key,
    )
    plain, tls = LiveCluster(tmp_path, base), LiveCluster(tmp_path, spoken)
    tls.broker = plain.broker
    plain.project("one")
    with plain.scheduler() as first, tls.scheduler() as second:
        eventually(lambda: first.fence.held and second.fence.held)
        eventually(lambda: len(first.fence.held) + len(second.fence.held) == base.slots)
        addresses = {record.address for record in first._cluster().members.values()}
        assert addresses == {
            f"127.0.0.1:{first.rpc.bound(60)[1]}",
            f"https://localhost:{second.rpc.bound(60)[1]}",
        }
        for each in (first, second):
            assert len(each._router.ask("local_size")[0]) == 2
        insisting = Client(replace(spoken, xmlrpc_tls=True))
        with Client(base) as either, insisting as one:
            assert either.batches() == []
            assert one.batches() == []
