"""How much is measured."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Size:
    """How long a run of the whole bench takes, in the end.

    Attributes:
        runs: of each contender, in turn; the median counts.
        seconds: that one of them is looked at.
        projects: with how many projects the cycles are measured.
        samples: of a latency.
        pending: how many pending tasks a scheduler finds at its start.
        moving: how many pending tasks there are when an owner ends.
        stopped: projects of which only some run, while nothing is to do.
        crowd: projects of the batches and pages.
        accepted: projects of a batch that is only accepted.
        endurance: seconds that one scheduler is kept at its full rate.
        databases: at most so many are used for what is not the full cycle.
    """

    runs: int = 5
    seconds: float = 3.0
    projects: tuple[int, ...] = (1, 10, 100)
    samples: int = 60
    pending: tuple[int, ...] = (1_000_000, 5_000_000)
    moving: int = 100_000
    stopped: int = 10_000
    crowd: int = 1000
    accepted: int = 10_000
    endurance: float = 3600.0
    databases: int = 10


FULL = Size()
QUICK = Size(
    runs=1,
    seconds=2.0,
    projects=(10,),
    samples=30,
    pending=(100_000,),
    moving=100_000,
    crowd=100,
    endurance=24.0,
    databases=1,
)

MAIN = 10
"""The number of projects that ratios are about."""
