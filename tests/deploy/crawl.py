"""A step's crawl, seen from the machine: what runs inside prints a line of JSON a second."""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from docker.models.containers import Container

from pyspider_zk.errors import ClusterError

PATIENCE = 180.0  # seconds until something has happened


@dataclass(frozen=True)
class CrawlLook:
    """What was seen at one moment.

    Attributes:
        at: seconds since the epoch.
        done: pages that have a result.
        members: the hosts of the schedulers that have joined.
        incarnations: of the schedulers, for one that is killed leaves its host's name for a while.
        components: the hosts of the other processes.
        settled: every slot has an owner, and every member owns some.
        versions: of all processes.
    """

    at: float
    done: int
    members: list[str]
    incarnations: list[str]
    components: list[str]
    settled: bool
    versions: list[str]


class StepCrawl:
    """The crawl of one step; for one thread.

    Args:
        operator: a container with the cluster's settings and secrets.
        step: its name, with which its projects' names begin.
        pages: how many each project has.
    """

    def __init__(self, operator: Container, step: str, pages: int) -> None:
        self._operator = operator
        self._step = step
        self._pages = pages
        self._looks: Iterator[CrawlLook] = iter(())
        self.project = f"{step}0"
        self._last: CrawlLook | None = None

    def begin(self) -> None:
        """Make the projects, start them, and begin to watch."""
        self._answer("begin")
        self._looks = self._watch()

    def until(self, seen: Callable[[CrawlLook], bool], what: str) -> float:
        """Let time pass until something is seen; return how many seconds it took.

        Raises:
            ClusterError: it takes too long, or the crawl ended before.
        """
        began = time.time()
        for look in self._looks:
            self._last = look
            if look.at > began and seen(look):  # those before are older than what is waited for
                return round(look.at - began, 1)
            if look.at > began + PATIENCE:
                raise ClusterError(f"{PATIENCE:g} s were not enough until {what}")
        raise ClusterError(f"the crawl ended before {what}")

    @property
    def last(self) -> CrawlLook:
        """What was seen last.

        Raises:
            ClusterError: nothing yet.
        """
        if self._last is None:
            raise ClusterError("nothing was seen yet")
        return self._last

    def finish(self) -> None:
        """Wait until it is complete, or nothing changes any more."""
        for look in self._looks:
            self._last = look

    def count(self) -> dict[str, int]:
        """Return what came of it."""
        counted: dict[str, int] = json.loads(self._answer("count"))
        return counted

    def kept(self) -> str:
        """Return what nobody may have changed since the crawl ended."""
        return self._answer("kept")

    def _watch(self) -> Iterator[CrawlLook]:
        _, output = self._operator.exec_run(self._command("watch"), stream=True, demux=True)
        rest = b""
        for stdout, stderr in output:
            if stderr:
                raise ClusterError(stderr.decode())
            *lines, rest = (rest + (stdout or b"")).split(b"\n")
            yield from (CrawlLook(**json.loads(line)) for line in lines)

    def _answer(self, what: str) -> str:
        code, output = self._operator.exec_run(self._command(what), demux=True)
        if code != 0:
            raise ClusterError(f"{what}: {(output[1] or b'').decode()}")
        return (output[0] or b"").decode()

    def _command(self, what: str) -> list[Any]:
        return ["python", "-m", "tests.deploy.inside.crawl", what, self._step, str(self._pages)]
