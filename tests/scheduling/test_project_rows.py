"""When the rows of all projects are read again."""

import time
from typing import Any

import pytest
from pyspider.scheduler.scheduler import Scheduler

from tests.support.world import World


def test_one_slow_read_does_not_put_off_the_next_one_for_hours(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    world.project("p", status="STOP")
    scheduler = world.scheduler()
    get_all = scheduler.fenced.projectdb.get_all

    def slow(*args: Any, **kwargs: Any) -> Any:
        now[0] += 60
        return get_all(*args, **kwargs)

    scheduler.fenced.projectdb.get_all = slow
    scheduler.rows.changes()
    world.project("q")
    now[0] += Scheduler.UPDATE_PROJECT_INTERVAL

    assert scheduler.rows.changes().changed == {"q"}
