"""The supervisor, with real processes and a clock of our own."""

import errno
import signal
import sys

import pytest

from pyspider_zk.local.child import Child
from pyspider_zk.local.plan import Command
from pyspider_zk.local.supervisor import PAUSES, STEADY, CrashLoop, Supervisor
from pyspider_zk.pauses import pause_after

SLEEP = (sys.executable, "-c", "import time; time.sleep(60)")
DEAF = (
    sys.executable,
    "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
    " print('here', flush=True); time.sleep(60)",
)


def command(name, line=SLEEP):
    return Command(name, line)


@pytest.fixture
def said():
    return []


@pytest.fixture
def supervisor(tmp_path, said):
    supervisor = Supervisor(tmp_path, patience=5.0, report=said.append)
    yield supervisor
    supervisor.end_all(5.0, hurried=lambda: True)


def test_wanted_commands_run_and_others_end(supervisor, eventually):
    supervisor.want([command("a"), command("b")], now=0)
    supervisor.tick(now=0)
    assert supervisor.pid("a")
    assert supervisor.pid("b")

    supervisor.want([command("b")], now=1)

    eventually(lambda: supervisor.pid("a") is None)
    supervisor.tick(now=1)
    assert supervisor.names == {"b"}


def test_a_child_that_dies_is_started_again_after_a_pause(supervisor, said, faults, eventually):
    supervisor.want([command("a")], now=0)
    supervisor.tick(now=0)

    die(supervisor, "a", now=10, faults=faults, eventually=eventually)

    supervisor.tick(now=10 + PAUSES[0] - 0.1)
    assert supervisor.pid("a") is None
    supervisor.tick(now=10 + PAUSES[0])
    assert supervisor.pid("a")
    assert len(said) == 1
    assert "signal 9" in said[0]


def test_the_pause_grows_up_to_a_limit_and_only_the_first_death_is_told(
    supervisor, said, faults, eventually
):
    supervisor.want([command("a")], now=0)
    supervisor.tick(now=0)

    now = 0
    for deaths in range(8):
        die(supervisor, "a", now, faults, eventually)
        pause = pause_after(deaths + 1, PAUSES)
        supervisor.tick(now + pause - 0.1)
        assert supervisor.pid("a") is None
        now += pause
        supervisor.tick(now)
        assert supervisor.pid("a")

    assert len(said) == 1


def test_a_long_life_forgives_earlier_deaths(supervisor, said, faults, eventually):
    supervisor.want([command("a")], now=0)
    supervisor.tick(now=0)
    die(supervisor, "a", 0, faults, eventually)
    supervisor.tick(PAUSES[0])

    now = PAUSES[0] + STEADY + 1
    die(supervisor, "a", now, faults, eventually)

    supervisor.tick(now + PAUSES[0])
    assert supervisor.pid("a")
    assert len(said) == 2


def test_a_child_that_cannot_be_started_is_tried_again_after_growing_pauses(
    supervisor, said, monkeypatch
):
    with monkeypatch.context() as busy:
        busy.setattr(Child, "start", refused)
        supervisor.want([command("a")], now=0)
        supervisor.tick(now=0)
        supervisor.tick(now=PAUSES[0])
        assert supervisor.pid("a") is None

    supervisor.tick(now=PAUSES[0] + PAUSES[1] - 0.1)
    assert supervisor.pid("a") is None
    supervisor.tick(now=PAUSES[0] + PAUSES[1])
    assert supervisor.pid("a")
    assert len(said) == 1
    assert said[0].startswith("a cannot be started now (BlockingIOError: ")


def test_a_child_that_died_and_cannot_be_started_is_told_of_both_times(
    supervisor, said, faults, eventually, monkeypatch
):
    supervisor.want([command("a"), command("b")], now=0)
    supervisor.tick(now=0)
    die(supervisor, "a", 0, faults, eventually)

    with monkeypatch.context() as busy:
        busy.setattr(Child, "start", refused)
        supervisor.tick(now=PAUSES[0])
    assert supervisor.pid("b")
    supervisor.tick(now=2 * PAUSES[0])

    assert supervisor.pid("a")
    assert ["cannot be started now" in each for each in said] == [False, True]


def test_a_child_is_told_of_when_it_dies_after_it_could_not_be_started(
    supervisor, said, faults, eventually, monkeypatch
):
    with monkeypatch.context() as busy:
        busy.setattr(Child, "start", refused)
        supervisor.want([command("a")], now=0)
        supervisor.tick(now=0)
    supervisor.tick(now=PAUSES[0])

    die(supervisor, "a", PAUSES[0], faults, eventually)

    assert ["cannot be started now" in each for each in said] == [True, False]


def test_a_child_that_could_not_be_started_may_be_unwanted(supervisor, monkeypatch):
    monkeypatch.setattr(Child, "start", refused)
    supervisor.want([command("a")], now=0)
    supervisor.tick(now=0)

    supervisor.want([], now=1)
    supervisor.tick(now=PAUSES[0])

    assert supervisor.names == frozenset()


@pytest.mark.parametrize("number", [0, signal.SIGTERM, signal.SIGINT])
def test_an_end_that_was_asked_for_is_not_unexpected(supervisor, said, number, eventually):
    asked = f"os.kill(os.getpid(), {int(number)})" if number else ""
    line = (
        sys.executable,
        "-S",
        "-c",
        f"import os, signal; signal.signal(2, signal.SIG_DFL); {asked}",
    )
    supervisor.want([command("a", line)], now=0)
    supervisor.tick(now=0)
    eventually(lambda: supervisor.pid("a") is None)

    supervisor.tick(now=1)

    assert said == ["a ended as it was told to, and is started again"]
    supervisor.tick(now=1 + PAUSES[0])
    assert supervisor.names == {"a"}


def test_an_error_that_a_restart_cannot_mend_ends_it(supervisor, eventually):
    wrong = (sys.executable, "-c", "import sys; print('no such setting'); sys.exit(2)")
    supervisor.want([command("a", wrong)], now=0)
    supervisor.tick(now=0)
    eventually(lambda: supervisor.pid("a") is None)

    with pytest.raises(CrashLoop, match="no such setting"):
        supervisor.tick(now=1)


def test_a_child_that_is_wanted_again_while_it_ends_is_started_anew(supervisor, said, eventually):
    supervisor.want([command("a")], now=0)
    supervisor.tick(now=0)
    first = supervisor.pid("a")
    supervisor.want([], now=1)
    supervisor.want([command("a")], now=1)

    eventually(lambda: supervisor.pid("a") is None)
    supervisor.tick(now=2)
    supervisor.tick(now=2)

    assert supervisor.pid("a") not in (None, first)
    assert said == []


def test_a_child_that_does_not_end_is_killed_when_the_patience_ends(
    supervisor, said, tmp_path, eventually
):
    supervisor.want([command("a", DEAF)], now=0)
    supervisor.tick(now=0)
    eventually(lambda: "here" in (tmp_path / "a.log").read_text())
    supervisor.want([], now=1)

    supervisor.tick(now=5.9)
    assert supervisor.pid("a")
    supervisor.tick(now=6)

    assert supervisor.pid("a") is None
    assert said == ["a did not end in time and is killed"]


def test_ending_in_a_hurry_kills_at_once(supervisor, tmp_path, eventually):
    supervisor.want([command("a", DEAF), command("b")], now=0)
    supervisor.tick(now=0)
    eventually(lambda: "here" in (tmp_path / "a.log").read_text())

    supervisor.end_all(patience=1000, hurried=lambda: True)

    assert supervisor.names == frozenset()


def refused(_child):
    raise BlockingIOError(errno.EAGAIN, "no process is left")


def die(supervisor, name, now, faults, eventually):
    faults.kill(supervisor.pid(name))
    eventually(lambda: supervisor.pid(name) is None)
    supervisor.tick(now)
