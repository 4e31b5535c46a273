"""The command as a process, for what needs signals or other processes."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROGRAM = (sys.executable, "-m", "pyspider_zk.cli.main")
STOCK_PROGRAM = (sys.executable, "-m", "pyspider.run")


def program(name: str) -> list[str]:
    """Return the command that runs a module of ``tests/support``, from ``ROOT``."""
    return [sys.executable, "-m", f"tests.support.{name}"]


@contextmanager
def process(
    *arguments: object, folder: Path, program: tuple[str, ...] = PROGRAM
) -> Iterator[subprocess.Popen[str]]:
    """Run a command; its stdout holds stderr, too. What is left at the end is killed."""
    child = subprocess.Popen(
        [*program, *map(str, arguments)],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        yield child
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        rest(child)


def rest(child: subprocess.Popen[str]) -> list[str]:
    """Return the remaining lines, once the process ended."""
    if child.stdout is None or child.stdout.closed:
        return []
    with child.stdout:
        return list(child.stdout)


def lines_until(child: subprocess.Popen[str], text: str) -> list[str]:
    """Return the lines up to the one that holds the text.

    Raises:
        AssertionError: the process ended without it.
    """
    assert child.stdout is not None
    lines = []
    for line in child.stdout:
        lines.append(line)
        if text in line:
            return lines
    raise AssertionError(f"{text!r} is not in:\n{''.join(lines)}")
