"""The file of a backup: what is written is read, and nothing else is."""

import base64
import hashlib
import json
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from pyspider_zk.backup import content
from pyspider_zk.backup import file as backup_file
from pyspider_zk.backup.content import Backup
from pyspider_zk.backup.file import read_backup, write_backup
from pyspider_zk.cluster.protocols import CLOSED
from pyspider_zk.cluster.records import Meta
from pyspider_zk.errors import ConfigError

HEADER = {"format": "pyspider-zk backup", "version": 1, "root": "/crawl", "created": 1.5}
META = Meta(8).encode()
GOOD = Backup("/crawl", 1.5, {"ids": b"", "ids/0": b"\x00\xff", "meta": META})


def line(values: object) -> bytes:
    return json.dumps(values).encode() + b"\n"


def znode(path: str, data: bytes = b"") -> dict[str, str]:
    return {"path": path, "data": base64.b64encode(data).decode()}


def written(path: Path, *lines: object, header: object = HEADER) -> Path:
    """Write a file whose checksum is right, whatever is in it."""
    body = b"".join(map(line, [header, *lines]))
    path.write_bytes(body + line({"sha256": hashlib.sha256(body).hexdigest()}))
    return path


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_backup(path, GOOD)
    assert read_backup(path) == GOOD


def test_nobody_else_may_read_it_and_no_draft_stays(tmp_path: Path) -> None:
    write_backup(tmp_path / "file", GOOD)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_file_that_exists_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("precious")
    with pytest.raises(ConfigError, match="exists already"):
        write_backup(path, GOOD)
    assert path.read_text() == "precious"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_folder_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be written"):
        write_backup(tmp_path / "none" / "file", GOOD)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        read_backup(tmp_path / "file")


@pytest.mark.parametrize(
    ("lines", "fault"),
    [
        ([], "this is no Meta"),
        ([znode("meta", b"{}")], "this is no Meta"),
        ([znode("meta", Meta(8, 7).encode())], "protocol 7"),
        ([znode("meta", Meta(8, CLOSED).encode())], "a restore was not completed"),
        ([znode("meta", META), znode("meta", META)], "is there twice"),
        ([znode("meta", META), znode("../etc")], "is no path below"),
        ([znode("meta", META), znode("/etc")], "is no path below"),
        ([znode("meta", META), znode("")], "is no path below"),
        ([znode("meta", META), znode("a//b")], "is no path below"),
        ([znode("meta", META), znode("a\x00b")], "is no path below"),
        ([znode("meta", META), znode("/".join("abcdefghi"))], "is no path below"),
        ([znode("meta", META), znode("ids/0")], "comes before its parent"),
        ([znode("meta", META), znode("members")], "belongs to a process"),
        ([znode("meta", META), znode("leases")], "belongs to a process"),
        ([znode("meta", META), {"path": "ids", "data": "%"}], "are not Base64"),
        ([znode("meta", META), {"path": "ids", "data": 1}], "Expected `str`"),
        ([znode("meta", META), ["ids"]], "Expected `object`"),
        ([znode("meta", META), znode("ids", b"x" * (2**20 + 1))], "the limit is 1048576"),
        (
            [znode("meta", META), *map(znode, ["jobs", "jobs/pending", "jobs/running"])]
            + [znode(f"jobs/{place}/same") for place in ("pending", "running")],
            "a job is in two places",
        ),
    ],
)
def test_content_that_no_backup_has(tmp_path: Path, lines: list[object], fault: str) -> None:
    with pytest.raises(ConfigError, match="is no valid backup") as raised:
        read_backup(written(tmp_path / "file", *lines))
    assert fault in str(raised.value)


@pytest.mark.parametrize(
    ("header", "fault"),
    [
        ({**HEADER, "version": 2}, "it has version 2"),
        ({**HEADER, "format": "another"}, "its format is 'another'"),
        ({}, "missing required field"),
        ([[[]]], "Expected `object`"),
    ],
)
def test_another_format(tmp_path: Path, header: object, fault: str) -> None:
    with pytest.raises(ConfigError, match="is no valid backup") as raised:
        read_backup(written(tmp_path / "file", znode("meta", META), header=header))
    assert fault in str(raised.value)


DAMAGE: list[tuple[Callable[[bytes], bytes], str]] = [
    (lambda whole: whole.replace(b'"root": "/crawl"', b'"root": "/other"'), "checksum is wrong"),
    (lambda whole: whole[:-20], "it is cut short"),
    (lambda whole: whole[: whole.index(b'{"sha256"')], "it is cut short"),
    (lambda whole: whole + b"more", "something follows its end"),
    (lambda _: b"\x89PNG\r\n", "is no valid backup"),
    (lambda _: b"", "it is cut short"),
    (lambda whole: b" " * (3 * 2**20) + whole, "a line is too long"),
]


@pytest.mark.parametrize(("damage", "fault"), DAMAGE)
def test_a_damaged_file(tmp_path: Path, damage: Callable[[bytes], bytes], fault: str) -> None:
    path = tmp_path / "file"
    write_backup(path, GOOD)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ConfigError) as raised:
        read_backup(path)
    assert fault in str(raised.value)


def test_a_file_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backup_file, "MOST_LINES", 3)
    lines = [znode("meta", META), *(znode(f"n{number}") for number in range(4))]
    with pytest.raises(ConfigError, match="more than"):
        read_backup(written(tmp_path / "file", *lines))


def test_too_many_znodes_are_not_written_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content, "MOST_ZNODES", 2)
    with pytest.raises(content.BadMessage, match="3 znodes"):
        content.check_backup(GOOD)
