"""The folder of an embedded cluster: one owner, one note."""

import json
import os
import stat
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from pyspider_zk.errors import ClusterError, ConfigError
from pyspider_zk.local.folder import Running, announce, claimed, running_in, withdraw

RUNNING = Running(
    pid=1,
    zookeeper="127.0.0.1:2181/pyspider-zk",
    message_queue="redis://127.0.0.1:6379/0",
    taskdb="t",
    projectdb="p",
    resultdb="r",
    webui="http://127.0.0.1:5000/",
    schedulers=3,
)


def test_a_folder_that_is_made_is_for_us_only(tmp_path):
    before = os.umask(0o022)
    try:
        with claimed(tmp_path / "data"):
            assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o700
    finally:
        os.umask(before)


@pytest.mark.parametrize("mode", [0o755, 0o750, 0o770, 0o1777, 0o711])
def test_a_folder_that_others_can_enter_or_write_to_is_refused_and_left_as_it_is(tmp_path, mode):
    folder = tmp_path / "data"
    folder.mkdir()
    folder.chmod(mode)

    with pytest.raises(ConfigError, match=rf"chmod 700 {folder}.*--data-path"):
        claimed(folder).__enter__()

    assert stat.S_IMODE(folder.stat().st_mode) == mode
    assert list(folder.iterdir()) == []
    folder.chmod(0o700)
    with claimed(folder):
        pass


@pytest.mark.parametrize("character", ["#", "?", "\t", "\n", "\r"])
def test_a_path_that_ends_early_in_a_url_is_refused_before_anything_is_made(tmp_path, character):
    folder = tmp_path / f"c{character}d" / "data"

    with pytest.raises(ConfigError) as refused:
        claimed(folder).__enter__()

    assert f"cannot have {character!r}; name another folder with --data-path" in str(refused.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("as_nobody")
def test_in_a_folder_of_another_user_nobody_is_told_what_runs():
    with tempfile.TemporaryDirectory() as folder:
        closed = Path(folder, "data")
        closed.mkdir(mode=0)
        with pytest.raises(ClusterError, match="another user's"):
            running_in(closed)


def test_a_second_claim_is_refused_with_the_first_ones_pid(tmp_path):
    with claimed(tmp_path), pytest.raises(ClusterError, match=f"pid {os.getpid()}"):
        claimed(tmp_path).__enter__()


def test_a_file_cannot_be_claimed(tmp_path):
    file = tmp_path / "data"
    file.touch()
    for path in (file, file / "below"):
        with pytest.raises(ConfigError, match=rf"data path {path}: .*--data-path"):
            claimed(path).__enter__()


@pytest.mark.usefixtures("as_nobody")
def test_a_folder_that_cannot_be_written_to_cannot_be_claimed():
    with tempfile.TemporaryDirectory() as folder:
        closed = Path(folder, "data")
        closed.mkdir(mode=0o500)
        for path in (closed, closed / "below"):
            with pytest.raises(ConfigError, match=r"Permission denied.*--data-path"):
                claimed(path).__enter__()


def test_a_claim_that_ended_can_be_made_again(tmp_path):
    with claimed(tmp_path):
        pass
    with claimed(tmp_path):
        pass


def test_what_runs_in_a_folder_is_read_from_its_note(tmp_path):
    with claimed(tmp_path):
        announce(tmp_path, RUNNING)

        assert running_in(tmp_path) == RUNNING


@pytest.mark.parametrize("other", [{"pid": 1}, {"colour": "red"}])
def test_the_note_of_another_version_is_told_as_such(tmp_path, other):
    with claimed(tmp_path):
        (tmp_path / "up.json").write_text(json.dumps(other))

        with pytest.raises(ClusterError, match="another version"):
            running_in(tmp_path)


def test_the_note_is_for_us_only_and_has_no_password(tmp_path):
    secret = replace(
        RUNNING,
        message_queue="rediss://crawl:HIDDEN@redis:6379/0?ssl_ca_certs=/ca.pem",
        taskdb="mysql+taskdb://crawl:HID@DEN@db/task?password=HIDDEN",
    )
    (tmp_path / "up.json.new").touch(0o644)
    with claimed(tmp_path):
        announce(tmp_path, secret)
        told = running_in(tmp_path)

    note = tmp_path / "up.json"
    assert stat.S_IMODE(note.stat().st_mode) == 0o600
    assert "HID" not in note.read_text()
    assert told.message_queue == "rediss://crawl@redis:6379/0?ssl_ca_certs=/ca.pem"
    assert told.taskdb == "mysql+taskdb://crawl@db/task"


def test_a_note_that_a_killed_process_left_behind_says_nothing(tmp_path):
    with claimed(tmp_path):
        announce(tmp_path, RUNNING)

    assert running_in(tmp_path) is None


def test_nothing_runs_in_a_folder_that_is_not_there(tmp_path):
    assert running_in(tmp_path / "none") is None


def test_nothing_runs_any_more_after_the_note_is_gone(tmp_path):
    with claimed(tmp_path):
        announce(tmp_path, RUNNING)
        withdraw(tmp_path)
        withdraw(tmp_path)

        assert running_in(tmp_path) is None
