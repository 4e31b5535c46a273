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


class ScrapeTarget:
    """File of one process's address, in the format of Prometheus' file discovery.

    Its name has the process id, by which the next process notices that this one was killed.

    Threads: one.
    """

    def __init__(self, folder: Path, component: str, pid: int | None = None) -> None:
        self._folder = folder
        self._component = component
        self._pid = os.getpid() if pid is None else pid
        self._file: Path | None = None

    def announce(self, host: str, port: int) -> Path:
        """Write the file, and remove those of dead processes; return its path.

        Raises:
            OSError: it cannot be written.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        self._remove_dead()
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        groups = [{"targets": [address], "labels": {"component": self._component}}]
        file = self._folder / f"{self._component}-{port}-{self._pid}{SUFFIX}"
        draft = file.with_suffix(".new")
        draft.write_text(json.dumps(groups) + "\n", encoding="utf-8")
        draft.replace(file)
        self._file = file
        return file

    def withdraw(self) -> None:
        """Remove the file, if it was written."""
        if self._file is not None:
            self._file.unlink(missing_ok=True)

    def _remove_dead(self) -> None:
        for file in self._folder.glob(f"*{SUFFIX}"):
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
