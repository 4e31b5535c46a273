"""Logins, access control and TLS, against ZooKeepers that insist on them."""

import logging
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from select import POLLIN, poll

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError, NoNodeError, NotEmptyError
from kazoo.security import OPEN_ACL_UNSAFE, make_digest_acl_credential

from pyspider_zk.cluster.tree import Tree
from pyspider_zk.config import Settings
from pyspider_zk.controller import Locks, WorkerController
from pyspider_zk.errors import ConfigError, Refused, Unavailable
from pyspider_zk.jobs.claims import Registration
from pyspider_zk.jobs.model import Outcome
from pyspider_zk.jobs.queue import JobQueue
from pyspider_zk.local.services import ZooKeeperServer
from pyspider_zk.zookeeper import connection as connection_module
from pyspider_zk.zookeeper.connection import Connection
from pyspider_zk.zookeeper.protection import protect
from pyspider_zk.zookeeper.steps import Create
from pyspider_zk.zookeeper.wire import Wire, handler
from tests.support.crew import Cable, Crew
from tests.support.secured_servers import (
    Authority,
    authority,
    sasl_zookeeper,
    tls_zookeeper,
)

SECRET = "s3cret & more"  # noqa: S105 - of a server that lives for a test
WRONG = SECRET.upper()

pytestmark = pytest.mark.zk


@pytest.fixture
def login(settings: Settings) -> Settings:
    """Give a cluster that has a login."""
    return replace(settings, username="crawl", password=SECRET)


@pytest.fixture(scope="module")
def sasl(
    zookeeper: ZooKeeperServer,  # noqa: ARG001 - without a ZooKeeper it skips the test
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[str]:
    """Give a ZooKeeper that wants SASL."""
    with sasl_zookeeper(tmp_path_factory.mktemp("sasl"), {"crawl": SECRET}) as server:
        yield server.address


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Give certificates for localhost."""
    return authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def tls(
    zookeeper: ZooKeeperServer,  # noqa: ARG001 - without a ZooKeeper it skips the test
    certificates: Authority,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[str]:
    """Give a ZooKeeper that speaks TLS."""
    with tls_zookeeper(tmp_path_factory.mktemp("tls"), certificates) as address:
        yield address


@pytest.fixture
def safe(tls: str, certificates: Authority, settings: Settings) -> Settings:
    """Give a cluster behind TLS; the session bears the first handshake of a cold server."""
    return replace(settings, hosts=tls, session=30.0, tls=True, tls_ca=str(certificates.ca))


def connected(settings: Settings, patience: float = 60.0) -> Connection:
    connection = Connection(settings)
    connection.start(patience)
    return connection


def refusal(settings: Settings, patience: float | None = None) -> str:
    with pytest.raises(Refused) as refused:
        Connection(settings).start(patience)
    assert settings.password == "" or settings.password not in str(refused.value)
    return str(refused.value)


@pytest.fixture
def stranger(settings: Settings) -> Iterator[KazooClient]:
    """Give a client without a login."""
    client = KazooClient(settings.hosts)
    client.start()
    yield client
    client.stop()
    client.close()


def test_what_a_login_creates_is_closed_to_everybody_else(
    login: Settings, stranger: KazooClient
) -> None:
    connection = connected(login)
    path = f"{login.root}/deep/down"
    connection.create(path, b"x")
    connection.create(f"{path}/short", ephemeral=True)
    connection.multi(Create(f"{path}/many", b"x"))

    for each in (login.root, f"{login.root}/deep", path, f"{path}/short", f"{path}/many"):
        assert granted(connection, each) == {("digest", own_id(), "ALL")}
        with pytest.raises(NoAuthError):
            stranger.get(each)
        with pytest.raises(NoAuthError):
            stranger.set(each, b"y")
        with pytest.raises(NoAuthError):
            stranger.create(f"{each}/junk")
        with pytest.raises(NoAuthError):
            stranger.set_acls(each, OPEN_ACL_UNSAFE)
    with pytest.raises(NoAuthError):
        stranger.delete(f"{path}/many")
    connection.stop()


def own_id() -> str:
    return make_digest_acl_credential("crawl", SECRET)


def granted(connection: Connection, path: str) -> set[tuple[str, str, str]]:
    found, _ = connection._client.get_acls(path)
    return {(acl.id.scheme, acl.id.id, *acl.acl_list) for acl in found}


def test_a_reader_reads_and_changes_nothing(login: Settings) -> None:
    reader = f"digest:{make_digest_acl_credential('onlooker', SECRET)}"
    owner = connected(replace(login, readers=(reader,)))
    owner.create(f"{login.root}/seen", b"x")

    onlooker = connected(replace(login, username="onlooker", password=SECRET))
    assert onlooker.get(f"{login.root}/seen") == (b"x", 0)
    assert onlooker.children(login.root) == ["seen"]
    with pytest.raises(Refused, match=f"{login.root}/seen"):
        onlooker.set(f"{login.root}/seen", b"y")
    with pytest.raises(Refused):
        onlooker.multi(Create(f"{login.root}/mine", b"x"))
    onlooker.stop()
    owner.stop()


def test_a_login_that_is_missing_or_wrong_is_refused_at_the_start_with_the_remedy(
    settings: Settings, login: Settings
) -> None:
    owner = connected(login)
    owner.create(login.root)

    assert "PYSPIDER_ZK_USERNAME" in refusal(settings)
    told = refusal(replace(login, password=WRONG))
    assert "'crawl'" in told
    assert "password" in told
    assert Refused.exit_code == 6
    owner.stop()


def test_no_znode_of_a_running_cluster_is_open_to_strangers(
    login: Settings, stranger: KazooClient
) -> None:
    crew = Crew(login)
    owner = connected(login)
    queue = JobQueue(owner, Tree(login.root).jobs)
    try:
        crew.start_and_share(2)
        claimant = Registration(owner, f"{login.root}/claimants").claimant()
        queue.put("batch", [(name, {"n": 1}) for name in ("a", "b", "c")])
        done, _ = queue.take(claimant, lambda _: True, 2)
        queue.finish(done, Outcome.DONE, {})
        with (
            WorkerController(login, "group") as worker,
            Locks(login) as locks,
            locks.lock("lock"),
            locks.shared_lock("shared"),
        ):
            worker.join()
            worker.barrier("barrier", 1).wait(60)
            paths = tree(owner, login.root)
            acls = {path: granted(owner, path) for path in paths}
            attacks = {path: attack(stranger, path) for path in paths}
    finally:
        owner.stop()
        crew.stop()

    assert crew.overlaps == []
    assert [p for p, acl in acls.items() if acl != {("digest", own_id(), "ALL")}] == []
    assert [path for path, succeeded in attacks.items() if succeeded] == []
    kinds = {path.removeprefix(login.root).split("/")[1] for path in paths if path != login.root}
    assert kinds >= {"ids", "members", "leases", "acks", "election", "assignment", "meta"}
    assert kinds >= {"jobs", "events", "claimants", "groups", "locks"}
    assert len(paths) > 40


def tree(connection: Connection, path: str) -> list[str]:
    below = (tree(connection, f"{path}/{name}") for name in connection.children(path))
    return [path, *(each for paths in below for each in paths)]


def attack(stranger: KazooClient, path: str) -> list[str]:
    """Return what somebody without the login can do to a znode."""
    attempts = {
        "read": lambda: stranger.get(path),
        "list": lambda: stranger.get_children(path),
        "write": lambda: stranger.set(path, b"junk"),
        "create": lambda: stranger.create(f"{path}/junk"),
        "delete": lambda: stranger.delete(path),
        "open": lambda: stranger.set_acls(path, OPEN_ACL_UNSAFE),
    }
    return [name for name, attempt in attempts.items() if succeeds(attempt)]


def succeeds(attempt: Callable[[], object]) -> bool:
    try:
        attempt()
    except (NoAuthError, NoNodeError, NotEmptyError):  # a root cannot be deleted, being full
        return False
    return True


def test_a_tree_that_was_made_without_a_login_can_be_protected(
    settings: Settings, login: Settings, stranger: KazooClient, caplog: pytest.LogCaptureFixture
) -> None:
    former = connected(settings)
    for path in ("a/b", "a/c", "d"):
        former.create(f"{settings.root}/{path}", b"x")
    former.create(f"{settings.root}/short", ephemeral=True)
    owner = connected(login)
    assert "pyspider-zk protect" in caplog.text

    assert protect(owner, login.root) == 6

    paths = tree(owner, login.root)
    assert {path: attack(stranger, path) for path in paths} == {path: [] for path in paths}
    with pytest.raises(Refused, match="PYSPIDER_ZK_USERNAME"):
        former.create(f"{settings.root}/late")
    caplog.clear()
    connected(login).stop()
    assert caplog.text == ""
    former.stop()
    owner.stop()


def test_a_member_that_is_refused_ends_neither_itself_nor_the_others(
    settings: Settings, login: Settings, eventually
) -> None:
    """Members without the login meet a tree that was protected meanwhile, and one comes with it."""
    crew = Crew(settings)
    try:
        (late,) = crew.start_and_share(1, mortal=[0])
        owner = connected(login)
        protect(owner, login.root)
        eventually(lambda: not late.open)
        knowing = Crew(login)
        try:
            (member,) = knowing.start_and_share(1)
            assert not late.coordinator._loop.ends
            assert len(member.open) == settings.slots
        finally:
            knowing.stop()
        owner.stop()
    finally:
        crew.stop()


def test_sasl_lets_in_who_knows_the_password(sasl: str, login: Settings) -> None:
    connection = connected(replace(login, hosts=sasl, scheme="sasl"))
    connection.create(login.root, b"x")
    assert granted(connection, login.root) == {("sasl", "crawl", "ALL")}
    connection.stop()


def test_sasl_refuses_a_wrong_password_and_whoever_has_none(
    sasl: str, settings: Settings, login: Settings
) -> None:
    there = replace(login, hosts=sasl, scheme="sasl")
    assert "refuses the login 'crawl' (sasl)" in refusal(replace(there, password=WRONG))
    nobody = replace(there, username="nobody", password=WRONG)
    assert "refuses the login 'nobody' (sasl)" in refusal(nobody)
    assert "PYSPIDER_ZK_USERNAME" in refusal(replace(settings, hosts=sasl))


def test_a_server_without_sasl_is_told_apart(login: Settings) -> None:
    with pytest.raises(Unavailable, match=r"'crawl' \(sasl\).*scheme"):
        Connection(replace(login, scheme="sasl", session=4.0)).start()


def test_who_is_refused_later_goes_on_trying_and_comes_back(
    sasl: str, login: Settings, eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(Cable(sasl)) as cable:
        there = replace(login, hosts=cable.address, scheme="sasl")
        connection = connected(there)
        options = connection._client._connection.sasl_options
        monkeypatch.setitem(options, "password", "changed meanwhile")
        cable.drop()

        eventually(lambda: _is_refused(connection, login.root))
        monkeypatch.setitem(options, "password", SECRET)

        eventually(lambda: not _is_refused(connection, login.root))
        assert connection.connected
        connection.stop()


def _is_refused(connection: Connection, path: str) -> bool:
    try:
        connection.find(path)
    except Refused:
        return True
    except Unavailable:
        return False
    return False


def test_a_password_is_in_no_log_however_much_is_logged(
    login: Settings, sasl: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(1)
    caplog.set_level(1, logger=connection_module._kazoo_logger.name)
    for settings in (login, replace(login, hosts=sasl, scheme="sasl")):
        connected(settings).stop()
    texts = [record.getMessage() for record in caplog.records if "kazoo" in record.name]
    assert texts
    assert not [text for text in texts if SECRET in text or "response" in text]


def test_tls_wants_a_certificate_of_the_authority_for_the_name_that_was_asked_for(
    safe: Settings,
) -> None:
    connection = connected(safe, patience=60.0)
    connection.create(safe.root, b"x")
    assert connection._client._connection._socket.version() in ("TLSv1.2", "TLSv1.3")
    connection.stop()

    other_name = replace(safe, hosts=safe.hosts.replace("localhost", "127.0.0.1"))
    assert "not valid for '127.0.0.1'" in refusal(other_name)
    assert "issuer" in refusal(replace(safe, tls_ca=""))


def test_an_authority_of_somebody_else_is_refused(safe: Settings, tmp_path: Path) -> None:
    there = replace(safe, tls_ca=str(authority(tmp_path).ca))
    assert "there is no TLS with localhost" in refusal(there)


def test_a_server_that_wants_a_certificate_gets_it(
    zookeeper: ZooKeeperServer,  # noqa: ARG001 - without a ZooKeeper it skips the test
    settings: Settings,
    certificates: Authority,
    tmp_path: Path,
) -> None:
    with tls_zookeeper(tmp_path, certificates, wants="need") as address:
        safe = replace(settings, session=30.0, tls=True, tls_ca=str(certificates.ca))
        nameless = replace(safe, hosts=address)
        known = replace(
            nameless, tls_certificate=str(certificates.certificate), tls_key=str(certificates.key)
        )
        connection = connected(known, patience=60.0)
        connection.create(settings.root, b"x")
        connection.stop()
        with pytest.raises(Unavailable):
            Connection(nameless).start(2.0)


def test_a_server_that_is_silent_about_tls_is_no_refusal(safe: Settings) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        hosts = f"localhost:{silent.getsockname()[1]}"
        with pytest.raises(Unavailable, match="no ZooKeeper answers") as raised:
            Connection(replace(safe, hosts=hosts)).start(1.0)
    assert not isinstance(raised.value, Refused)


def test_tls_where_none_is_spoken_says_so(settings: Settings) -> None:
    hosts = settings.hosts.replace("127.0.0.1", "localhost")
    assert "there is no TLS" in refusal(replace(settings, hosts=hosts, tls=True), patience=30.0)


@pytest.mark.parametrize(
    ("wrong", "named"),
    [({"tls_ca": "/none"}, "tls_ca"), ({"tls_certificate": "/no", "tls_key": "/no"}, "tls_key")],
)
def test_a_file_that_cannot_be_used_is_named(
    settings: Settings, wrong: dict[str, str], named: str
) -> None:
    with pytest.raises(ConfigError, match=named):
        Connection(replace(settings, tls=True, **wrong)).start()


def test_an_encrypted_key_is_a_fault_and_no_question(
    settings: Settings, certificates: Authority, tmp_path: Path
) -> None:
    from cryptography.hazmat.primitives import serialization

    key = serialization.load_pem_private_key(certificates.key.read_bytes(), None)
    (tmp_path / "key").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"x"),
        )
    )
    files = {"tls_certificate": str(certificates.certificate), "tls_key": str(tmp_path / "key")}
    with pytest.raises(ConfigError, match="encrypted"):
        Connection(replace(settings, tls=True, **files)).start()


def test_a_link_with_tls_that_is_dead_is_severed_and_made_anew(safe: Settings, eventually) -> None:
    with closing(Cable(safe.hosts)) as cable:
        hosts = cable.address.replace("127.0.0.1", "localhost")
        connection = Connection(replace(safe, hosts=hosts, session=9.0), resumes=True)
        connection.start(60.0)
        first = connection._session._wire
        cable.cut()

        eventually(lambda: first.closed)
        cable.mend()

        eventually(lambda: connection.connected)
        assert connection.find(safe.root) is None
        connection.stop()


def test_two_answers_in_one_record_are_both_read_at_once(certificates: Authority) -> None:
    with tls_pair(certificates) as (wire, server):
        select = handler(lambda _connect: wire, lambda link, _name, _seconds: link).select
        server.sendall(b"one,two.")

        assert select([wire], [], [], 30.0)[0] == [wire]
        assert wire.recv(4) == b"one,"
        assert select([wire], [], [], 30.0)[0] == [wire]
        assert wire.recv(4) == b"two."
        assert select([wire], [], [], 0)[0] == []


def test_what_tls_tells_itself_is_no_answer(certificates: Authority) -> None:
    """A server sends tickets after the handshake. Who waited for data then would send nothing."""
    with tls_pair(certificates) as (wire, server):
        select = handler(lambda _connect: wire, lambda link, _name, _seconds: link).select
        assert wire.version() == "TLSv1.3"
        polling = poll()  # a `select` refuses large numbers of descriptors
        polling.register(wire, POLLIN)
        assert polling.poll(30_000)
        assert select([wire], [], [], 0)[0] == []

        server.sendall(b"data")

        assert select([wire], [], [], 30.0)[0] == [wire]
        server.close()
        assert wire.recv(4) == b"data"
        assert select([wire], [], [], 30.0)[0] == [wire]
        assert wire.recv(4) == b""


@contextmanager
def tls_pair(certificates: Authority) -> Iterator[tuple[Wire, ssl.SSLSocket]]:
    """Give both ends of a link with TLS, after the handshake."""
    near, far = socket.socketpair()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificates.server)
    server = context.wrap_socket(far, server_side=True, do_handshake_on_connect=False)
    client = ssl.create_default_context(cafile=certificates.ca)
    shaking = threading.Thread(target=server.do_handshake)
    shaking.start()
    link = client.wrap_socket(near, server_hostname="localhost")
    shaking.join()
    link.setblocking(False)
    with closing(Wire(link, 0.0, 1.0)) as wire, closing(server):
        yield wire, server


def test_the_log_of_kazoo_keeps_its_warnings(caplog: pytest.LogCaptureFixture) -> None:
    Connection(Settings())
    with caplog.at_level(logging.INFO, logger=connection_module._kazoo_logger.name):
        connection_module._kazoo_logger.warning("kept")
    assert "kept" in caplog.text
