"""Secrets that stand in files and URLs, among them the cluster's."""

import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyspider_zk.config import settings_from
from pyspider_zk.errors import ConfigError
from pyspider_zk.secret_files import (
    URL_VARIABLES,
    make_cluster_secret,
    read_cluster_secret,
    read_secret,
    take_from_files,
    without_password,
)

NOBODY, SHARED, SOMEBODY = 65534, 4711, 12345
SECRET = "correct horse battery"  # noqa: S105 - of these tests

READ_AS_NOBODY = f"""
import os, sys
from pyspider_zk.secret_files import read_cluster_secret
from pyspider_zk.secret_files import read_secret
from pathlib import Path
os.setgroups([{SHARED}])
os.setgid({NOBODY})
os.setuid({NOBODY})
for read in (read_secret, lambda path: read_cluster_secret(Path(path))):
    try:
        print(read(sys.argv[1]))
    except Exception as error:
        print(error)
"""

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


@pytest.fixture
def everybodys() -> Iterator[Path]:
    """Give a folder that every user can enter."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)  # noqa: S103 - the point of it
        yield Path(folder)


def secret_of(file: Path, owner: int, group: int, mode: int) -> Path:
    file.write_text(f"{SECRET}\n", encoding="ascii")
    os.chown(file, owner, group)
    file.chmod(mode)
    return file


def read_as_nobody(file: Path) -> str:
    """Return what both ways of reading say, as the user nobody in one more group."""
    command = [sys.executable, "-c", READ_AS_NOBODY, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    plain, clusters = done.stdout.splitlines()
    assert plain == clusters
    return plain


@needs_root
@pytest.mark.parametrize(
    ("owner", "group", "mode"),
    [
        (NOBODY, NOBODY, 0o600),
        (NOBODY, NOBODY, 0o400),
        (0, SHARED, 0o440),
        (0, SHARED, 0o640),
        (0, NOBODY, 0o440),
    ],
)
def test_a_service_reads_its_own_file_and_one_that_root_hands_to_its_group(
    everybodys: Path, owner: int, group: int, mode: int
) -> None:
    assert read_as_nobody(secret_of(everybodys / "secret", owner, group, mode)) == SECRET


@needs_root
def test_a_mounted_secret_is_read_through_its_links(everybodys: Path) -> None:
    version = everybodys / "..2026_11_22"
    version.mkdir(mode=0o755)
    secret_of(version / "secret", 0, SHARED, 0o440)
    (everybodys / "..data").symlink_to(version.name)
    (everybodys / "secret").symlink_to("..data/secret")
    assert read_as_nobody(everybodys / "secret") == SECRET


@needs_root
@pytest.mark.parametrize(
    ("owner", "group", "mode", "told"),
    [
        (NOBODY, SHARED, 0o640, "can be read by others (mode 640): chmod 600"),
        (NOBODY, NOBODY, 0o604, "can be read by others (mode 604): chmod 600"),
        (0, SHARED, 0o444, "can be read by others (mode 444): chmod 640"),
        (0, SHARED, 0o660, "can be read by others (mode 660): chmod 640"),
        (0, 0, 0o440, "cannot be read: Permission denied"),
        (SOMEBODY, SHARED, 0o440, f"belongs to user {SOMEBODY}, neither to you nor to root"),
    ],
)
def test_what_others_wrote_or_may_read_is_refused_with_the_remedy(
    everybodys: Path, owner: int, group: int, mode: int, told: str
) -> None:
    answer = read_as_nobody(secret_of(everybodys / "secret", owner, group, mode))
    assert told in answer
    assert str(everybodys / "secret") in answer
    assert SECRET not in answer


def test_a_pipe_blocks_nobody(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(ValueError, match="pipe is no file"):
        read_secret(str(tmp_path / "pipe"))


def test_a_file_takes_the_place_of_a_variable(tmp_path):
    (tmp_path / "url").write_text("redis://:HIDDEN@host/0\n", encoding="utf-8")
    (tmp_path / "url").chmod(0o600)
    environ = {"AMQP_URL_FILE": str(tmp_path / "url"), "TASKDB": "t", "OTHER_FILE": "kept"}

    take_from_files(environ, URL_VARIABLES)

    assert environ == {"AMQP_URL": "redis://:HIDDEN@host/0", "TASKDB": "t", "OTHER_FILE": "kept"}


def test_every_file_at_fault_is_named_and_none_is_quoted(tmp_path):
    (tmp_path / "two").write_text("HIDDEN\nHIDDEN\n", encoding="utf-8")
    (tmp_path / "two").chmod(0o600)
    environ = {
        "AMQP_URL_FILE": str(tmp_path / "two"),
        "TASKDB_FILE": "/no/such/file",
        "RESULTDB_FILE": str(tmp_path / "two"),
        "RESULTDB": "mysql://HIDDEN",
    }
    with pytest.raises(ConfigError) as refused:
        take_from_files(environ, URL_VARIABLES)

    told = "\n".join(refused.value.faults)
    for name in ("AMQP_URL_FILE", "/no/such/file", "give RESULTDB or RESULTDB_FILE"):
        assert name in told
    assert "HIDDEN" not in told


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("redis://host:6379/0", "redis://host:6379/0"),
        ("redis://:HIDDEN@host:6379/0", "redis://@host:6379/0"),
        ("redis://user:HID/D?E#N@host/0", "redis://user@host/0"),
        ("redis://user:HID?x=y@DEN@host/0", "redis://user@host/0"),
        (
            "rediss://u:HIDDEN@h/1?ssl_ca_certs=/ca&password=HIDDEN",
            "rediss://u@h/1?ssl_ca_certs=/ca",
        ),
        (
            "rediss+sentinel://u:HIDDEN@h,i:1/s/0?ssl_ca_certs=/ca&sentinel_password=HIDDEN",
            "rediss+sentinel://u@h,i:1/s/0?ssl_ca_certs=/ca",
        ),
        ("sqlite+taskdb:////x:y/a@b/task.db", "sqlite+taskdb:////x:y/a@b/task.db"),
        ("127.0.0.1:2181/root", "127.0.0.1:2181/root"),
    ],
)
def test_a_url_is_told_without_its_password(url, told):
    assert without_password(url) == told


def fault(file: Path) -> str:
    with pytest.raises(ConfigError) as refused:
        read_cluster_secret(file)
    (told,) = refused.value.faults
    assert str(file) in told
    return told


def written(folder: Path, content: bytes = SECRET.encode(), mode: int = 0o600) -> Path:
    file = folder / "secret"
    file.write_bytes(content)
    file.chmod(mode)
    return file


def test_a_new_one_is_long_and_nobody_else_may_read_it(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        file = make_cluster_secret(tmp_path / "secret")
    finally:
        os.umask(before)
    assert file.stat().st_mode & 0o777 == 0o600
    assert len(read_cluster_secret(file)) >= 43
    assert list(tmp_path.iterdir()) == [file]


def test_the_second_maker_keeps_what_the_first_one_made(tmp_path: Path) -> None:
    first = read_cluster_secret(make_cluster_secret(tmp_path / "secret"))
    assert read_cluster_secret(make_cluster_secret(tmp_path / "secret")) == first


def test_makers_at_the_same_time_agree(tmp_path: Path) -> None:
    found: list[str] = []
    together = threading.Barrier(8)

    def make() -> None:
        together.wait()
        found.append(read_cluster_secret(make_cluster_secret(tmp_path / "secret")))

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(found)) == 1


def test_a_line_end_does_not_belong_to_it(tmp_path: Path) -> None:
    assert read_cluster_secret(written(tmp_path, SECRET.encode() + b"\r\n")) == SECRET


@pytest.mark.parametrize("mode", [0o604, 0o620, 0o601])
def test_a_file_that_others_can_touch_is_refused(tmp_path: Path, mode: int) -> None:
    assert "chmod 600" in fault(written(tmp_path, mode=mode))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_somebody_else_is_refused(tmp_path: Path) -> None:
    file = written(tmp_path)
    os.chown(file, 12345, -1)
    assert "belongs to user 12345" in fault(file)


@pytest.mark.parametrize(
    "content", [b"", b"\n", b"short", b"x" * 1001, b"\xff" * 30, SECRET.encode() + b"\nmore"]
)
def test_what_is_no_secret_is_refused_without_a_word_of_it(tmp_path: Path, content: bytes) -> None:
    told = fault(written(tmp_path, content))
    assert "short" not in told
    assert "horse" not in told


def test_what_is_no_file_is_refused_at_once(tmp_path: Path) -> None:
    assert "cannot be read" in fault(tmp_path / "missing")
    assert "is no file" in fault(tmp_path)
    os.mkfifo(tmp_path / "pipe", 0o600)
    assert "is no file" in fault(tmp_path / "pipe")


def test_settings_take_the_secret_from_the_file_or_from_the_environment(tmp_path: Path) -> None:
    file = written(tmp_path)
    for settings in (
        settings_from({"secret_file": str(file)}),
        settings_from(None, {"PYSPIDER_ZK_SECRET_FILE": str(file)}),
        settings_from(None, {"PYSPIDER_ZK_SECRET": SECRET}),
    ):
        assert settings.secret == SECRET
        assert "horse" not in repr(settings)


def test_wrong_secrets_are_faults_beside_the_others(tmp_path: Path) -> None:
    def faults(environ: dict[str, str]) -> tuple[str, ...]:
        with pytest.raises(ConfigError) as refused:
            settings_from({"slots": 0}, environ)
        return refused.value.faults

    given = {"PYSPIDER_ZK_SECRET": SECRET, "PYSPIDER_ZK_SECRET_FILE": str(written(tmp_path))}
    for environ, told in (
        ({"PYSPIDER_ZK_SECRET": "too-short"}, "PYSPIDER_ZK_SECRET: a secret must have from 16"),
        ({"PYSPIDER_ZK_SECRET_FILE": str(tmp_path / "no")}, "secret_file: "),
        (given, "give one of the two"),
    ):
        found = faults(environ)
        assert any(told in each for each in found)
        assert any("slots" in each for each in found)
        assert "too-short" not in str(found)
        assert "horse" not in str(found)
