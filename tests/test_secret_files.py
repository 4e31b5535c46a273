"""Secrets that stand in files and URLs."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyspider_zk.errors import ConfigError
from pyspider_zk.secret_files import (
    URL_VARIABLES,
    read_secret,
    take_from_files,
    without_password,
)

NOBODY, SHARED, SOMEBODY = 65534, 4711, 12345
SECRET = "correct horse battery"  # noqa: S105 - of these tests

READ_AS_NOBODY = f"""
import os, sys
from pyspider_zk.cluster_secret import read_cluster_secret
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
