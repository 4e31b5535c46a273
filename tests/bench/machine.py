"""The machine and the versions of what runs on it."""

import os
import platform
import sqlite3
import subprocess
import sys
import time
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
