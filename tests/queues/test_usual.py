"""What is recognized as usual passes the checks, and what components send is usual."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspider_zk.queues.names import QueueKind
from pyspider_zk.queues.tasks import PARTS, check_pack, check_task
from pyspider_zk.queues.usual import usual_projects

TASK = {
    "taskid": "t",
    "project": "p",
    "url": "http://site.example/",
    "schedule": {"age": 864000, "priority": 2, "itag": "v1", "force_update": True},
    "fetch": {"headers": {"User-Agent": "me"}, "timeout": 9.5},
    "process": {"callback": "page"},
}
REPORT = {"ok": True, "time": 0.01}
PACK = {**TASK, "track": {"fetch": REPORT, "process": {**REPORT, "follows": 3}, "save": None}}

SCALARS = (
    st.none()
    | st.booleans()
    | st.sampled_from([0, -1, 2**63, -(2**63), 2**64, 1e300])
    | st.floats()
    | st.sampled_from(["", "t", "p", "no name", "\0", "ü", "\ud800", "x" * 300])
    | st.binary(max_size=2)
)
KEYS = st.sampled_from(["a", "\ud800", 1])
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner), max_leaves=3
)
NAMES = (*TASK, "track", "status", "updatetime", "strange")
WITHIN = ("age", "retries", "priority", "ok", "time", "headers", "fetch", "process", "save")


def changed(message: dict[str, Any], changes: list[tuple[str, str, Any]]) -> dict[str, Any]:
    """Return a message in which some values, or values within a part, are others."""
    for name, within, value in changes:
        part = message.get(name)
        other = {**part, within: value} if within and isinstance(part, dict) else value
        message = {**message, name: other}
    return message


CHANGES = st.lists(
    st.tuples(st.sampled_from(NAMES), st.sampled_from(["", *WITHIN]), VALUES), max_size=2
)


@given(CHANGES)
def test_whatever_is_a_usual_task_is_a_task(changes: list[tuple[str, str, Any]]) -> None:
    task = changed(TASK, changes)
    if usual_projects(QueueKind.NEWTASK, [TASK, task]):
        check_task(task)


@given(CHANGES)
def test_whatever_is_a_usual_pack_is_a_pack(changes: list[tuple[str, str, Any]]) -> None:
    pack = changed(PACK, changes)
    if usual_projects(QueueKind.STATUS, pack):
        check_task(pack)
        check_pack(pack)


def test_what_components_send_is_usual() -> None:
    bare = {key: value for key, value in TASK.items() if key not in PARTS}
    assert usual_projects(QueueKind.NEWTASK, [TASK, {**bare, "project": "q"}]) == {"p", "q"}
    assert usual_projects(QueueKind.STATUS, PACK) == {"p"}
    assert usual_projects(QueueKind.STATUS, {**bare, "track": PACK["track"]}) == {"p"}


@pytest.mark.parametrize("task", [{}, 7, {**TASK, "taskid": 7}, {**TASK, "group": "g"}, PACK])
def test_one_that_is_not_usual_makes_its_message_unusual(task: object) -> None:
    assert not usual_projects(QueueKind.NEWTASK, [TASK, task])


@pytest.mark.parametrize("pack", [{}, [], TASK, {**PACK, "status": 1}])
def test_a_pack_without_a_report_is_not_usual(pack: object) -> None:
    assert not usual_projects(QueueKind.STATUS, pack)


def test_what_no_message_holds_is_not_usual() -> None:
    endless: dict[str, Any] = {}
    endless["a"] = endless
    assert not usual_projects(QueueKind.NEWTASK, [{**TASK, "fetch": endless}])
    assert not usual_projects(QueueKind.NEWTASK, [{**TASK, "\ud800": 1}])
