"""Rules of a barrier: who arrived, who passed, who is missing."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from pyspider_zk.groups.ids import MemberId
from pyspider_zk.zookeeper.codec import Record


@dataclass(frozen=True)
class BarrierState(Record):
    """The state that changes only when a round is complete; all who wait watch it.

    Attributes:
        parties: how many a round needs.
        round: counts the complete rounds.
        passed: the last round that each participant passed, of those that ran when it was
            written. After a lost reply a participant finds here whether its arrival counted.
    """

    parties: int
    round: int = 0
    passed: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class BarrierArrivals(Record):
    """The arrivals for the current round."""

    names: tuple[str, ...] = ()


def arrive(arrivals: BarrierArrivals, me: str, running: Collection[str]) -> BarrierArrivals:
    """Return the arrivals with mine, without those of the dead."""
    alive = {name for name in arrivals.names if name in running}
    return BarrierArrivals(tuple(sorted(alive | {me})))


def withdraw(arrivals: BarrierArrivals, me: str) -> BarrierArrivals:
    """Return the arrivals without mine."""
    return BarrierArrivals(tuple(name for name in arrivals.names if name != me))


def next_round(
    state: BarrierState, arrivals: BarrierArrivals, running: Collection[str]
) -> BarrierState | None:
    """Return the state after this round, None if somebody is missing."""
    if len(arrivals.names) < state.parties:
        return None
    still = {name: number for name, number in state.passed.items() if name in running}
    return BarrierState(
        state.parties, state.round + 1, still | dict.fromkeys(arrivals.names, state.round)
    )


def here(arrivals: BarrierArrivals, running: Collection[MemberId]) -> set[MemberId]:
    """Return those that have arrived and are alive."""
    return {member for member in running if str(member) in arrivals.names}


def missing(
    parties: int,
    present: Collection[MemberId],
    holders: Mapping[int, str],
    running: Collection[MemberId],
) -> tuple[str, ...]:
    """Return a phrase for each one that is not present, the dead included.

    Args:
        parties: how many there should be.
        holders: the name that each number was last given to, empty for none.
        running: those that run now.
    """
    absent = sorted(set(holders) - _numbers(present))
    phrases = [_phrase(number, holders[number], number in _numbers(running)) for number in absent]
    never = parties - len(present) - len(absent)
    return (*phrases, *([f"{never} that never joined"] if never > 0 else []))


def _numbers(members: Collection[MemberId]) -> set[int]:
    return {member.number for member in members}


def _phrase(number: int, name: str, is_running: bool) -> str:
    who = f"number {number} ({name})" if name else f"number {number}"
    return f"{who}, {'which runs' if is_running else 'which is gone'}"
