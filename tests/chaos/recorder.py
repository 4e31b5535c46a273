"""The history of one process: JSON lines with boot-time stamps, written at once.

A line goes out in one unbuffered write, so what a killed process did stands in its file.
"""

import json
import os
import time
from pathlib import Path
from typing import Any, Self

PROCESSING_TIMEOUT = 60.0
"""Seconds after which a scheduler of a run sends again what nothing came back of.

The slowest page takes four of them on an idle machine, and 15 beside two other suites on two cores.
"""


def boottime() -> float:
    """Return the seconds since boot; the same clock in all processes, never set."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Recorder:
    """Adds events to a file. Threads: any.

    Attributes:
        name: whose events they are.
    """

    def __init__(self, path: Path) -> None:
        self.name = path.stem
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    @classmethod
    def from_environment(cls) -> Self:
        """Open the file that the harness named for this process."""
        return cls(Path(os.environ["CHAOS_HISTORY"]))

    def note(self, event: str, *, at: float | None = None, **fields: Any) -> None:
        """Write an event down; ``at``: when it began, if that is not now."""
        line = {"t": boottime() if at is None else at, "e": event, **fields}
        os.write(self._file, json.dumps(line, separators=(",", ":")).encode() + b"\n")


def read_lines(path: Path) -> list[Any]:
    """Return the events of a file; a last line that was cut off by a kill is left out."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith("\n")]
