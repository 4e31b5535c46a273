"""What the chart makes of secrets opens real servers, and stays what it is."""

import base64
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import redis

from pyspider_zk.config import Settings
from pyspider_zk.databases.urls import faults as database_faults
from pyspider_zk.errors import Unavailable
from pyspider_zk.webui.users import read_users
from pyspider_zk.zookeeper.connection import Connection
from tests.kubernetes.chart import CHART, NAMESPACE, RELEASE, documents, helm, render
from tests.kubernetes.mounting import (
    Secrets,
    message_queue,
    mount,
    prepare_users,
    redis_server,
    secrets_of,
    zookeeper,
)
from tests.kubernetes.rendering import Rendering

SERVERS = [f"{RELEASE}-zookeeper-{number}.{RELEASE}-zookeeper" for number in range(3)]


@pytest.fixture(scope="module")
def secrets() -> Secrets:
    return secrets_of(Rendering(render({})))


@pytest.fixture
def mounted(secrets: Secrets, tmp_path: Path) -> Path:
    """Give a folder with a folder of files for each Secret."""
    mount(secrets, tmp_path)
    return tmp_path


def shake_hands(server: Path, ca: Path, host: str, client: Path | None = None) -> None:
    """Let a client and a server shake hands, without a network.

    Raises:
        ssl.SSLError: one does not trust the other.
    """
    of_server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(ca))
    of_server.load_cert_chain(server)
    of_client = ssl.create_default_context(cafile=str(ca))
    if client is not None:
        of_server.verify_mode = ssl.CERT_REQUIRED
        of_client.load_cert_chain(client)
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        of_client.wrap_bio(down, up, server_hostname=host),
        of_server.wrap_bio(up, down, server_side=True),
    ]
    for _ in range(4):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue


@pytest.mark.parametrize(
    ("server", "hosts"),
    [
        ("zookeeper/server.pem", [*SERVERS, "localhost"]),
        ("redis/server.pem", [f"{RELEASE}-redis", "localhost"]),
        ("postgresql/server.pem", [f"{RELEASE}-postgresql"]),
        (
            "cluster/scheduler.pem",
            [
                f"{name}.{RELEASE}-scheduler.{NAMESPACE}.svc"
                for name in (f"{RELEASE}-scheduler-7", "metrics")
            ],
        ),
    ],
)
def test_a_certificate_is_valid_for_its_hosts_alone(
    mounted: Path, server: str, hosts: list[str]
) -> None:
    ca, client = mounted / "cluster/ca.pem", mounted / "cluster/client.pem"
    for host in hosts:
        shake_hands(mounted / server, ca, host, client)
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(mounted / server, ca, "elsewhere.example.org", client)


def test_zookeeper_s_servers_have_an_authority_of_their_own(mounted: Path) -> None:
    ca, server = mounted / "zookeeper/ensemble-ca.pem", mounted / "zookeeper/ensemble.pem"
    shake_hands(server, ca, SERVERS[0], server)
    with pytest.raises(ssl.SSLError):
        shake_hands(server, ca, SERVERS[0], mounted / "zookeeper/server.pem")


@pytest.mark.zk
def test_zookeeper_takes_its_certificate_and_a_client_needs_one(
    mounted: Path, secrets: Secrets
) -> None:
    client = str(mounted / "cluster/client.pem")
    with zookeeper(mounted) as address:
        settings = Settings(
            hosts=address,
            username="crawl",
            password=secrets["cluster"]["zookeeper"],
            tls=True,
            tls_ca=str(mounted / "cluster/ca.pem"),
            tls_certificate=client,
            tls_key=client,
        )
        with connected(settings) as connection:
            assert connection.create(settings.root) == settings.root
        with (
            pytest.raises(Unavailable),
            connected(replace(settings, tls_certificate="", tls_key="")),
        ):
            pass


@contextmanager
def connected(settings: Settings) -> Iterator[Connection]:
    connection = Connection(settings)
    try:
        connection.start()
        yield connection
    finally:
        connection.stop()


@pytest.mark.redis
def test_redis_lets_in_the_cluster_and_nobody_else(mounted: Path, secrets: Secrets) -> None:
    with (
        redis_server(mounted) as port,
        redis.Redis.from_url(here := message_queue(secrets, mounted, port)) as client,
    ):
        assert client.set("a", 1)
        with pytest.raises(redis.exceptions.NoPermissionError):
            client.config_get("*")
        nobody = here.replace(secrets["authority"]["redis"], "another password")
        with (
            redis.Redis.from_url(nobody) as stranger,
            pytest.raises(redis.exceptions.AuthenticationError),
        ):
            stranger.ping()


def test_the_urls_of_the_databases_are_valid_and_have_their_password(secrets: Secrets) -> None:
    urls = {kind: secrets["cluster"][kind] for kind in ("taskdb", "projectdb", "resultdb")}
    assert list(database_faults(urls)) == []
    passwords = {urlsplit(url).password for url in urls.values()}
    assert passwords == {secrets["postgresql"]["password"]}


def test_the_web_ui_s_first_user_is_made_of_the_secret(mounted: Path, secrets: Secrets) -> None:
    users = read_users(prepare_users(Rendering(render({})), mounted)).users
    assert set(users) == {"admin"}
    assert secrets["webui"]["admin"] not in users["admin"].password


def test_users_that_the_secret_has_are_taken_as_they_are(mounted: Path) -> None:
    made = prepare_users(Rendering(render({})), mounted)
    made.rename(mounted / "webui" / "users.json")
    before = read_users(mounted / "webui" / "users.json")
    (mounted / "webui" / "users.json").chmod(0o640)  # as a Secret is mounted
    assert read_users(prepare_users(Rendering(render({})), mounted)) == before


# --- what is there stays -------------------------------------------------------------------------


@pytest.fixture
def serve_authority() -> Iterator[Callable[[dict[str, str]], str]]:
    """Give the function that stands in for a cluster's API, which has this one Secret."""
    servers = []

    def serve(data: dict[str, str]) -> str:
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler(data))
        servers.append(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{server.server_port}"

    yield serve
    for server in servers:
        server.shutdown()
        server.server_close()


def handler(data: dict[str, str]) -> type[BaseHTTPRequestHandler]:
    name = f"{RELEASE}-authority"
    resource = {"name": "secrets", "namespaced": True, "kind": "Secret", "verbs": ["get"]}
    answers = {
        "/api/v1": {"kind": "APIResourceList", "groupVersion": "v1", "resources": [resource]},
        f"/api/v1/namespaces/{NAMESPACE}/secrets/{name}": {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name},
            "data": {file: base64.b64encode(text.encode()).decode() for file, text in data.items()},
        },
    }

    class Api(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer = answers.get(self.path.partition("?")[0])
            self.send_response(200 if answer else 404)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps(answer or {"kind": "Status", "code": 404}).encode())

        def log_message(self, *_: object) -> None:
            pass

    return Api


def upgraded(api: str) -> Secrets:
    words = ("template", RELEASE, CHART, "--dry-run=server", "--kube-apiserver", api)
    return secrets_of(Rendering(documents(helm(*words))))


def test_an_upgrade_keeps_passwords_and_authorities_and_renews_certificates(
    secrets: Secrets, mounted: Path, serve_authority: Callable[[dict[str, str]], str]
) -> None:
    after = upgraded(serve_authority(secrets["authority"]))
    assert after["authority"] == secrets["authority"]
    for name, files in secrets.items():
        kept = {file for file, text in files.items() if after[name][file] == text}
        assert set(files) - kept == {file for file in files if "PRIVATE" in files[file]} - kept
    renewed = mounted / "renewed.pem"
    renewed.write_text(after["redis"]["server.pem"])
    assert renewed.read_text() != secrets["redis"]["server.pem"]
    shake_hands(renewed, mounted / "cluster/ca.pem", "localhost", mounted / "cluster/client.pem")


def test_what_is_missing_is_made_and_the_rest_is_kept(
    serve_authority: Callable[[dict[str, str]], str],
) -> None:
    after = upgraded(serve_authority({"redis": "the password of Redis"}))
    assert after["authority"]["redis"] == "the password of Redis"
    assert len(after["authority"]["secret"]) == 43


def test_two_releases_share_no_secret(secrets: Secrets) -> None:
    others = secrets_of(Rendering(render({})))
    for name, files in secrets.items():
        same = {file for file, text in files.items() if others[name][file] == text}
        assert same == set(), name
