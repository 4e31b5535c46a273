"""Slot rates: the tasks per second by which the leader weighs slots, and how they follow reports.

Members measure, and report the rates of their busiest slots with each renewal. The leader looks at
the reports every some minutes, and writes what it goes by from then on into a znode. The next
leader reads that and continues, so a change of leader moves nothing.

A rate follows a report only if that is far enough from it: normal variation changes no weight. A
slot that was moved keeps its rate until its new owner has measured it for the whole time between
two looks, and so does one whose owner's report is missing or cannot be read.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from pyspider_zk.cluster.records import Assignment, Load, Slot
from pyspider_zk.errors import BadMessage
from pyspider_zk.groups.ids import MemberId
from pyspider_zk.limits import MOST_SLOTS
from pyspider_zk.zookeeper import codec
from pyspider_zk.zookeeper.codec import Record

STEP = 2
"""Tasks per second by which a rate must be wrong at least before it follows."""

SHARE = 0.25
"""And that share of the greater of both."""

MOST_RATE = 10**6
"""Tasks per second of a slot; whoever reports more is taken to mean this."""

Rates = Mapping[int, int]
"""Tasks per second, by slot; slots that are not in it have none worth mentioning."""


@dataclass(frozen=True)
class SlotRates(Record):
    """The znode with the rates that the leader goes by."""

    rates: Rates = field(default_factory=dict)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read the bytes of the znode.

        Raises:
            BadMessage: they are no rates.
        """
        found = codec.decode(cls, data)
        for slot, rate in found.rates.items():
            if not (0 <= slot < MOST_SLOTS and 0 <= rate <= MOST_RATE):
                raise BadMessage(f"slot {slot} cannot do {rate} tasks per second")
        return found


def moved_since(before: Assignment, now: Assignment) -> set[int]:
    """Return the slots that move or were granted since an assignment."""
    rows = enumerate(zip(before.slots, now.slots, strict=True))
    return {slot for slot, (then, row) in rows if row.next or row.epoch != then.epoch}


def followed(
    former: Rates, before: Assignment, now: Assignment, loads: Mapping[MemberId, Load]
) -> dict[int, int]:
    """Return the rates to go by after a look at the reports.

    Args:
        former: those gone by until now.
        before: the assignment at the look before.
        now: the assignment.
        loads: the reports that can be read.
    """
    unknown = moved_since(before, now)
    found = {
        slot: former.get(slot, 0) if slot in unknown else _followed(slot, former, row, loads)
        for slot, row in enumerate(now.slots)
    }
    return {slot: rate for slot, rate in found.items() if rate}


def _followed(slot: int, former: Rates, row: Slot, loads: Mapping[MemberId, Load]) -> int:
    known = former.get(slot, 0)
    load = loads.get(row.owner) if row.owner else None
    if load is None or load.slot_rates is None:
        return known
    found = min(max(load.slot_rates.get(slot, 0), 0), MOST_RATE)
    return known if _is_near(known, found) else found


def _is_near(one: int, other: int) -> bool:
    return abs(one - other) <= STEP + SHARE * max(one, other)
