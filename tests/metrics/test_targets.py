"""The files by which Prometheus finds free ports."""

import json
import subprocess
import sys
from pathlib import Path

from pyspider_zk.metrics.targets import ScrapeTarget


def dead() -> int:
    """Return the id of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_a_process_is_found_until_it_withdraws(tmp_path: Path) -> None:
    target = ScrapeTarget(tmp_path / "metrics", "fetcher")
    file = target.announce("127.0.0.1", 4711)
    assert json.loads(file.read_text()) == [
        {"targets": ["127.0.0.1:4711"], "labels": {"component": "fetcher"}}
    ]
    assert list((tmp_path / "metrics").iterdir()) == [file]
    target.withdraw()
    assert list((tmp_path / "metrics").iterdir()) == []


def test_an_address_of_ipv6_is_in_brackets(tmp_path: Path) -> None:
    file = ScrapeTarget(tmp_path, "webui").announce("::1", 9)
    assert json.loads(file.read_text())[0]["targets"] == ["[::1]:9"]


def test_files_of_killed_processes_are_removed_by_the_next(tmp_path: Path) -> None:
    killed = ScrapeTarget(tmp_path, "scheduler", dead()).announce("127.0.0.1", 1)
    other = tmp_path / "notes.json"
    other.write_text("[]")
    alive = ScrapeTarget(tmp_path, "scheduler").announce("127.0.0.1", 2)
    again = ScrapeTarget(tmp_path, "processor").announce("127.0.0.1", 3)
    assert not killed.exists()
    assert {alive, again, other} == set(tmp_path.iterdir())


def test_what_was_not_announced_is_not_withdrawn(tmp_path: Path) -> None:
    ScrapeTarget(tmp_path / "none", "webui").withdraw()
    assert list(tmp_path.iterdir()) == []
