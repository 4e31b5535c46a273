"""What differs between two looks at the project database."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspider_zk.projects.index import ProjectIndex
from pyspider_zk.projects.slots import slot_of

SLOTS = 4

NAMES = st.sampled_from("abcdef")
VERSIONS = st.tuples(
    st.sampled_from([None, "", "g"]),
    st.sampled_from(["RUNNING", "DEBUG", "STOP", "TODO"]),
    st.integers(0, 3).map(float),
)
TABLES = st.dictionaries(NAMES, VERSIONS)


def row(name: str, status: str = "RUNNING", updatetime: float = 1.0, group: Any = "") -> Any:
    return {"name": name, "group": group, "status": status, "updatetime": updatetime}


def rows(table: dict[str, Any]) -> list[Any]:
    return [row(name, status, time, group) for name, (group, status, time) in table.items()]


def test_at_the_first_look_everything_is_new() -> None:
    changes = ProjectIndex(SLOTS).refresh([row("a"), row("b")])
    assert changes == ({"a", "b"}, set())


def test_a_row_that_stays_as_it_is_is_no_change() -> None:
    catalogue = ProjectIndex(SLOTS)
    catalogue.refresh([row("a"), row("b")])
    assert catalogue.refresh([row("b"), row("a")]) == (set(), set())


def test_a_row_written_by_a_host_whose_clock_is_behind_is_seen() -> None:
    catalogue = ProjectIndex(SLOTS)
    catalogue.refresh([row("a", updatetime=1000.0)])
    assert catalogue.refresh([row("a", updatetime=900.0)]).changed == {"a"}


def test_a_row_removed_by_hand_leaves_no_ghost() -> None:
    catalogue = ProjectIndex(SLOTS)
    catalogue.refresh([row("a"), row("b")])
    assert catalogue.refresh([row("b")]).gone == {"a"}
    assert "a" not in catalogue
    assert catalogue.names(slot_of("a", SLOTS)) == ()


def test_a_database_without_a_group_means_no_group() -> None:
    catalogue = ProjectIndex(SLOTS)
    catalogue.refresh([row("a", group=None)])
    assert catalogue.refresh([row("a", group="")]).changed == set()


def test_a_slot_weighs_as_much_as_it_has_active_projects() -> None:
    catalogue = ProjectIndex(1)
    catalogue.refresh([row("a"), row("b", "DEBUG"), row("c", "STOP"), row("d", "CHECKING")])
    assert catalogue.active == {0: 2}


def test_a_slot_whose_projects_all_stopped_weighs_nothing() -> None:
    catalogue = ProjectIndex(1)
    catalogue.refresh([row("a")])
    catalogue.refresh([row("a", "STOP")])
    assert catalogue.active == {}


@given(TABLES, TABLES)
def test_changes_are_the_difference_of_two_looks(before: Any, after: Any) -> None:
    # given
    catalogue = ProjectIndex(SLOTS)
    catalogue.refresh(rows(before))
    # when
    changes = catalogue.refresh(rows(after))
    # then
    same = {
        name
        for name in before.keys() & after.keys()
        if (before[name][0] or "", *before[name][1:]) == (after[name][0] or "", *after[name][1:])
    }
    assert changes.changed == after.keys() - same
    assert changes.gone == before.keys() - after.keys()


@given(TABLES)
def test_every_project_stands_in_its_slot_once(table: Any) -> None:
    catalogue = ProjectIndex(SLOTS)
    catalogue.refresh(rows(table))
    listed = [(slot, name) for slot in range(SLOTS) for name in catalogue.names(slot)]
    assert sorted(listed) == sorted((slot_of(name, SLOTS), name) for name in table)


def test_columns_of_any_type_are_compared_and_change_once() -> None:
    catalogue = ProjectIndex(SLOTS)
    odd = [{**row("a", updatetime=float("nan")), "rate": [1, float("nan")], "status": b"RUNNING"}]
    catalogue.refresh(odd)

    assert catalogue.refresh([{**odd[0], "updatetime": float("nan")}]).changed == set()
    assert catalogue.refresh([{**odd[0], "rate": [2]}]).changed == {"a"}


def test_another_rate_is_a_change_though_nobody_touched_the_time() -> None:
    catalogue = ProjectIndex(SLOTS)
    catalogue.refresh([{**row("a"), "rate": None}])
    assert catalogue.refresh([{**row("a"), "rate": 1}]).changed == {"a"}


def test_a_row_without_a_name_is_told_of_and_costs_no_other() -> None:
    catalogue = ProjectIndex(SLOTS)
    strange = [row(name) for name in (None, 5, "", b"x", [], "\udc80")]  # type: ignore[arg-type]
    assert catalogue.refresh([*strange, row("a")]).changed == {"a"}
    assert len(catalogue.nameless) == len(strange)


def test_a_look_that_fails_half_way_changes_nothing() -> None:
    catalogue = ProjectIndex(SLOTS)
    catalogue.refresh([row("a"), row("b")])

    def broken() -> Any:
        yield row("a")
        raise OSError("away")

    with pytest.raises(OSError, match="away"):
        catalogue.refresh(broken())
    assert catalogue.refresh([row("b")]).gone == {"a"}
