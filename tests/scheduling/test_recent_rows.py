"""What was just inserted is sent as its row would be read."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspider.database import connect_database
from pyspider.scheduler import Scheduler

from pyspider_zk.databases.breaker import Breaker
from pyspider_zk.databases.guarded import Guarded
from pyspider_zk.scheduling.group_commit import GroupCommit
from pyspider_zk.scheduling.recent_rows import LARGEST, RecentRows
from pyspider_zk.tasks.database import task_database

FIELDS = Scheduler.request_task_fields
TASK = {"taskid": "a", "project": "p", "url": "data:,a", "status": 1}

_scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
_keys = st.text(max_size=3) | st.integers(0, 3) | st.booleans()
_parts = st.recursive(
    st.dictionaries(_keys, _scalars | st.lists(_scalars, max_size=2), max_size=3),
    lambda inner: st.dictionaries(_keys, inner, max_size=2),
    max_leaves=5,
)


class ObservedRows:
    """A database, and what is asked of it."""

    def __init__(self, folder: Path | str) -> None:
        self.read: list[Any] = []
        inner = connect_database(f"sqlite+taskdb:///{folder}/task.db")
        bulk = task_database(inner)
        self.tasks = GroupCommit(Guarded(inner, Breaker("taskdb")), bulk)
        self._get_many, bulk.get_many = bulk.get_many, self._noted  # type: ignore[method-assign]

    def _noted(self, project: str, taskids: Any, fields: Any) -> Any:
        self.read += taskids
        return self._get_many(project, taskids, fields)

    def commit(self) -> None:
        self.tasks.commit(lambda _: None, lambda: None)

    def to_send(self, taskid: Any = "a") -> Mapping[str, Any] | None:
        return self.tasks.rows_to_send("p", [taskid], FIELDS).get(taskid)


@pytest.fixture
def rows(tmp_path: Path) -> ObservedRows:
    return ObservedRows(tmp_path)


def test_what_was_inserted_is_sent_once_without_reading(rows: ObservedRows) -> None:
    rows.tasks.insert("p", "a", TASK)
    rows.commit()
    first, second = rows.to_send(), rows.to_send()
    assert first == second is not None
    assert rows.read == ["a"]


@given(
    parts=st.fixed_dictionaries(
        {}, optional=dict.fromkeys(("schedule", "fetch", "process"), _parts)
    ),
    more=st.fixed_dictionaries({}, optional={"lastcrawltime": st.floats(0, 9), "track": _parts}),
)
def test_a_row_is_the_same_whether_it_is_read(parts: Any, more: Any) -> None:
    with TemporaryDirectory() as folder:
        rows = ObservedRows(folder)
        try:
            rows.tasks.insert("p", "a", TASK | parts | more)
        except (TypeError, ValueError):
            return  # it cannot be stored
        rows.commit()
        assert repr(rows.to_send()) == repr(rows.to_send())  # the second is read; NaN equals none


def written_again(rows: ObservedRows) -> None:
    rows.tasks.update("p", "a", {"url": "data:,new"})


def written_again_later(rows: ObservedRows) -> None:
    rows.commit()
    written_again(rows)


def inserted_again(rows: ObservedRows) -> None:
    rows.tasks.insert("p", "a", TASK | {"url": "data:,new", "fetch": {}})


def discarded(rows: ObservedRows) -> None:
    rows.commit()
    rows.tasks.discard("p".__eq__)


@pytest.mark.parametrize("change", [written_again, written_again_later, inserted_again, discarded])
def test_what_changed_is_read(rows: ObservedRows, change: Callable[[ObservedRows], None]) -> None:
    rows.tasks.insert("p", "a", TASK)
    change(rows)
    rows.commit()
    rows.to_send()
    assert rows.read == ["a"]


def test_a_number_is_another_id_in_some_databases(rows: ObservedRows) -> None:
    rows.tasks.insert("p", 7, TASK | {"taskid": 7})
    rows.commit()
    rows.to_send(7)
    assert rows.read == [7]


STORED = {"url": "data:,a", "status": 1}


def test_the_oldest_are_forgotten_first() -> None:
    recent = RecentRows(most=2)
    for taskid in "abc":
        recent.note(("p", taskid), STORED)
    found = map(partial(recent.take, fields=FIELDS), [("p", each) for each in "abc"])
    assert [row and row["status"] for row in found] == [None, 1, 1]


@pytest.mark.parametrize(
    "large",
    [
        {"fetch": b'{"save": "%s"}' % (b"x" * LARGEST)},
        {"fetch": '{"save": "%s"}' % ("x" * LARGEST)},
        {"fetch": {"save": "x" * LARGEST}},
        {"url": "x" * (LARGEST + 1)},
        {"fetch": b"x" * (LARGEST // 2), "process": b"x" * (LARGEST // 2)},
    ],
    ids=["bytes", "text", "mapping", "address", "together"],
)
def test_what_is_large_is_read_again(large: dict[str, Any]) -> None:
    recent = RecentRows()
    recent.note(("p", "a"), STORED)
    recent.note(("p", "a"), STORED | large)
    assert recent.take(("p", "a"), FIELDS) is None


def test_whoever_asks_for_less_reads_it() -> None:
    recent = RecentRows()
    recent.note(("p", "a"), STORED)
    assert recent.take(("p", "a"), ["status"]) is None


def test_who_changes_a_task_changes_nothing_that_is_sent(rows: ObservedRows) -> None:
    task = {**TASK, "fetch": {"save": 1}}
    rows.tasks.insert("p", "a", task)
    task["fetch"]["save"] = 2
    rows.commit()
    sent = rows.to_send()
    assert sent is not None
    assert sent["fetch"] == {"save": 1}
    assert rows.read == []
