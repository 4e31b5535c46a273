"""Commands as processes, and what everybody can read of them."""

import os
import subprocess
from pathlib import Path

from tests.support.running_cluster import PROGRAM, ROOT


def run(folder: Path, *arguments: str) -> tuple[int, str]:
    """Run a command to its end; return its exit code and all that it said."""
    done = subprocess.run(
        [*PROGRAM, *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=100,
    )
    return done.returncode, done.stdout


def command_lines() -> list[str]:
    """Return the command lines of every process that runs, as any user can read them."""
    lines = []
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(process.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return lines
