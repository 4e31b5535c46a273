"""`deploy/roll`: old schedulers end when new ones have joined, and not before."""

import os
import subprocess
from pathlib import Path

import pytest

ROLL = Path(__file__).resolve().parents[2] / "deploy" / "roll"
DOCKER = """\
#!/bin/sh
# Stands for docker and its compose: containers are lines in the file `running`, with their health.
case "$1" in
    ps) cut -d " " -f 1 running ;;
    up) cat new >> running ;;
    inspect) grep "^$4 " running | cut -d " " -f 2 ;;
    logs) echo "the log of $4" >&2 ;;
    stop) sed -i "/^$2 /d" running ;;
esac
"""


@pytest.fixture
def engine(tmp_path: Path) -> Path:
    """Give the folder of an engine, whose compose starts what the file `new` says."""
    (tmp_path / "docker").write_text(DOCKER)
    (tmp_path / "docker").chmod(0o755)
    return tmp_path


def rolled(engine: Path, running: str, new: str) -> tuple[int, str, str]:
    """Return the exit code, what was told, and what runs afterwards."""
    (engine / "running").write_text(running)
    (engine / "new").write_text(new)
    environ = {"PATH": f"{engine}:{os.environ['PATH']}", "PATIENCE": "0"}
    done = subprocess.run(
        [ROLL, "docker"], cwd=engine, env=environ, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stderr, (engine / "running").read_text()


@pytest.mark.parametrize("health", ["healthy", "unhealthy"])
def test_new_schedulers_take_the_place_of_old_ones_however_these_are(
    engine: Path, health: str
) -> None:
    assert rolled(engine, f"a {health}\nb healthy\n", "c healthy\nd healthy\n") == (
        0,
        "",
        "c healthy\nd healthy\n",
    )


def test_if_a_new_one_does_not_join_the_old_ones_stay_alone(engine: Path) -> None:
    code, told, running = rolled(engine, "a healthy\n", "b starting\nc healthy\n")
    assert code == 1
    assert "b has not joined" in told
    assert "the log of b" in told
    assert running == "a healthy\n"


def test_where_none_runs_there_is_none_to_replace(engine: Path) -> None:
    code, told, running = rolled(engine, "", "a healthy\n")
    assert (code, running) == (1, "")
    assert "no scheduler runs" in told
