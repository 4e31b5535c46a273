"""Ballast: keeps a scheduler busy to a share of a processor with links that it knows already.

Nothing of it is sent to the fetchers, so the latter are not busier than before.
"""

import time

from tests.bench.contenders import BenchCrew
from tests.bench.feeds import FeedPage
from tests.bench.links import Links
from tests.bench.usage import usage_of

KNOWN = 20_000
"""Tasks that are done before. With few, the same would come several times in a round, and pyspider
takes new tasks in until it has a thousand different ones: it would do nothing else any more.
"""
TRIAL = 4000  # links by which their price is found
IDLE = 1.0  # seconds for which an idle scheduler is looked at
LOOK = 0.05  # seconds between two looks at the queues
BEHIND = 0.5  # seconds of ballast that may wait
LEAST = 10e-6  # seconds of processor time that a link takes at least, whatever was measured
PROJECT = "ballast"


class Ballast:
    """Links to pages of a project that are done. Threads: one.

    Args:
        links: those of which ``KNOWN`` are done.
    """

    def __init__(self, crew: BenchCrew, links: Links) -> None:
        self._crew = crew
        self._links = links
        self._rate = 0.0
        self._owed = 0.0
        self._at = 0.0

    def calibrate(self, share: float) -> None:
        """Find the rate that takes this share of a processor, with what an idle one takes."""
        begin = self._cpu()
        time.sleep(IDLE)  # a share is one of a time
        idle = (self._cpu() - begin) / IDLE
        before, at = self._cpu(), time.monotonic()
        self._put(TRIAL)
        self._await_rest()
        price = (self._cpu() - before - idle * (time.monotonic() - at)) / TRIAL
        self._rate = max(0.0, share - idle) / max(price, LEAST)
        self._at = time.monotonic()

    def step(self) -> None:
        """Publish what is due by now; nothing before it is calibrated.

        A scheduler that other work on the machine keeps from its share is not flooded.
        """
        now = time.monotonic()
        self._owed += self._rate * (now - self._at)
        self._at = now
        due, self._owed = int(self._owed), self._owed % 1
        if due and self._crew.feed.unapplied() < self._rate * BEHIND:
            self._put(due)

    def _await_rest(self) -> None:
        """Wait until all is applied, and what comes after the last message is done."""
        while self._crew.feed.unapplied():
            time.sleep(LOOK)  # Redis is asked
        time.sleep(IDLE)  # nobody tells of it

    def _cpu(self) -> float:
        return usage_of(self._crew.pids).cpu

    def _put(self, count: int) -> None:
        if count:
            self._crew.feed.answer([FeedPage([self._links.old(PROJECT)]) for _ in range(count)])
