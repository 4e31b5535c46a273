"""Whatever a message may hold passes from one owner to the next; what is invalid goes alone."""

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pyspider_zk.errors import BadMessage
from pyspider_zk.projects.slots import slot_of
from pyspider_zk.queues.codec import decode_record, encode, encode_record
from pyspider_zk.queues.tasks import NUMBERS, check_task
from pyspider_zk.scheduling.slot_record import STATE, Part, read_record, regrouped, slot_record

WHOLE = st.sampled_from([1, 5, -1, 2**63 - 1, -(2**63)])
NUMBER = st.booleans() | WHOLE | st.sampled_from([0, 2**64 - 1]) | st.floats(allow_nan=False)
SCALARS = st.none() | NUMBER | st.text(max_size=3)
IDS = st.text(min_size=1, max_size=3) | WHOLE
TASKS = st.fixed_dictionaries(
    {"taskid": IDS, "project": st.just("p"), "url": st.just("u")},
    optional={
        "schedule": st.dictionaries(st.sampled_from(NUMBERS), NUMBER),
        "fetch": st.dictionaries(st.text(max_size=3), SCALARS),
        "status": WHOLE,
        "updatetime": WHOLE | st.floats(allow_nan=False),
    },
)
TICK = {
    "taskid": "_on_cronjob",
    "project": "p",
    "url": "data:,_on_cronjob",
    "fetch": {"save": {"tick": 60}},
}
PACK = {"taskid": "t", "track": {"process": {"ok": True}}}
EMPTY = {
    "processing": [],
    "unsent": [],
    "postponed": [],
    "bucket": [0, 0],
    "paused": [False, 0, None],
    "finishing": [False, 0],
    "active_tasks": [],
}


def handed_over(**state: Any) -> tuple[Part, list[str]]:
    """Return what the next owner reads of a project's state, and what it cannot use."""
    raw = encode_record(3, slot_record(1, True, {"p": {**EMPTY, **state}}))
    parts, faults = read_record(decode_record(3, raw), epoch=2)
    return parts["p"], faults


@given(TASKS)
def test_whatever_a_message_may_hold_passes_to_the_next_owner(task: dict[str, Any]) -> None:
    try:
        check_task(task)
        encode(task)
    except BadMessage:
        assume(False)
    priority = (task.get("schedule") or {}).get("priority") or 0
    state = {"processing": [[task["taskid"], priority, 1.5]], "unsent": [task], "postponed": [task]}

    part, faults = handed_over(**state)

    assert faults == []
    assert part == {**EMPTY, **state, "clean": True}


@pytest.mark.parametrize(
    ("key", "good", "bad"),
    [
        ("processing", ["t", 0, 1.5], [None, 0, 1.5]),
        ("processing", [5, float("inf"), 1.5], ["t", float("nan"), 1.5]),
        ("processing", ["t", 2**64 - 1, 1.5], ["t", 0, float("inf")]),
        ("processing", ["t", 0, 1.5], ["t", 0]),
        ("pending", ["t", 0, 0], [None, 0, 0]),
        ("lasting", ["t", 900.5], ["t", 0]),
        ("lasting", [5, 900], [5, float("inf")]),
        ("unsent", TICK, {**TICK, "project": "q"}),
        ("unsent", TICK, {**TICK, "fetch": {}}),
        ("unsent", TICK, {**TICK, "fetch": {"save": {"tick": None}}}),
        ("unsent", TICK, {**TICK, "fetch": {"save": {"tick": 1.5}}}),
        ("unsent", TICK, {**TICK, "fetch": {"save": {"tick": "60"}}}),
        ("postponed", TICK, 5),
        ("active_tasks", [1.5, PACK], [1.5, {**PACK, "track": {"process": "ok"}}]),
        ("active_tasks", [1.5, PACK], [1.5, {**PACK, "track": {"process": ["ok"]}}]),
        ("active_tasks", [1.5, {"type": 1}], [None, PACK]),
    ],
)
def test_a_row_that_cannot_be_used_costs_no_other(key: str, good: object, bad: object) -> None:
    part, faults = handed_over(**{key: [good, bad, good]})

    assert part == {**EMPTY, key: [good, good], "clean": True}
    assert faults == [f"p: 1 of {key}"]


@pytest.mark.parametrize(("key", "bad"), [("pending", 5), ("running", "now"), ("tick", 1.5)])
def test_an_entry_that_is_not_of_the_state_costs_itself_alone(key: str, bad: object) -> None:
    part, faults = handed_over(**{key: bad})

    assert part == {**EMPTY, "clean": True}
    assert faults == [f"p: {key}"]


@pytest.mark.parametrize("key", STATE)
def test_without_one_of_its_entries_the_state_is_as_after_a_death(key: str) -> None:
    part, faults = handed_over(**{key: 5})

    assert part == {"unsent": [], "clean": False} if key != "unsent" else {"clean": False}
    assert faults == [f"p: {key}"]


PART = {"md5sum": "x", "tick": 7, "unsent": [1], "processing": [2], "bucket": [3, 4]}
KNOWN = {"md5sum": "x", "tick": 7, "unsent": [1]}
NAMES = ["a", "b", "c", "d"]


def record(epoch: int, clean: bool, *names: str) -> dict[str, Any]:
    return {"epoch": epoch, "clean": clean, "projects": dict.fromkeys(names, PART)}


def parts(found: dict[int, dict[str, Any]]) -> dict[str, Any]:
    return {name: part for each in found.values() for name, part in each["projects"].items()}


@pytest.mark.parametrize("slots", [1, 2, 1000])
def test_each_project_is_in_the_record_of_its_slot(slots: int) -> None:
    found = regrouped({3: record(9, True, *NAMES)}, {3: 9}, slots, 50)

    assert parts(found) == dict.fromkeys(NAMES, PART)
    for slot, its in found.items():
        assert {slot_of(name, slots) for name in its["projects"]} == {slot}
        assert (its["epoch"], its["clean"]) == (50, True)


def test_what_its_last_owner_left_incomplete_loses_what_would_mislead() -> None:
    records = {0: record(9, True, "a"), 1: record(9, False, "b"), 2: record(8, True, "c")}

    found = parts(regrouped(records, {0: 9, 1: 9, 2: 9}, 1, 50))

    assert found == {"a": PART, "b": KNOWN, "c": KNOWN}


@pytest.mark.parametrize(
    "projects", [None, [], {"no name!/": PART}, {7: PART}, {"a": None}, {"a": [1]}]
)
def test_what_is_no_part_is_left_out(projects: object) -> None:
    odd = {"epoch": 9, "clean": True, "projects": projects}
    assert regrouped({0: odd}, {0: 9}, 4, 50) == {}
