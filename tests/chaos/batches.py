"""Projects that are started by jobs while faults happen: who asks, and what became of it."""

import itertools
import threading
import xmlrpc.client
from contextlib import suppress
from typing import Any, Self

from pyspider_zk.config import Settings
from pyspider_zk.core.records import Member
from pyspider_zk.errors import ClusterError
from pyspider_zk.hooks.router import call
from pyspider_zk.zookeeper.directory import Directory

SIZE = 4
"""Projects that are started in one go."""

GAP = 2
"""Seconds between two batches."""

PATIENCE = 0.3
"""Seconds until an ask that failed is repeated, at the next member."""

UNAVAILABLE = 503  # the fault of a member that cannot reach ZooKeeper

SCRIPT = """
from pyspider.libs.base_handler import BaseHandler

class Handler(BaseHandler):
    def on_start(self):
        pass
"""


def batches(seconds: int) -> dict[str, list[str]]:
    """Return the batches of a run of so many seconds, each with the projects that it starts."""
    return {
        f"chaos-{batch}": [f"started{batch * SIZE + place}" for place in range(SIZE)]
        for batch in range(seconds // GAP)
    }


class Starter:
    """Asks for one batch after the other, each until a member has accepted it.

    An ask whose answer was lost is repeated with the same id, at another member.

    Threads: one of its own asks; ``look`` is for after ``stop``.
    """

    def __init__(self, settings: Settings, wanted: dict[str, list[str]]) -> None:
        self._directory = Directory(settings)
        self._wanted = wanted
        self._accepted: dict[str, list[str]] = {}
        self._known: list[Member] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._ask_for_all, name="starter")

    def __enter__(self) -> Self:
        self._directory.start()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._directory.stop()

    def stop(self) -> None:
        """Ask for nothing more; the batch at hand is accepted by then."""
        self._stopping.set()
        self._thread.join()

    def look(self) -> dict[str, dict[str, Any]]:
        """Return what was accepted, as it stands."""
        found = {}
        for batch, projects in self._accepted.items():
            now = self._call("get_batch", batch)
            found[batch] = {"projects": projects, "state": now["state"], "errors": now["errors"]}
        return found

    def _ask_for_all(self) -> None:
        for batch, projects in self._wanted.items():
            if self._stopping.is_set():
                return
            self._call("submit_operation", "start", {"names": projects}, {}, "chaos", batch)
            self._accepted[batch] = projects
            self._stopping.wait(GAP)

    def _call(self, method: str, *args: Any) -> Any:
        """Ask one member after the other until one answers."""
        pause = threading.Event()
        for turn in itertools.count():
            with suppress(ClusterError):  # ZooKeeper is away: those known have to serve
                self._known = list(self._directory.members().values()) or self._known
            try:
                return call(self._known[turn % len(self._known)], method, *args)
            except OSError:
                pause.wait(PATIENCE)
            except xmlrpc.client.Fault as fault:
                if fault.faultCode != UNAVAILABLE:
                    raise
                pause.wait(PATIENCE)
        return None
