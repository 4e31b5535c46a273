"""Projects that are started by jobs while faults happen: who asks, and what became of it."""

import itertools
import threading
import time
import xmlrpc.client
from contextlib import suppress
from typing import Any, Self

from pyspider_zk.cluster.directory import Directory
from pyspider_zk.cluster.records import Member
from pyspider_zk.config import Settings
from pyspider_zk.errors import ClusterError
from pyspider_zk.rpc.client import Credentials, call

SIZE = 4
"""Projects that are started in one go."""

GAP = 2
"""Seconds between two batches."""

PATIENCE = 0.3
"""Seconds until an ask that failed is repeated, at the next member."""

LIMIT = 60.0
"""Seconds that an ask is repeated for: longer than a cluster needs that somebody is left of."""

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


class NobodyAnswersError(Exception):
    """No scheduler is left to ask, or ZooKeeper has been away from all for too long."""


class Starter:
    """Asks for one batch after the other, each until a member has accepted it.

    An ask whose answer was lost is repeated with the same id, at another member.

    Threads: one of its own asks; ``look`` is for after ``stop``.
    """

    def __init__(self, settings: Settings, wanted: dict[str, list[str]]) -> None:
        self._directory = Directory(settings)
        self._credentials = Credentials(settings.secret, "chaos")
        self._wanted = wanted
        self._asked: dict[str, list[str]] = {}
        self._known: list[Member] = []
        self._deserted = False
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
        """Ask for nothing more; the batch at hand is accepted by then, if anybody answers."""
        self._stopping.set()
        self._thread.join()

    def look(self) -> dict[str, dict[str, Any]]:
        """Return what was asked for, as it stands, also if nobody took it on or is left to tell."""
        return {batch: self._look_at(batch, mine) for batch, mine in self._asked.items()}

    def _look_at(self, batch: str, projects: list[str]) -> dict[str, Any]:
        try:
            now = self._call("get_batch", batch, limit=PATIENCE if self._deserted else LIMIT)
        except NobodyAnswersError as nobody:
            self._deserted = True
            return {"projects": projects, "state": str(nobody), "errors": {}}
        except xmlrpc.client.Fault as fault:  # it was never accepted
            return {"projects": projects, "state": fault.faultString, "errors": {}}
        self._deserted = False
        return {"projects": projects, "state": now["state"], "errors": now["errors"]}

    def _ask_for_all(self) -> None:
        for batch, projects in self._wanted.items():
            if self._stopping.is_set():
                return
            self._asked[batch] = projects  # wanted from now on, whether somebody answers or not
            with suppress(NobodyAnswersError):
                self._call("submit_operation", "start", {"names": projects}, {}, "chaos", batch)
            self._stopping.wait(GAP)

    def _call(self, method: str, *args: Any, limit: float = LIMIT) -> Any:
        """Ask one member after the other until one answers.

        Raises:
            NobodyAnswersError: none did within the limit.
        """
        pause = threading.Event()
        deadline = time.monotonic() + limit
        for turn in itertools.count():
            with suppress(ClusterError):  # ZooKeeper is away: those known have to serve
                self._known = list(self._directory.members().values()) or self._known
            if self._known:
                with suppress(_Unanswered):
                    member = self._known[turn % len(self._known)]
                    return _ask(member, self._credentials, method, *args)
            if time.monotonic() > deadline:
                break
            pause.wait(PATIENCE)
        raise NobodyAnswersError(f"nobody answered {method} for {limit:g} s")


class _Unanswered(Exception):
    """A member cannot be reached, or cannot answer now."""


def _ask(member: Member, credentials: Credentials, method: str, *args: Any) -> Any:
    try:
        return call(member, method, *args, credentials=credentials)
    except OSError as error:
        raise _Unanswered from error
    except xmlrpc.client.Fault as fault:
        if fault.faultCode != UNAVAILABLE:
            raise
        raise _Unanswered from fault
