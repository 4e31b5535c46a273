"""Child processes, with real ones."""

import errno
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pyspider_zk.local.child import KEPT_LOGS, LARGEST_LOG, Child, cut, rotate, tail

SLEEP = (sys.executable, "-c", "import time; print('here', flush=True); time.sleep(60)")
DEAF = (
    sys.executable,
    "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
    " print('here', flush=True); time.sleep(60)",
)


@pytest.fixture
def run(tmp_path, eventually):
    children = []

    def start(command):
        child = Child("child", command, tmp_path / "child.log")
        child.start()
        children.append(child)
        eventually(lambda: "here" in tail(child.log))
        return child

    yield start
    for child in children:
        child.kill()


def test_a_child_that_is_told_to_end_ends(run):
    child = run(SLEEP)

    assert child.stop(patience=10)
    assert not child.running
    assert child.code == -signal.SIGTERM


def test_a_child_that_does_not_listen_is_killed(run):
    child = run(DEAF)

    assert not child.stop(patience=0.1)
    assert child.code == -signal.SIGKILL


def test_a_child_is_out_of_reach_of_our_terminal(run):
    child = run(SLEEP)

    assert os.getsid(child.pid) == child.pid != os.getsid(0)


def test_what_a_child_started_ends_with_it(run, tmp_path, eventually):
    child = run(("sh", "-c", f"sleep 60 & echo $! > {tmp_path}/pid; echo here; wait"))
    grandchild = int((tmp_path / "pid").read_text())

    child.kill()

    eventually(lambda: not is_alive(grandchild))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can do this")
def test_a_child_dies_with_a_parent_that_is_killed(tmp_path, eventually, faults):
    program = (
        "import time\n"
        "from pathlib import Path\n"
        "from pyspider_zk.local.child import Child\n"
        f"child = Child('child', {SLEEP!r}, Path({str(tmp_path / 'child.log')!r}))\n"
        "child.start()\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as parent:
        pid = int(parent.stdout.readline())
        eventually(lambda: "here" in tail(tmp_path / "child.log"))

        faults.kill(parent.pid)

    eventually(lambda: not is_alive(pid))


def test_a_program_gets_the_usual_signals_back(run, tmp_path):
    child = run(("sh", "-c", f"grep SigIgn /proc/self/status > {tmp_path}/ignored; echo here"))

    child.wait(60)
    ignored = int((tmp_path / "ignored").read_text().split()[1], 16)
    assert not ignored & (1 << (signal.SIGPIPE - 1))


def test_a_running_child_is_not_started_twice(run):
    child = run(SLEEP)

    with pytest.raises(RuntimeError):
        child.start()


def test_old_logs_move_on_and_the_oldest_goes(tmp_path):
    log = tmp_path / "x.log"
    for run_number in range(KEPT_LOGS + 3):
        rotate(log)
        log.write_text(str(run_number), encoding="ascii")

    kept = sorted(file.name for file in tmp_path.iterdir())
    assert kept == ["x.log", *(f"x.log.{number}" for number in range(1, KEPT_LOGS + 1))]
    assert (tmp_path / "x.log.1").read_text() == str(KEPT_LOGS + 1)


def test_a_log_that_grew_large_is_cut_while_its_writer_goes_on(run, tmp_path, eventually):
    go = tmp_path / "go"
    os.mkfifo(go)
    child = run(("sh", "-c", f"echo here; read line < {go}; echo more; sleep 60"))
    cut(child.log)
    assert tail(child.log) == "here"
    os.truncate(child.log, LARGEST_LOG + 1)

    cut(child.log)

    go.write_text("go\n")
    eventually(lambda: child.log.read_text() == "more\n")
    assert (tmp_path / "child.log.1").read_text().startswith("here\n")


def test_a_log_without_room_for_a_copy_is_cut_all_the_same(tmp_path, monkeypatch):
    log = tmp_path / "x.log"
    (tmp_path / "x.log.1").write_text("older")
    log.write_bytes(b"1")
    os.truncate(log, LARGEST_LOG + 1)

    def full(_: object, copy: Path) -> None:
        copy.write_text("a part")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(shutil, "copyfile", full)
    cut(log)
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == {
        "x.log": "",
        "x.log.1": "older",
    }


def test_a_log_that_is_gone_ends_nothing(tmp_path):
    cut(tmp_path / "x.log")


def test_the_end_of_a_large_log_is_read(tmp_path):
    log = tmp_path / "x.log"
    log.write_text("é" * LARGEST_LOG + "\nlast\n")

    assert tail(log, lines=1) == "last"
    assert len(tail(log)) < LARGEST_LOG


def is_alive(pid: int) -> bool:
    """Return whether a process runs; one that ended and was not yet reaped does not."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
