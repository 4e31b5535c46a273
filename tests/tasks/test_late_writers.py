"""A process that was suspended while it wrote leaves nothing once another has sealed its slot."""

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from pyspider_zk.tasks.seals import Seals, SealsUnreadable
from tests.patches.databases import OF_SERVERS
from tests.support.waiting import eventually
from tests.tasks.conftest import TaskBackend, each_of

OWN, NEXT = Seals("/c", {3: 1}), Seals("/c", {3: 2})

on_file = each_of(["sqlite"])
on_each = each_of(["sqlite", *OF_SERVERS[:2]])
on_servers = each_of(OF_SERVERS[:2])


@contextmanager
def suspended(backend: TaskBackend, moment: str) -> Iterator["subprocess.Popen[str]"]:
    """Give a process that owned slot 3 at epoch 1 and stopped itself; it ends with the block."""
    backend.ours.bulk.seal(OWN)
    backend.ours.write(backend.ours.new("p1", "first", {"status": 1}))
    command = [sys.executable, "-m", "tests.tasks.late_writer", backend.url, "1", moment]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            _, status = os.waitpid(process.pid, os.WUNTRACED)
            assert os.WIFSTOPPED(status)
            yield process
        finally:
            process.kill()


def go_on(process: "subprocess.Popen[str]") -> str:
    """Resume a process, and return what it says at its end."""
    process.send_signal(signal.SIGCONT)
    return process.communicate()[0].strip()


def is_sealed(backend: TaskBackend) -> bool:
    """Try to take the slot over; it cannot be sealed as long as a transaction is in flight."""
    try:
        return backend.ours.bulk.seal(NEXT) == {}
    except (SealsUnreadable, sqlite3.OperationalError) as error:
        locked = str(error)
    assert "lock" in locked.lower()
    return False


def test_who_was_suspended_before_its_transaction_writes_nothing(on_each: TaskBackend) -> None:
    with suspended(on_each, "before") as process:
        assert is_sealed(on_each)
        assert go_on(process) == "SealBroken"
    assert on_each.ours.taskdb.get_task("p1", "late") is None


def test_a_server_ends_a_transaction_whose_process_is_suspended(on_servers: TaskBackend) -> None:
    with suspended(on_servers, "inside") as process:
        assert eventually(lambda: is_sealed(on_servers))
        assert go_on(process) in ("InternalError", "OperationalError")
    assert on_servers.ours.taskdb.get_task("p1", "late") is None


def test_a_file_is_locked_until_who_was_suspended_goes_on(on_file: TaskBackend) -> None:
    on_file.ours.taskdb.patience = 0.05
    with suspended(on_file, "inside") as process:
        assert not is_sealed(on_file)
        assert go_on(process) == "written"
    assert is_sealed(on_file)
    assert on_file.ours.taskdb.get_task("p1", "late") is not None  # before the slot was sealed
