"""Records of old slots become records of new ones."""

from typing import Any

import pytest

from pyspider_zk.projects.slots import slot_of
from pyspider_zk.scheduling.regrouping import regrouped

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
