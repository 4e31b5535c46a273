"""Vital signs of a member: its renewals, and what it knows of the assignment."""

import time
from collections.abc import Callable

from pyspider_zk.metrics.families import RENEWALS


class VitalSigns:
    """Vital signs of one member. Threads: the coordinator's writes, any may read.

    Args:
        clock: in seconds.

    Attributes:
        renewals: how long renewals of the lease took that succeeded.
        failures: how many failed.
        epoch: of the assignment that the member knows.
        epoch_since: when it learned of that, on the clock.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.renewals = RENEWALS.histogram()
        self.failures = 0
        self.epoch = 0
        self.epoch_since = clock()

    @property
    def epoch_age(self) -> float:
        """Seconds since the assignment changed."""
        return self._clock() - self.epoch_since

    def watch(self, renew: Callable[[], bool]) -> None:
        """Renew the lease, and note how that went.

        Args:
            renew: returns whether the lease was renewed; what it raises is raised.
        """
        began, is_renewed = self._clock(), False
        try:
            is_renewed = renew()
        finally:
            if is_renewed:
                self.renewals.observe(self._clock() - began)
            else:
                self.failures += 1

    def learned(self, epoch: int | None) -> None:
        """Note the epoch of the assignment, if one was read."""
        if epoch is not None and epoch != self.epoch:
            self.epoch, self.epoch_since = epoch, self._clock()
