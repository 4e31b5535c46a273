"""Memory of a process's descendants: what each takes at rest, and at its peak. Linux."""

import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.support.crawling_cluster import children

LOOK = 0.2  # seconds between two looks: what a process had that was ended is what was seen last
_MB = 1024  # kB


class PeakMemory:
    """Peaks of all that a process started, by their logs. Threads: one, and its own."""

    def __init__(self, parent: int) -> None:
        self._parent = parent
        self._rest: dict[str, int] = {}
        self._peaks: dict[str, int] = {}

    def grown(self) -> dict[str, int]:
        """Return the MB that each took at most beyond what it had at rest."""
        found = self._peaks.items()
        return {name: (peak - self._rest.get(name, 0)) // _MB for name, peak in found}

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Watch while the block runs; what they have at its beginning is their rest."""
        self._rest = self._read("VmRSS")
        self._peaks = {}
        for pid in descendants(self._parent):
            with suppress(OSError):  # it just ended
                Path(f"/proc/{pid}/clear_refs").write_text("5", encoding="ascii")
        ended = threading.Event()
        watch = threading.Thread(target=self._watch, args=(ended,))
        watch.start()
        try:
            yield
        finally:
            ended.set()
            watch.join()

    def _watch(self, ended: threading.Event) -> None:
        while True:
            for name, peak in self._read("VmHWM").items():
                self._peaks[name] = max(peak, self._peaks.get(name, 0))
            if ended.wait(LOOK):
                return

    def _read(self, what: str) -> dict[str, int]:
        """Return the largest figure of the processes of each name, in kB."""
        found: dict[str, int] = {}
        for pid in descendants(self._parent):
            with suppress(OSError):
                status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
                name = Path(os.readlink(f"/proc/{pid}/fd/1")).stem
                told = re.search(rf"{what}:\s+(\d+)", status)  # a zombie has none
                found[name] = max(int(told[1]) if told else 0, found.get(name, 0))
        return found


def descendants(parent: int) -> list[int]:
    """Return the processes that a process started, and those that they started."""
    found = children(parent)
    return found + [each for child in found for each in descendants(child)]
