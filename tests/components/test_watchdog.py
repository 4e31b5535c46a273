"""A watchdog's workers, real processes: which of them has a successor, and how all of it ends.

And the mark that they have in common: what it tells of the task at hand, and of a lost one.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pyspider_zk.components.watchdog import ROOM, TaskMark
from tests.support.processes import ROOT

HELD = "hold=0.05"
"""Hold the process beyond its limit, whatever is raised."""


class WatchedWorkers:
    """A watchdog with workers whose lives were told beforehand."""

    def __init__(self, folder: Path, wait: Callable[..., None]) -> None:
        self._folder, self._wait = folder, wait
        self.process: subprocess.Popen[str] | None = None

    def start(self, *lives: str) -> subprocess.Popen[str]:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.watched", *lives],
            cwd=self._folder,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        return self.process

    def worker(self, number: int = 1) -> int:
        """Wait for a worker, and return its process id."""
        lives = self._folder / "lives"
        self._wait(lambda: lives.exists() and len(self.workers()) >= number, f"worker {number}")
        return self.workers()[number - 1]

    def workers(self) -> list[int]:
        return [int(line) for line in (self._folder / "lives").read_text().splitlines()]

    def end(self) -> tuple[int, str]:
        """Wait for the end; return the exit code, and what was said."""
        assert self.process is not None
        said, _ = self.process.communicate(timeout=60)
        return self.process.returncode, said


@pytest.fixture
def watched(tmp_path: Path, eventually: Callable[..., None]) -> Iterator[WatchedWorkers]:
    made = WatchedWorkers(tmp_path, eventually)
    yield made
    if made.process is not None:
        made.process.kill()
        made.process.communicate()


@pytest.mark.parametrize("code", [0, 2, 3])
def test_who_ends_without_a_task_is_done(watched: WatchedWorkers, code: int) -> None:
    watched.start(f"exit={code}")

    assert watched.end() == (code, "")
    assert len(watched.workers()) == 1


def test_who_exceeds_its_limit_is_ended_and_its_successor_knows(watched: WatchedWorkers) -> None:
    watched.start(HELD, "report")

    code, said = watched.end()

    assert code == 0
    assert '{"taskid": "t", "project": "p", "url": "http://site.example/"' in said
    assert "it exceeded the time limit of 0.05 s" in said
    assert said.endswith("False\n")


def test_a_task_without_a_limit_takes_as_long_as_it_likes(watched: WatchedWorkers) -> None:
    watched.start("hold=0", "report")
    os.kill(watched.worker(), signal.SIGKILL)

    assert "by SIGKILL, as the kernel does where memory is short" in watched.end()[1]


def test_who_dies_in_the_middle_of_a_task_is_followed_at_once(watched: WatchedWorkers) -> None:
    watched.start(*["abort=0"] * 8, "report")

    code, said = watched.end()

    assert code == 0
    assert "in the middle of it by SIGABRT" in said
    assert len(watched.workers()) == 9


def test_who_cannot_report_what_was_lost_is_followed_until_one_can(watched: WatchedWorkers) -> None:
    watched.start("abort=0", "exit=3", "report")

    assert "SIGABRT" in watched.end()[1]


def test_who_was_killed_without_a_task_is_followed_after_a_pause(watched: WatchedWorkers) -> None:
    watched.start("idle", "report")
    os.kill(watched.worker(), signal.SIGKILL)

    code, said = watched.end()

    assert code == 0
    assert said.endswith("the worker ended (SIGKILL) and is started again in 1 s\nnull False\n")


def test_sigterm_is_passed_on(watched: WatchedWorkers) -> None:
    watchdog = watched.start("idle")
    watched.worker()
    watchdog.send_signal(signal.SIGTERM)

    assert watched.end() == (0, "")


def test_who_is_killed_while_it_ends_has_no_successor(watched: WatchedWorkers) -> None:
    watchdog = watched.start("idle")
    os.kill(watched.worker(), signal.SIGSTOP)
    watchdog.send_signal(signal.SIGTERM)
    os.kill(watched.worker(), signal.SIGKILL)

    assert watched.end()[0] in (-signal.SIGKILL, -signal.SIGTERM)  # whichever is seen first


def test_sigterm_ends_a_pause(watched: WatchedWorkers, eventually: Callable[..., None]) -> None:
    watchdog = watched.start("idle", "idle")
    pid = watched.worker()
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: not _exists(pid))
    watchdog.send_signal(signal.SIGTERM)

    assert watched.end()[0] in (-signal.SIGTERM, 0)  # it may have been over


def test_who_is_stuck_at_sigterm_is_ended_by_the_limit_and_reported(
    watched: WatchedWorkers,
) -> None:
    watchdog = watched.start("hold=5", "report")
    watched.worker()
    watchdog.send_signal(signal.SIGTERM)

    code, said = watched.end()

    assert code == 0
    assert "exceeded" in said
    assert said.endswith("True\n")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can do this")
def test_a_worker_goes_with_its_watchdog(
    watched: WatchedWorkers, eventually: Callable[..., None]
) -> None:
    watchdog = watched.start("hold=0")
    pid = watched.worker()
    watchdog.kill()

    eventually(lambda: not _exists(pid))


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


# -- mark ------------------------------------------------------------------------------------

TASK = {"taskid": "t", "project": "p", "url": "http://site.example/", "schedule": {"age": 1}}


@pytest.fixture
def mark() -> TaskMark:
    return TaskMark()


def test_a_task_is_at_hand_while_its_block_runs(mark: TaskMark) -> None:
    assert not mark.is_at_hand
    with mark.at_hand(TASK):
        with mark.at_hand({**TASK, "taskid": "a message to another project"}):
            pass
        assert mark.is_at_hand
    assert not mark.is_at_hand


def test_only_a_limit_makes_it_overdue(mark: TaskMark) -> None:
    with mark.at_hand(TASK):
        assert not mark.is_overdue
        mark.limit(1e-9)
        assert mark.is_overdue
        mark.limit(0)
        assert not mark.is_overdue
        mark.limit(1e-9)
    assert not mark.is_overdue
    with mark.at_hand(TASK):
        assert not mark.is_overdue


def test_what_another_process_had_at_hand_is_known_when_it_is_gone(mark: TaskMark) -> None:
    child = os.fork()
    if not child:
        with mark.at_hand({**TASK, "fetch": {"data": "x" * ROOM}}):
            os._exit(7)
    os.waitpid(child, 0)

    mark.lose(7, overdue=False)

    lost = mark.lost()
    assert lost is not None
    assert lost.task == TASK
    assert lost.reason == "its process ended in the middle of it, with code 7"
    assert mark.deaths() == {"overdue": 0, "died": 1}
    mark.reported()
    assert mark.lost() is None


def test_a_task_that_is_too_long_is_lost_without_a_name(mark: TaskMark) -> None:
    with mark.at_hand({**TASK, "url": "x" * ROOM}):
        mark.lose(-signal.SIGKILL, overdue=True)
        lost = mark.lost()
    assert lost is not None
    assert lost.task == {}
    assert "time limit" in lost.reason
    assert mark.deaths() == {"overdue": 1, "died": 0}
