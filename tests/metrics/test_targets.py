"""The files by which Prometheus finds free ports."""

import json
import subprocess
import sys
from pathlib import Path

from pyspider_zk.metrics.targets import announce


def dead() -> int:
    """Return the id of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_a_process_is_announced_with_its_component(tmp_path: Path) -> None:
    file = announce(tmp_path / "metrics", "fetcher", "127.0.0.1", 4711)
    assert json.loads(file.read_text()) == [
        {"targets": ["127.0.0.1:4711"], "labels": {"component": "fetcher"}}
    ]
    assert list((tmp_path / "metrics").iterdir()) == [file]


def test_an_address_of_ipv6_is_in_brackets(tmp_path: Path) -> None:
    file = announce(tmp_path, "webui", "::1", 9)
    assert json.loads(file.read_text())[0]["targets"] == ["[::1]:9"]


def test_files_of_killed_processes_are_removed_by_the_next(tmp_path: Path) -> None:
    killed = announce(tmp_path, "scheduler", "127.0.0.1", 1, dead())
    other = tmp_path / "notes.json"
    other.write_text("[]")
    alive = announce(tmp_path, "scheduler", "127.0.0.1", 2)
    again = announce(tmp_path, "processor", "127.0.0.1", 3)
    assert not killed.exists()
    assert {alive, again, other} == set(tmp_path.iterdir())
