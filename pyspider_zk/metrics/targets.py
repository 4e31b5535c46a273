"""Targets: files by which Prometheus finds the free ports of a machine's processes."""

import json
import os
from contextlib import suppress
from pathlib import Path

SUFFIX = ".json"

TARGETS = "metrics"
"""The folder of these files, in that of pyspider's data."""


def on_free_port(address: str) -> str:
    """Return an address with port 0, for processes that share a machine; none stays none."""
    return f"{address.rpartition(':')[0]}:0" if address else ""


def announce(folder: Path, component: str, host: str, port: int, pid: int | None = None) -> Path:
    """Write the file of one process's address, and remove those of dead processes; return its path.

    It is in the format of Prometheus' file discovery. Its name has the process id, by which the
    next process notices that this one was killed.

    Raises:
        OSError: it cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    _remove_dead(folder)
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    groups = [{"targets": [address], "labels": {"component": component}}]
    file = folder / f"{component}-{port}-{os.getpid() if pid is None else pid}{SUFFIX}"
    draft = file.with_suffix(".new")
    draft.write_text(json.dumps(groups) + "\n", encoding="utf-8")
    draft.replace(file)
    return file


def _remove_dead(folder: Path) -> None:
    for file in folder.glob(f"*{SUFFIX}"):
        pid = file.stem.rpartition("-")[2]
        if pid.isdecimal() and not _runs(int(pid)):
            file.unlink(missing_ok=True)


def _runs(pid: int) -> bool:
    with suppress(PermissionError):  # another user's runs as well
        try:
            os.kill(pid, 0)
        except (ProcessLookupError, OverflowError):
            return False
    return True
