"""What pyspider's sqlite files are written with."""

import itertools
import shutil
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyspider.database import connect_database

KILLED = """
import os, signal, sys
from pyspider.database import connect_database

taskdb = connect_database(sys.argv[1])
cursor = taskdb.dbcur
cursor.execute("PRAGMA cache_size=5")  # so that most of it is in the file before the end
cursor.execute("BEGIN IMMEDIATE")
for number in range(2000):
    cursor.execute("INSERT INTO taskdb_p (taskid, url) VALUES (?, ?)", (str(number), "u" * 500))
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "task.db"


def opened(file: Path) -> Any:
    return connect_database(f"sqlite+taskdb:///{file}")


def pragma(taskdb: Any, name: str) -> Any:
    return taskdb.dbcur.execute(f"PRAGMA {name}").fetchone()[0]


def journal_of(file: Path) -> Path:
    return file.with_name(f"{file.name}-journal")


def test_the_journal_stays_between_commits_and_each_waits_for_the_disk(file: Path) -> None:
    taskdb = opened(file)
    taskdb.insert("p", "t", {"url": "u"})
    inode = journal_of(file).stat().st_ino

    taskdb.update("p", "t", {"url": "v"})

    assert journal_of(file).stat().st_ino == inode
    assert pragma(taskdb, "synchronous") == 2, "FULL, sqlite's default"


@pytest.mark.parametrize("mode", [0o664, 0o646])
def test_no_journal_stays_where_others_write_who_could_not_open_it(file: Path, mode: int) -> None:
    file.touch()
    file.chmod(mode)
    opened(file).insert("p", "t", {"url": "u"})

    assert not journal_of(file).exists()


def test_a_journal_that_a_large_transaction_made_is_cut(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taskdb = opened(file)
    monkeypatch.setattr(type(taskdb), "JOURNAL_SIZE", 10_000)
    taskdb.reconnect()
    for number in range(100):
        taskdb.insert("p", str(number), {"url": "u" * 1000})

    taskdb.drop("p")

    assert 0 < journal_of(file).stat().st_size <= 10_000


def test_a_connection_keeps_more_of_the_file_than_by_default(file: Path) -> None:
    assert pragma(opened(file), "cache_size") == -16 * 1024  # KiB


def test_a_file_with_a_write_ahead_log_keeps_it(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
    taskdb = opened(file)

    taskdb.insert("p", "t", {"url": "u"})

    assert pragma(taskdb, "journal_mode") == "wal"
    assert not journal_of(file).exists()


def test_what_a_process_had_written_that_was_killed_is_undone(file: Path) -> None:
    taskdb = opened(file)
    taskdb.insert("p", "before", {"url": "u"})
    size = file.stat().st_size

    url = f"sqlite+taskdb:///{file}"
    killed = subprocess.run([sys.executable, "-c", KILLED, url], check=False, timeout=60)

    assert killed.returncode == -9
    assert file.stat().st_size > size, "nothing was written: there is nothing to undo"
    after = opened(file)
    assert after.get_task("p", "before")["url"] == "u"
    assert after.get_task("p", "1") is None
    after.insert("p", "after", {"url": "u"})
    assert pragma(after, "integrity_check") == "ok"


def test_the_version_of_a_file_changes_with_whoever_changes_it(file: Path) -> None:
    taskdb = opened(file)
    taskdb.insert("p", "t", {"url": "u"})
    other = opened(file)
    versions = [taskdb.file_version(), taskdb.file_version()]
    assert versions[0] == versions[1]

    for change in (taskdb.update, other.update):
        change("p", "t", {"url": "v"})
        versions.append(taskdb.file_version())
    moved = file.with_name("moved.db")
    file.rename(moved)
    with pytest.raises(sqlite3.OperationalError, match="unable to open"):
        taskdb.file_version()
    shutil.copy(moved, file)
    versions += [taskdb.file_version(), taskdb.file_version()]

    assert versions[-2] == versions[-1]
    assert all(a != b for a, b in itertools.combinations(versions[1:-1], 2))
    assert taskdb.get_task("p", "t")["url"] == "v"


def test_a_file_that_was_replaced_at_once_has_another_version_and_is_read(file: Path) -> None:
    taskdb, new = opened(file), opened(file.with_name("new.db"))
    for database, url in ((taskdb, "old"), (new, "new")):
        database.insert("p", "t", {"url": url})
    before = taskdb.file_version()

    file.with_name("new.db").replace(file)

    assert taskdb.file_version() != before
    assert taskdb.get_task("p", "t")["url"] == "new"


def test_each_thread_has_versions_of_its_own(file: Path) -> None:
    taskdb = opened(file)
    taskdb.insert("p", "t", {"url": "u"})
    before = taskdb.file_version()

    with ThreadPoolExecutor(1) as thread:
        thread.submit(taskdb.update, "p", "t", {"url": "v"}).result()

    assert taskdb.file_version() != before
