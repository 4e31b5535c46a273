"""What can be stored: exactly what pyspider's own insert takes, on every backend."""

import math
from typing import Any

import pytest
from pyspider.database.sqlite import taskdb as sqlite

from pyspider_zk.tasks.database import task_database
from tests.tasks.conftest import Opened, TaskBackend

CIRCULAR: list[Any] = []
CIRCULAR.append(CIRCULAR)
DEEP: list[Any] = []
for _ in range(100_000):
    DEEP = [DEEP]

CASES: dict[str, list[Any]] = {
    "taskid": ["x", "x" * 255, "x" * 256, "é" * 255, "é" * 256, "\U0001f577" * 255, "a\0b"],
    "url": [None, "", "a\0b", "\ud800", "\udc80", "x\udfff", "\U0001f577", "x" * 100_000],
    "status": [None, 0, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**63 - 1, 2**63, -(2**63) - 1],
    "lastcrawltime": [None, 0, 5, 1.5, -1e308, 5e-324, math.inf, -math.inf],
    "fetch": [None, {}, {"a": "a\0b"}, {"\ud800": 1}, {"a": math.nan}, {1: 2**100}, "x", [1.5]],
    "track": [object(), {"a": b"b"}, {(1, 2): 3}, {1, 2}, CIRCULAR, DEEP],
    "updatetime": [None, "x", math.nan],
    "nosuch": [1],
    "a` = 1; --": [1],
}
CONVERTED = [("url", 5), ("status", "1"), ("status", 1.5), ("lastcrawltime", "1.5")]


def takes(ours: Opened, columns: dict[str, Any]) -> bool:
    """Tell whether pyspider's own insert takes columns."""
    ours.taskdb.drop("p1")
    try:
        ours.taskdb.insert("p1", columns.get("taskid", "t1"), columns)
    except (Exception, RecursionError):
        return False
    return True


@pytest.mark.parametrize("name", CASES)
def test_encoded_refuses_what_the_database_refuses(backend: TaskBackend, name: str) -> None:
    ours = backend.ours
    ours.taskdb.insert("p1", "t1", {"url": "u"})
    for value in CASES[name]:
        refused = None
        try:
            ours.bulk.encoded({name: value})
        except (TypeError, ValueError) as error:
            refused = error
        assert takes(ours, {name: value}) == (refused is None), (value, refused)
        assert refused is None or name in str(refused)


@pytest.mark.parametrize("name", CASES)
def test_what_encoded_takes_is_stored_as_pyspider_stores_it(
    backend: TaskBackend, name: str
) -> None:
    ours = backend.ours
    for value in CASES[name]:
        columns = {name: value}
        if takes(ours, columns):
            pyspiders = ours.raw("p1")
            ours.taskdb.drop("p1")
            ours.write(ours.new("p1", columns.get("taskid", "t1"), columns))
            assert repr(ours.raw("p1")) == repr(pyspiders)


@pytest.mark.parametrize(("name", "value"), CONVERTED)
def test_what_a_database_would_convert_is_refused(
    typed: TaskBackend, name: str, value: object
) -> None:
    with pytest.raises(TypeError, match=f"^{name} cannot be stored: a "):
        typed.ours.bulk.encoded({name: value})


@pytest.mark.parametrize(
    "columns",
    [{"fetch": {"S3CRET": object()}}, {"track": {"S3CRET": DEEP}}, {"url": "S3CRET\ud800"}],
)
def test_a_refusal_names_no_content(columns: dict[str, Any]) -> None:
    with pytest.raises((TypeError, ValueError), match="cannot be stored") as refused:
        task_database(sqlite.TaskDB(":memory:")).encoded(columns)
    assert "S3CRET" not in str(refused.value)


def test_what_is_given_is_not_changed(ours: Opened) -> None:
    columns = {"taskid": "t1", "project": "p1", "url": "u", "fetch": {"a": 1}}
    encoded = ours.bulk.encoded(columns)
    assert columns == {"taskid": "t1", "project": "p1", "url": "u", "fetch": {"a": 1}}
    assert list(encoded) == ["url", "fetch"]
