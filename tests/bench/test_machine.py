"""What Linux and ZooKeeper tell, and that what stands for pyspider is the published one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench.machine import parse_memory, parse_ticks, usage_of
from tests.bench.scenarios.changes import parse_packets


def test_a_name_with_blanks_and_parentheses_moves_no_field() -> None:
    fields = " ".join(str(number) for number in range(4, 53))
    assert parse_ticks(f"7 (a) b (c) S {fields}") == 14 + 15


def test_memory_is_in_bytes() -> None:
    status = "Name:\tx\nVmHWM:\t  2048 kB\nVmRSS:\t 1 kB\n"
    assert parse_memory(status, "VmHWM") == 2048 * 1024
    assert parse_memory(status, "VmRSS") == 1024


def test_a_process_that_ended_has_no_memory() -> None:
    with pytest.raises(ValueError, match="ended"):
        parse_memory("Name:\tx\nState:\tZ (zombie)\n", "VmHWM")


def test_this_process_has_used_something() -> None:
    found = usage_of([os.getpid()])
    assert found.cpu > 0
    assert found.peak > 1024 * 1024


def test_packets_are_counted_both_ways() -> None:
    text = "zk_version\t3.8.0, built on\t2020\nzk_packets_received\t30\nzk_packets_sent\t12\nx"
    assert parse_packets(text) == 42


MODULE = """
import sys
from pyspider.database.sqlite.taskdb import TaskDB

path, *options = sys.argv[1:]
cursor = TaskDB(path).dbcur
(mode,), = cursor.execute("PRAGMA journal_mode")
(cache,), = cursor.execute("PRAGMA cache_size")
print(mode, cache, TaskDB.STATEMENTS, *options)
"""


def test_the_patches_that_make_it_faster_are_undone(tmp_path: Path) -> None:
    published = _told(tmp_path, "-m", "tests.bench.as_published", "asked")
    assert published == "delete -2000 128 --slow"
    assert _told(tmp_path, "-m", "asked") == "persist -16384 2000 --slow"


def _told(folder: Path, *command: str) -> str:
    """Return what a module tells of the pyspider that it is run with."""
    (folder / "asked.py").write_text(MODULE)
    root = Path(__file__).parents[2]
    ran = subprocess.run(
        [sys.executable, *command, str(folder / "task.db"), "--slow"],
        env={"PYTHONPATH": f"{root}:{folder}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()
