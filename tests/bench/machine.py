"""The machine, the versions of what runs on it, and what a process has used, as Linux tells it."""

import os
import platform
import sqlite3
import subprocess
import sys
import time
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from pyspider_zk.local import programs

PACKAGES = ("pyspider", "redis", "msgpack", "kazoo")


def machine() -> dict[str, object]:
    """Return what figures depend on."""
    return {
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "processor": _processor(),
        "processors": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": platform.platform(),
        "python": _python(),
        "sqlite": sqlite3.sqlite_version,
        "redis_server": _redis(),
        "packages": {name: version(name) for name in PACKAGES},
        "commit": _commit(),
    }


def load() -> float:
    """Return how many processes wanted a processor over the last minute, ours among them."""
    return os.getloadavg()[0]


def _python() -> str:
    """Return the version and who built it: profile-guided builds are faster."""
    build = "the system's" if sys.base_prefix == "/usr" else "not the system's"
    return f"{platform.python_version()} ({build})"


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _redis() -> str:
    return _output(programs.redis_server(os.environ), "--version")


def _commit() -> str:
    return _output("git", "describe", "--always", "--dirty")


def _output(*command: str) -> str:
    try:
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return done.stdout.strip()


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
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
    peak, resident = (parse_memory(status, name) for name in ("VmHWM", "VmRSS"))
    return Usage(cpu_of(pid), peak, resident)


def cpu_of(pid: int) -> float:
    """Return the seconds of processor time that a process used; it may have ended."""
    ticks = parse_ticks(Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace"))
    return ticks / _TICKS


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
