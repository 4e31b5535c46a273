"""Cluster-wide settings: what the whole cluster goes by, and may be changed while it runs."""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, NamedTuple, Self

from pyspider_zk.config import RENEWALS, Settings
from pyspider_zk.errors import BadMessage, BadRequest, BadValues, NotFound
from pyspider_zk.limits import LONGEST_LEASE, MOST_SLOTS, SHORTEST_LEASE, SHORTEST_RENEWAL
from pyspider_zk.zookeeper import codec
from pyspider_zk.zookeeper.codec import Record


class Maintenance(StrEnum):
    """Whether the assignment stands still while somebody works at the machines."""

    OFF = "off"
    ON = "on"
    """Nothing is evened out or pinned; slots whose owner drains, left or died still move."""
    HOLD = "hold"
    """No slot moves to another number, not even that of a dead member."""


class WeighBy(StrEnum):
    """What a slot weighs, where slots are evened out."""

    LOAD = "load"
    """Its active projects and its tasks per second."""
    PROJECTS = "projects"
    """Its active projects alone."""


MOST_NUMBER = 10**9 - 1  # of a member


@dataclass(frozen=True)
class ClusterSettings(Record):
    """The settings in ZooKeeper. Times are seconds.

    Attributes:
        lease: how long a renewal lasts, whatever a member's own setting says; None: that counts.
        renewal: how often a member renews, alike.
        restart_delay: for how long the slots of a member that got SIGTERM wait for its number to
            be back before they move; 0: they move at once.
        moves: how many slots may be moving at once; see ``Rules``.
        maintenance: whether the assignment stands still.
        evicted: numbers of the members that get no slots.
        pins: the number of the member that shall have a slot, by slot.
        weigh_by: what a slot weighs.
        weigh_every: how often the tasks per second are looked at; nothing is moved twice by them
            within this time.
        rebalance: the slots are evened out although maintenance is on; the leader takes that back
            as soon as nothing moves any more, whatever became of who asked for it.
    """

    lease: float | None = None
    renewal: float | None = None
    restart_delay: float = 0.0
    moves: int = 64
    maintenance: Maintenance = Maintenance.OFF
    evicted: tuple[int, ...] = ()
    pins: Mapping[int, int] = field(default_factory=dict)
    weigh_by: WeighBy = WeighBy.LOAD
    weigh_every: float = 300.0
    rebalance: bool = False

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read the bytes of the znode; ``BadMessage`` also if one is out of its range."""
        found = codec.decode(cls, data)
        faults = faults_of(found)
        if faults:
            raise BadMessage("; ".join(faults))
        return found


class Range(NamedTuple):
    """The values that a setting may have, both ends included."""

    least: float
    most: float


RANGES: Mapping[str, Range] = {
    "lease": Range(SHORTEST_LEASE, LONGEST_LEASE),
    "renewal": Range(SHORTEST_RENEWAL, LONGEST_LEASE / 3),
    "restart_delay": Range(0, LONGEST_LEASE),
    "moves": Range(1, MOST_SLOTS),
    "weigh_every": Range(1, 86_400),
}
"""The numbers that an operator sets one by one; a slot waits as long as a lease may, no longer."""

CHOICES: Mapping[str, type[StrEnum]] = {"weigh_by": WeighBy}
"""The words that an operator sets one by one."""

NAMES = (*RANGES, *CHOICES)
"""All settings that an operator sets one by one."""


def faults_of(settings: ClusterSettings) -> list[str]:
    """Return what is wrong with settings, one sentence each."""
    of_values = [f"{name}: {fault}" for name, fault in _faults_of_values(settings).items()]
    return [*of_values, *_faults_of_numbers(settings)]


def _faults_of_numbers(settings: ClusterSettings) -> list[str]:
    """Return the members and slots that cannot be."""
    numbers = {*settings.evicted, *settings.pins.values()}
    strange = sorted(number for number in numbers if not 0 <= number <= MOST_NUMBER)
    beyond = sorted(slot for slot in settings.pins if not 0 <= slot < MOST_SLOTS)
    return [
        *(f"no member has number {number}" for number in strange[:1]),
        *(f"no cluster has slot {slot}" for slot in beyond[:1]),
    ]


def _faults_of_values(settings: ClusterSettings) -> dict[str, str]:
    values = {name: getattr(settings, name) for name in RANGES}
    faults = {
        name: f"{_shown(values[name])} must be from {range_.least:g} to {range_.most:g}"
        for name, range_ in RANGES.items()
        if values[name] is not None and not range_.least <= values[name] <= range_.most
    }
    lease, renewal = settings.lease, settings.renewal
    if lease is not None and renewal is not None and lease < 3 * renewal:
        too_short = f"{lease:g} s must be at least three renewals of {renewal:g} s"
        faults.setdefault("lease", too_short)
    return faults


def _shown(number: float) -> str:
    try:
        return f"{number:g}"
    except OverflowError:  # an integer beyond all floats
        return "so large a number"


def with_values(settings: ClusterSettings, values: Mapping[str, Any]) -> ClusterSettings:
    """Return the settings with other values; None unsets one.

    Raises:
        NotFound: there is no such setting.
        BadRequest: a value is of the wrong type or out of its range.
    """
    for name in values:
        _check_name(name)
    defaults = {name: getattr(ClusterSettings(), name) for name in NAMES}
    given = {name: defaults[name] if value is None else value for name, value in values.items()}
    try:
        changed = codec.checked(ClusterSettings, {**vars(settings), **given})
    except BadMessage as error:
        raise BadRequest(f"{', '.join(given)}: {error}") from error
    faults = _faults_of_values(changed)
    if faults:
        raise BadValues(faults)
    return changed


def with_maintenance(settings: ClusterSettings, mode: Maintenance) -> ClusterSettings:
    """Return the settings with the assignment standing still, or not; this ends a rebalancing."""
    return replace(settings, maintenance=mode, rebalance=False)


def with_rebalance(settings: ClusterSettings) -> ClusterSettings:
    """Return the settings with the slots being evened out once; without maintenance they are."""
    return replace(settings, rebalance=settings.maintenance is not Maintenance.OFF)


def in_force(settings: ClusterSettings) -> ClusterSettings:
    """Return what the leader goes by now: a rebalancing suspends maintenance."""
    return with_maintenance(settings, Maintenance.OFF) if settings.rebalance else settings


def taken_over(own: Settings, shared: ClusterSettings) -> Settings:
    """Return a member's own settings with what the whole cluster goes by.

    The cluster's lease and renewal win. What must fit to the lease is fitted: a member can take a
    lease over whatever else it was given.
    """
    if shared.lease is None and shared.renewal is None:
        return own
    lease = min(shared.lease or own.lease, LONGEST_LEASE)
    return replace(
        own,
        lease=lease,
        renewal=min(shared.renewal or own.renewal, lease / RENEWALS),
        hang=max(own.hang, lease),
        budget=min(own.budget, lease / 4),
    )


def _check_name(name: str) -> None:
    if name in NAMES:
        return
    close = difflib.get_close_matches(name, NAMES, n=1)
    remedy = f"did you mean {close[0]}?" if close else f"known are {', '.join(sorted(NAMES))}"
    raise NotFound(f"there is no cluster-wide setting {name[:100]!r}; {remedy}")
