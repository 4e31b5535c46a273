"""The file of the secret: made once, read by its owner only."""

import os
import threading
from pathlib import Path

import pytest

from pyspider_zk.cluster_secret import make_cluster_secret, read_cluster_secret
from pyspider_zk.config import settings_from
from pyspider_zk.errors import ConfigError

SECRET = "correct horse battery"  # noqa: S105 - of these tests


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
