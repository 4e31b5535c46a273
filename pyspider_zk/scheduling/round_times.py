"""Times of a scheduler's rounds."""

from contextlib import AbstractContextManager

from pyspider_zk.metrics.families import ROUNDS


class RoundTimes:
    """How long rounds take, and how many failed. Threads: the loop writes, any may read.

    Attributes:
        histogram: of all rounds, also of failed ones.
        failures: how many an unexpected error ended.
    """

    def __init__(self) -> None:
        self.histogram = ROUNDS.histogram()
        self.failures = 0
        self._whole = self.histogram.labels("whole")
        self._arrivals = self.histogram.labels("arrivals")

    def whole(self) -> AbstractContextManager[object]:
        """Time the block as a whole round."""
        return self._whole.time()

    def arrivals(self) -> AbstractContextManager[object]:
        """Time the block as a round for new messages alone."""
        return self._arrivals.time()
