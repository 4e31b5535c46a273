"""`deploy/secure`: what it makes fits together, is nobody else's, and stays."""

import os
import ssl
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis
import yaml

from pyspider_zk.secret_files import read_secret
from tests.support.needed import skip_without_needed
from tests.support.programs import promtool
from tests.support.waiting import eventually

SECURE = Path(__file__).resolve().parents[2] / "deploy" / "secure"
PROGRAMS = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])


def secure(folder: Path, domain: str = "crawl.test") -> None:
    environ = {"PATH": PROGRAMS, "DOMAIN": domain}
    subprocess.run([SECURE, folder], env=environ, check=True, capture_output=True)


def openssl(*words: object) -> str:
    command = ["openssl", *map(str, words)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return done.stdout


def contents(folder: Path) -> dict[Path, tuple[bytes, int]]:
    """Return what each file holds, and when it was written."""
    files = (file for file in folder.rglob("*") if file.is_file())
    return {file: (file.read_bytes(), file.stat().st_mtime_ns) for file in files}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("secured")
    secure(folder)
    return folder


def test_what_exists_stays(made: Path) -> None:
    before = contents(made)
    secure(made)
    assert contents(made) == before


def test_nobody_else_reads_anything(made: Path) -> None:
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in made.rglob("*")}
    assert {path for path, mode in modes.items() if mode & 0o077} == set()


@pytest.mark.parametrize(
    ("signer", "file", "names"),
    [
        ("ca", "zookeeper/server.pem", {"zookeeper1", "zookeeper2", "zookeeper3", "localhost"}),
        ("ensemble-ca", "zookeeper/ensemble.pem", {"zookeeper1", "zookeeper2", "zookeeper3"}),
        ("ca", "redis/server.pem", {"redis", "localhost"}),
        ("ca", "postgresql/server.pem", {"postgresql"}),
        ("ca", "cluster/scheduler.pem", {"*.crawl.test"}),
    ],
)
def test_a_server_has_a_certificate_for_its_names(
    made: Path, signer: str, file: str, names: set[str]
) -> None:
    openssl("verify", "-CAfile", made / "authority" / f"{signer}.pem", made / file)
    told = openssl("x509", "-noout", "-ext", "subjectAltName", "-in", made / file)
    assert {each.strip() for each in told.replace("DNS:", ",").split(",")[1:]} - {""} == names
    ssl.create_default_context().load_cert_chain(made / file)  # the key is that of the certificate


def test_only_the_ensemble_has_certificates_of_its_authority(made: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        openssl(
            "verify", "-CAfile", made / "authority/ensemble-ca.pem", made / "cluster/client.pem"
        )


def test_urls_hold_the_passwords(made: Path) -> None:
    for name, url in (("redis", "message-queue"), ("postgresql", "taskdb")):
        password = read_secret(str(made / "authority" / name))
        assert f"://crawl:{password}@{name}:" in read_secret(str(made / "cluster" / url))


def test_prometheus_has_what_opens_the_metrics(made: Path) -> None:
    token = read_secret(str(made / "cluster/metrics"))
    assert read_secret(str(made / "prometheus/metrics")) == token


def test_prometheus_knows_its_login_and_takes_the_file(made: Path) -> None:
    password = read_secret(str(made / "authority/prometheus"))
    file = made / "prometheus/web.yml"
    (known,) = yaml.safe_load(file.read_text(encoding="utf-8"))["basic_auth_users"].values()
    script = "print crypt($ARGV[0], $ARGV[1])"
    told = subprocess.run(
        ["perl", "-e", script, password, known],  # noqa: S607
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout == known
    with skip_without_needed():
        program = promtool()
    done = subprocess.run(
        [program, "check", "web-config", file], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_password_is_never_another_ones(made: Path) -> None:
    names = ("admin", "metrics", "postgresql", "prometheus", "redis", "secret", "zookeeper")
    assert len({read_secret(str(made / "authority" / name)) for name in names}) == len(names)


def test_a_certificate_that_ends_soon_is_replaced(made: Path) -> None:
    file, key = made / "redis/server.pem", made / "key.pem"
    openssl(
        *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc"),
        *("-subj", "/CN=redis", "-days", 29, "-keyout", key, "-out", file),
    )
    key.unlink()
    others = {path: held for path, held in contents(made).items() if path != file}
    secure(made)
    openssl("verify", "-CAfile", made / "authority/ca.pem", file)
    assert {path: held for path, held in contents(made).items() if path != file} == others


def test_a_certificate_for_other_hosts_is_replaced(made: Path) -> None:
    file = made / "cluster/scheduler.pem"
    others = {path: held for path, held in contents(made).items() if path != file}
    secure(made, "other.test")
    assert "DNS:*.other.test" in openssl("x509", "-noout", "-ext", "subjectAltName", "-in", file)
    assert {path: held for path, held in contents(made).items() if path != file} == others
    secure(made)


@contextmanager
def redis_of(folder: Path, users: Path) -> Iterator[redis.Redis]:
    """Run a Redis with these users and an append-only file, as in the composed cluster."""
    socket = str(folder / "socket")
    line = ["redis-server", "--port", "0", "--unixsocket", socket, "--aclfile", users]
    line += ["--dir", folder, "--appendonly", "yes", "--save", ""]
    with subprocess.Popen(line, stdout=subprocess.DEVNULL) as process:
        try:
            password = (users.parents[1] / "authority/redis").read_text().strip()
            with redis.Redis(
                unix_socket_path=socket, username="crawl", password=password
            ) as client:
                eventually(lambda: _answers(client), "Redis answers")
                yield client
        finally:
            process.terminate()


def _answers(client: redis.Redis) -> bool:
    try:
        return bool(client.ping())
    except redis.RedisError:
        return False


@pytest.mark.redis
def test_what_a_script_wrote_is_there_after_a_restart(made: Path, tmp_path: Path) -> None:
    """Redis replays its file as the default user; without rights that loses all transactions."""
    users = made / "redis/users.acl"
    with redis_of(tmp_path, users) as client:
        client.eval("redis.call('SET', 'a', 1) redis.call('SET', 'b', 2)", 0)
    with redis_of(tmp_path, users) as client:
        assert client.mget("a", "b") == [b"1", b"2"]


@pytest.mark.redis
def test_nobody_is_the_default_user(made: Path, tmp_path: Path) -> None:
    with redis_of(tmp_path, made / "redis/users.acl"):
        for password in (None, "", "default"):
            stranger = redis.Redis(unix_socket_path=str(tmp_path / "socket"), password=password)
            with stranger, pytest.raises(redis.AuthenticationError):
                stranger.ping()
