"""What a process has used so far, as Linux tells it."""

import os
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Usage:
    """What processes used since their start.

    Attributes:
        cpu: seconds of processor time, all threads, user and system.
        peak: bytes of memory at the most.
        resident: bytes of memory now.
    """

    cpu: float
    peak: int
    resident: int


def usage_of(pids: list[int]) -> Usage:
    """Return what processes used together; memory is that of the largest."""
    each = [_usage(pid) for pid in pids]
    return Usage(
        sum(one.cpu for one in each),
        max(one.peak for one in each),
        max(one.resident for one in each),
    )


def _usage(pid: int) -> Usage:
    folder = Path(f"/proc/{pid}")
    ticks = parse_ticks((folder / "stat").read_text(encoding="utf-8", errors="replace"))
    status = (folder / "status").read_text(encoding="utf-8", errors="replace")
    peak, resident = (parse_memory(status, name) for name in ("VmHWM", "VmRSS"))
    return Usage(ticks / _TICKS, peak, resident)


def parse_ticks(text: str) -> int:
    """Return the ticks of processor time in ``/proc/PID/stat``.

    The program's name stands in parentheses and may hold blanks and parentheses itself.
    """
    fields = text.rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def parse_memory(text: str, name: str) -> int:
    """Return the bytes of memory that ``/proc/PID/status`` gives under a name."""
    for line in text.splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise ValueError(f"no {name}: the process has ended")
