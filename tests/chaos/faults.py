"""Which faults happen when: a pure function of the seed.

A fault names what happens and for how long, not to whom: which scheduler leads, which seats are
taken and who is hit already is known only when it happens. ``choice`` settles it then, so that a
replayed seed makes the same kinds of faults at the same times.
"""

import random
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, NamedTuple

WARM_UP = 2.0
"""Seconds of undisturbed crawl at the beginning."""

MEAN_GAP = 1.45
"""Seconds between two faults: 30 runs of a minute make more than 1,000 of them."""

MOST_HIT = 3
"""So many schedulers at once at most, of four or five: somebody must be left to take over."""

LEAST, MOST = 4, 5
"""How many schedulers run, apart from those that are hit."""


class Kind(StrEnum):
    """What can happen; the values stand in the last line."""

    KILL = "kill"
    STOP = "stop"
    DRAIN = "drain"
    JOIN = "join"
    DROP = "drop_both"
    DROP_IN = "drop_in"
    DROP_OUT = "drop_out"
    DROP_BUSY = "drop_under_traffic"
    ZK_KILL = "zk_member_kill"
    ZK_LEADER_KILL = "zk_leader_kill"
    ZK_THROTTLED = "zk_throttled"
    ZK_QUOTA = "zk_quota"
    ZK_STRAYS = "zk_strays"
    REDIS_RESTART = "redis_restart"
    CLOCK_JUMP = "clock_jump"
    WORKER_KILL = "worker_kill"
    LEADER_KILL = "leader_kill_in_rebalance"
    PAIR = "two_at_once"


class Traits(NamedTuple):
    """What a kind of fault does to a schedule.

    Attributes:
        weight: how often it comes, beside the others.
        lasts: seconds, at least and at most. The lease is 4 s: what is to cost it is longer.
        recovery: seconds until the cluster stands the next fault of that kind.
        hits: ``scheduler``, or what only one of these faults may hit at a time.
    """

    weight: int
    lasts: tuple[float, float] = (0.0, 0.0)
    recovery: float = 0.0
    hits: str = ""


_LONG = (4.8, 7.0)
FAULTS = {
    Kind.KILL: Traits(6, (0.5, 2.5), 3.0, "scheduler"),
    Kind.STOP: Traits(5, _LONG, 1.0, "scheduler"),
    Kind.DRAIN: Traits(4, recovery=3.0, hits="scheduler"),
    Kind.JOIN: Traits(3),
    Kind.DROP: Traits(3, _LONG, 1.0, "scheduler"),
    Kind.DROP_IN: Traits(2, _LONG, 1.0, "scheduler"),
    Kind.DROP_OUT: Traits(2, _LONG, 1.0, "scheduler"),
    Kind.DROP_BUSY: Traits(2, _LONG, 1.0, "scheduler"),
    Kind.ZK_KILL: Traits(3, (1.0, 3.0), 4.0, "zookeeper"),
    Kind.ZK_LEADER_KILL: Traits(3, (1.0, 3.0), 4.0, "zookeeper"),
    Kind.ZK_THROTTLED: Traits(3, _LONG, 4.0, "zookeeper"),
    Kind.ZK_QUOTA: Traits(3, (1.0, 5.0), hits="znodes"),
    Kind.ZK_STRAYS: Traits(3, (1.0, 7.0), hits="znodes"),
    Kind.REDIS_RESTART: Traits(2, (0.3, 1.5), 4.0, "redis"),
    Kind.CLOCK_JUMP: Traits(6, (1.5, 5.0)),
    Kind.WORKER_KILL: Traits(8, (0.3, 2.0), 1.0, "workers"),
    Kind.LEADER_KILL: Traits(3, (0.5, 2.5), 4.0, "scheduler"),
    Kind.PAIR: Traits(12),
}
"""All that can happen to a cluster in namespaces; ``outages.py`` has what can be away from one."""

HITS_SCHEDULER = frozenset(
    {kind for kind, fault in FAULTS.items() if fault.hits == "scheduler"} | {Kind.ZK_THROTTLED}
)
DROPS = frozenset({Kind.DROP, Kind.DROP_IN, Kind.DROP_OUT, Kind.DROP_BUSY})

HITS_LEASE = DROPS | {Kind.KILL, Kind.STOP, Kind.LEADER_KILL}
"""What makes a member lose its slots without being asked."""

HITS_ALL = frozenset({Kind.ZK_KILL, Kind.ZK_LEADER_KILL, Kind.ZK_THROTTLED, Kind.REDIS_RESTART})
"""What may keep any member from renewing its lease, or from handing over."""

_LONGEST = max(fault.lasts[1] for fault in FAULTS.values())
_PAIRED = (Kind.KILL, Kind.STOP, Kind.DROP, Kind.DRAIN, Kind.ZK_LEADER_KILL, Kind.REDIS_RESTART)
_JUMPS = (-45.0, -10.0, -3.0, 3.0, 10.0, 45.0)


@dataclass(frozen=True)
class PlannedFault:
    """One fault of a schedule.

    Attributes:
        at: seconds after the crawl began.
        lasts: seconds until it is undone (a restart, SIGCONT, packets let through).
        choice: from 0 to 1; settles whom it hits among those that it can hit.
        shift: seconds that a clock jumps by; for a Redis, above 0: it is killed.
        parts: what happens at once, if it is a pair.
    """

    kind: Kind
    at: float
    lasts: float
    choice: float
    shift: float = 0.0
    parts: tuple["PlannedFault", ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return it as it is printed and saved."""
        return asdict(self)


def schedule(
    seed: int, seconds: float, kinds: Collection[Kind] = tuple(Kind), calm: float = 0.0
) -> list[PlannedFault]:
    """Return the faults of a run, in order; all of them are undone at its end.

    Args:
        kinds: what may happen; by default everything.
        calm: seconds without a fault after each; 0 lets them overlap.
    """
    return list(_Dice(seed, seconds, kinds, calm).roll())


class _Dice:
    """Rolls one schedule, keeping to what a cluster can stand at a time."""

    def __init__(self, seed: int, seconds: float, kinds: Collection[Kind], calm: float) -> None:
        self._kinds = kinds
        self._calm = calm
        self._random = random.Random(seed)  # noqa: S311 - to be repeated, not to be secret
        self._seconds = seconds
        self._hit: list[float] = []
        self._free_from = dict.fromkeys(("zookeeper", "znodes", "redis", "workers"), 0.0)
        self._schedulers = LEAST

    def roll(self) -> Iterator[PlannedFault]:
        at = WARM_UP
        while at < self._seconds - 1:
            kinds = [kind for kind in self._kinds if self._may(kind, at)]
            if kinds:
                weights = [FAULTS[kind].weight for kind in kinds]
                fault = self._fault(self._random.choices(kinds, weights)[0], at)
                yield fault
                at += fault.lasts + self._calm if self._calm else 0.0
            at = round(at + self._random.uniform(0.3, 2 * MEAN_GAP - 0.3), 3)

    def _may(self, kind: Kind, at: float) -> bool:
        """Return whether the cluster can stand it now."""
        if at + FAULTS[kind].lasts[0] > self._seconds:
            return False  # cut short it would not outlast the lease
        hit = sum(until > at for until in self._hit)
        if kind is Kind.JOIN:
            return self._schedulers < MOST
        if kind is Kind.PAIR:
            free = all(at >= since for since in self._free_from.values())
            return free and hit <= MOST_HIT - 2 and at + _LONGEST < self._seconds
        if kind in HITS_SCHEDULER and hit >= MOST_HIT:
            return False
        return at >= self._free_from.get(FAULTS[kind].hits, 0.0)

    def _fault(self, kind: Kind, at: float) -> PlannedFault:
        if kind is Kind.PAIR:
            parts = tuple(self._fault(part, at) for part in self._random.sample(_PAIRED, 2))
            return PlannedFault(kind, at, max(part.lasts for part in parts), 0.0, parts=parts)
        lasts = round(self._random.uniform(*FAULTS[kind].lasts), 3)
        lasts = min(lasts, round(self._seconds - at, 3))
        self._remember(kind, at + lasts + FAULTS[kind].recovery)
        choice = round(self._random.random(), 4)
        return PlannedFault(kind, at, lasts, choice, self._shift(kind))

    def _shift(self, kind: Kind) -> float:
        if kind is Kind.CLOCK_JUMP:
            return self._random.choice(_JUMPS)
        return float(self._random.random() < 0.5) if kind is Kind.REDIS_RESTART else 0.0

    def _remember(self, kind: Kind, until: float) -> None:
        if kind in HITS_SCHEDULER:
            self._hit.append(until)
        if FAULTS[kind].hits in self._free_from:
            self._free_from[FAULTS[kind].hits] = until
        if kind is Kind.JOIN:
            self._schedulers += 1
        if kind is Kind.DRAIN:  # one joins in its place, unless there is one to spare
            self._schedulers = max(LEAST, self._schedulers - 1)
