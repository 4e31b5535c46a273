"""Any writes leave the rows that pyspider's own methods leave, called one by one."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyspider_zk.tasks.database import TaskWrite
from tests.tasks.conftest import TaskBackend

names = st.sampled_from(["p", "q_1"])  # in sqlite, tables that differ in case only are one
characters = st.characters(exclude_categories=["Cs"], exclude_characters="\x00")
texts = st.text(characters, max_size=4)
ids = st.sampled_from(["a", "A", "a ", "b", "é", "%s", "a'"]) | texts
documents = st.dictionaries(st.text(max_size=3), st.none() | st.floats(), max_size=2)
columns = st.fixed_dictionaries(
    {},
    optional={
        "url": st.none() | texts,
        "status": st.integers(1, 4),
        "schedule": documents,
        "track": documents,
        "lastcrawltime": st.none() | st.floats(0, 2**32),
    },
)
writes = st.tuples(names, ids, columns, st.booleans())
sequences = st.lists(st.lists(writes, max_size=8), min_size=1, max_size=4)


def write_one(taskdb: Any, project: str, taskid: str, values: Any, is_new: bool) -> None:
    """Carry out one write by pyspider's methods."""
    is_there = is_new and taskdb.get_task(project, taskid, ["taskid"]) is not None
    (taskdb.insert if is_new and not is_there else taskdb.update)(project, taskid, values)


def is_impossible(taskdb: Any, together: list[Any]) -> bool:
    """Tell whether pyspider would refuse an update, because its project has no table then."""
    tables = set(taskdb.projects)
    for project, _, _, is_new in together:
        if is_new:
            tables.add(project)
        elif project not in tables:
            return True
    return False


def content(taskdb: Any, asked: set[str]) -> Iterator[Any]:
    """Yield all that can be read but times, in an order of its own."""
    taskdb._list_project()
    yield sorted(taskdb.projects)
    for project in sorted(taskdb.projects):
        for taskid in sorted(asked):
            yield repr(timeless(taskdb.get_task(project, taskid)))
        for status in range(1, 5):
            yield sorted(repr(timeless(row)) for row in taskdb.load_tasks(status, project))


def timeless(row: dict[str, Any] | None) -> dict[str, Any] | None:
    if row is not None:
        assert isinstance(row.pop("updatetime"), float)
    return row


@pytest.fixture
def pair(
    backend: TaskBackend, make_backend: Callable[..., TaskBackend]
) -> tuple[TaskBackend, TaskBackend]:
    """Give a backend, and a database of its own of the same kind."""
    return backend, make_backend(backend.name, "model")


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sequences)
def test_any_writes_leave_the_rows_that_pyspider_leaves(
    pair: tuple[TaskBackend, TaskBackend], sequence: list[list[Any]]
) -> None:
    ours, model = pair[0].ours, pair[1].ours.taskdb
    for taskdb in (ours.taskdb, model):
        for project in list(taskdb.projects):
            taskdb.drop(project)
    asked: set[str] = set()
    for together in sequence:
        encoded = [TaskWrite(p, t, ours.bulk.encoded(c), new) for p, t, c, new in together]
        if is_impossible(model, together):
            with pytest.raises(LookupError):
                ours.write(*encoded)
            continue
        ours.write(*encoded)
        for each in together:
            write_one(model, *each)
        asked |= {taskid for _, taskid, _, _ in together}
    assert list(content(ours.taskdb, asked)) == list(content(model, asked))
    for project in model.projects:
        rows = ours.bulk.get_many(project, asked, ["taskid", "url", "track"])
        singly = {each: model.get_task(project, each, ["taskid", "url", "track"]) for each in asked}
        assert repr(sorted(rows.items())) == repr(
            sorted(pair for pair in singly.items() if pair[1])
        )
