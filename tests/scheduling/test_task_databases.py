"""Any message is refused, or a real task database takes it."""

from pathlib import Path
from typing import Any

import msgpack
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspider.database import connect_database

from pyspider_zk.errors import BadMessage
from pyspider_zk.queues.codec import decode
from pyspider_zk.queues.tasks import check_pack, check_task, own_task
from tests.support.world import World, crawling

INTEGERS = st.integers(-(2**63), 2**64 - 1)
LEAVES = (
    st.none()
    | st.booleans()
    | INTEGERS
    | st.floats()
    | st.text(max_size=20)
    | st.binary(max_size=20)
    | st.just("\0")
)
KEYS = st.text(max_size=10) | INTEGERS | st.binary(max_size=5)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)
TRIED = ("fetch", "process")
PARTS = (
    "status",
    "schedule",
    "fetch",
    "process",
    "track",
    "lastcrawltime",
    "updatetime",
    "type",
    "group",
    "project_md5sum",
    "track`) VALUES (1)--",
)
TRACKS = st.fixed_dictionaries(
    {
        "fetch": st.dictionaries(st.sampled_from(["time", "ok"]), VALUES, max_size=2) | VALUES,
        "process": st.dictionaries(st.sampled_from(["time", "ok"]), VALUES, max_size=2) | VALUES,
    }
)
SCHEDULES = st.dictionaries(
    st.sampled_from(["priority", "retries", "exetime", "age", "itag", "force_update"]), VALUES
)
TASKS = st.builds(
    lambda required, parts: {**required, **parts},
    st.fixed_dictionaries(
        {
            "taskid": st.text(min_size=1, max_size=5) | VALUES,
            "project": st.just("p") | VALUES,
            "url": st.text(min_size=1, max_size=5) | VALUES,
        }
    ),
    st.dictionaries(st.sampled_from(PARTS), VALUES | TRACKS | SCHEDULES, max_size=5),
)


@pytest.fixture
def taskdb(tmp_path: Path) -> Any:
    return connect_database(f"sqlite+taskdb:///{tmp_path}/task.db")


def sent(message: object) -> Any:
    """Return a message as it arrives."""
    return decode(msgpack.packb(message))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
@given(message=TASKS | VALUES)
def test_what_is_a_task_can_be_stored(taskdb: Any, message: object) -> None:
    try:
        task = sent(message)
        check_task(task)
    except BadMessage:
        return
    own = own_task(task)
    if taskdb.get_task(own["project"], own["taskid"]) is None:
        taskdb.insert(own["project"], own["taskid"], own)
    taskdb.update(own["project"], own["taskid"], own)
    stored = taskdb.get_task(own["project"], own["taskid"])
    assert stored["url"] == own["url"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
@given(message=TASKS | VALUES)
def test_what_is_a_pack_can_be_counted(message: object) -> None:
    try:
        pack = sent(message)
        check_task(pack)
        check_pack(pack)
    except BadMessage:
        return
    if pack["taskid"] != "_on_get_info":
        assert isinstance(sum(pack["track"][part].get("time") or 0 for part in TRIED), int | float)


class SharedWorld(World):
    """Tasks in pyspider's backend on SQLAlchemy, whose ids are text."""

    def database(self, kind: str) -> Any:
        if kind == "task":
            return connect_database(f"sqlalchemy+sqlite+taskdb:///{self.folder}/shared.db")
        return super().database(kind)


@pytest.mark.parametrize("taskid", [5, -5, "5"])
@pytest.mark.parametrize("kind", [World, SharedWorld])
def test_a_task_is_sent_with_the_id_that_it_came_with(
    tmp_path: Path, kind: type[World], taskid: Any
) -> None:
    world = kind(tmp_path)
    scheduler = crawling(world)
    world.new({"taskid": taskid, "project": "p", "url": "data:,", "status": 1})
    scheduler.run_once()
    scheduler.run_once()

    (sent,) = world.dispatched()
    world.finish(sent)
    scheduler.run_once()

    assert sent["taskid"] == taskid
    assert list(world.statuses("p").values()) == [2]
