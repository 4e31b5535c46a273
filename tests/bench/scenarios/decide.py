"""The leader's decision about 16,384 slots of 100 members, of which one has just died."""

import time
from dataclasses import replace
from typing import Any

from pyspider_zk.cluster.records import Assignment, Member, Slot
from pyspider_zk.cluster.rules import Rules, Snapshot, Stamp, decide
from pyspider_zk.groups.ids import MemberId
from tests.bench.bench import Bench
from tests.bench.turns import in_turn

SLOTS = 16_384
MEMBERS = 100


def scenario(bench: Bench) -> dict[str, Any]:
    """Return seconds of a decision: nothing to do, the first grant, and after a death."""
    members = [MemberId(number, f"incarnation-{number}") for number in range(MEMBERS)]
    newborn = _snapshot(Assignment.vacant(SLOTS), members)
    settled = _snapshot(_settled(members), members)
    lost = {name: record for name, record in settled.members.items() if name != members[0]}
    dead = replace(settled, members=lost, stamps={name: settled.stamps[name] for name in lost})
    cases = {"first grant": newborn, "nothing to do": settled, "after a death": dead}
    return in_turn(max(5, bench.size.runs), cases, lambda name: _timed(cases[name]))


def _timed(snapshot: Snapshot) -> dict[str, float]:
    begin = time.perf_counter()
    decide(snapshot, Rules())
    return {"s": time.perf_counter() - begin}


def _settled(members: list[MemberId]) -> Assignment:
    return Assignment(1, tuple(Slot(members[slot % MEMBERS], 1) for slot in range(SLOTS)))


def _snapshot(assignment: Assignment, members: list[MemberId]) -> Snapshot:
    record = Member(address="127.0.0.1:1", host="bench", pid=1, version="", started=0.0)
    weights = {slot: slot % 7 for slot in range(SLOTS)}
    stamps = {member: Stamp(1, 1.0) for member in members}
    return Snapshot(assignment, dict.fromkeys(members, record), stamps, {}, weights, 1.0)
