"""Which faults happen when: a pure function of the seed.

A fault names what happens and for how long, not to whom: which scheduler leads, which seats are
taken and who is hit already is known only when it happens. ``choice`` settles it then, so that a
replayed seed makes the same kinds of faults at the same times.
"""

import random
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

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
    LEADER_KILL = "leader_kill_in_rebalance"
    PAIR = "two_at_once"


WEIGHTS = {
    Kind.KILL: 6,
    Kind.STOP: 5,
    Kind.DRAIN: 4,
    Kind.JOIN: 3,
    Kind.DROP: 3,
    Kind.DROP_IN: 2,
    Kind.DROP_OUT: 2,
    Kind.DROP_BUSY: 2,
    Kind.ZK_KILL: 3,
    Kind.ZK_LEADER_KILL: 3,
    Kind.ZK_THROTTLED: 3,
    Kind.ZK_QUOTA: 3,
    Kind.ZK_STRAYS: 3,
    Kind.REDIS_RESTART: 2,
    Kind.CLOCK_JUMP: 6,
    Kind.LEADER_KILL: 3,
    Kind.PAIR: 12,
}

# Seconds that a fault lasts. The lease is 4 s: a stop and a drop are longer, or nothing happens.
_LASTS = {
    Kind.KILL: (0.5, 2.5),
    Kind.STOP: (4.8, 7.0),
    Kind.DROP: (4.8, 7.0),
    Kind.DROP_IN: (4.8, 7.0),
    Kind.DROP_OUT: (4.8, 7.0),
    Kind.DROP_BUSY: (4.8, 7.0),
    Kind.ZK_KILL: (1.0, 3.0),
    Kind.ZK_LEADER_KILL: (1.0, 3.0),
    Kind.ZK_THROTTLED: (4.8, 7.0),
    Kind.ZK_QUOTA: (1.0, 5.0),
    Kind.ZK_STRAYS: (1.0, 7.0),
    Kind.REDIS_RESTART: (0.3, 1.5),
    Kind.CLOCK_JUMP: (1.5, 5.0),
    Kind.LEADER_KILL: (0.5, 2.5),
}
_LONGEST = max(longest for _, longest in _LASTS.values())

# Seconds until the cluster stands the next fault of that kind.
_RECOVERY = {
    Kind.KILL: 3.0,
    Kind.STOP: 1.0,
    Kind.DRAIN: 3.0,
    Kind.DROP: 1.0,
    Kind.DROP_IN: 1.0,
    Kind.DROP_OUT: 1.0,
    Kind.DROP_BUSY: 1.0,
    Kind.ZK_KILL: 4.0,
    Kind.ZK_LEADER_KILL: 4.0,
    Kind.ZK_THROTTLED: 4.0,
    Kind.REDIS_RESTART: 4.0,
    Kind.LEADER_KILL: 4.0,
}
HITS_SCHEDULER = frozenset(
    {
        Kind.KILL,
        Kind.STOP,
        Kind.DRAIN,
        Kind.DROP,
        Kind.DROP_IN,
        Kind.DROP_OUT,
        Kind.DROP_BUSY,
        Kind.LEADER_KILL,
        Kind.ZK_THROTTLED,
    }
)
DROPS = frozenset({Kind.DROP, Kind.DROP_IN, Kind.DROP_OUT, Kind.DROP_BUSY})
_HITS = {
    Kind.ZK_KILL: "zookeeper",
    Kind.ZK_LEADER_KILL: "zookeeper",
    Kind.ZK_THROTTLED: "zookeeper",
    Kind.ZK_QUOTA: "znodes",
    Kind.ZK_STRAYS: "znodes",
    Kind.REDIS_RESTART: "redis",
}
"""What only one of these faults may hit at a time."""

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
        self._free_from = dict.fromkeys(_HITS.values(), 0.0)
        self._schedulers = LEAST

    def roll(self) -> Iterator[PlannedFault]:
        at = WARM_UP
        while at < self._seconds - 1:
            kinds = [kind for kind in self._kinds if self._may(kind, at)]
            if kinds:
                weights = [WEIGHTS[kind] for kind in kinds]
                fault = self._fault(self._random.choices(kinds, weights)[0], at)
                yield fault
                at += fault.lasts + self._calm if self._calm else 0.0
            at = round(at + self._random.uniform(0.3, 2 * MEAN_GAP - 0.3), 3)

    def _may(self, kind: Kind, at: float) -> bool:
        """Return whether the cluster can stand it now."""
        if at + _LASTS.get(kind, (0.0, 0.0))[0] > self._seconds:
            return False  # cut short it would not outlast the lease
        hit = sum(until > at for until in self._hit)
        if kind is Kind.JOIN:
            return self._schedulers < MOST
        if kind is Kind.PAIR:
            free = all(at >= since for since in self._free_from.values())
            return free and hit <= MOST_HIT - 2 and at + _LONGEST < self._seconds
        if kind in HITS_SCHEDULER and hit >= MOST_HIT:
            return False
        return at >= self._free_from.get(_HITS.get(kind, ""), 0.0)

    def _fault(self, kind: Kind, at: float) -> PlannedFault:
        if kind is Kind.PAIR:
            parts = tuple(self._fault(part, at) for part in self._random.sample(_PAIRED, 2))
            return PlannedFault(kind, at, max(part.lasts for part in parts), 0.0, parts=parts)
        lasts = round(self._random.uniform(*_LASTS.get(kind, (0.0, 0.0))), 3)
        lasts = min(lasts, round(self._seconds - at, 3))
        self._remember(kind, at + lasts + _RECOVERY.get(kind, 0.0))
        choice = round(self._random.random(), 4)
        return PlannedFault(kind, at, lasts, choice, self._shift(kind))

    def _shift(self, kind: Kind) -> float:
        if kind is Kind.CLOCK_JUMP:
            return self._random.choice(_JUMPS)
        return float(self._random.random() < 0.5) if kind is Kind.REDIS_RESTART else 0.0

    def _remember(self, kind: Kind, until: float) -> None:
        if kind in HITS_SCHEDULER:
            self._hit.append(until)
        if kind in _HITS:
            self._free_from[_HITS[kind]] = until
        if kind is Kind.JOIN:
            self._schedulers += 1
        if kind is Kind.DRAIN:  # one joins in its place, unless there is one to spare
            self._schedulers = max(LEAST, self._schedulers - 1)
