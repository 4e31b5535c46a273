"""When the rows of all projects are read again."""

import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from pyspider.scheduler.scheduler import Scheduler

from pyspider_zk.projects.index import Changes
from pyspider_zk.scheduling.project_rows import NO_CHANGES
from pyspider_zk.scheduling.scheduler import SlotScheduler
from tests.support.world import World


def test_one_slow_read_does_not_put_off_the_next_one_for_hours(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    world.project("p", status="STOP")
    scheduler = world.scheduler()
    get_all = scheduler.engine.projectdb.get_all

    def slow(*args: Any, **kwargs: Any) -> Any:
        now[0] += 60
        return get_all(*args, **kwargs)

    scheduler.engine.projectdb.get_all = slow
    scheduler.rows.changes()
    world.project("q")
    now[0] += Scheduler.UPDATE_PROJECT_INTERVAL

    assert scheduler.rows.changes().changed == {"q"}


class Reads:
    """How often a scheduler reads the rows of all projects."""

    def __init__(self, scheduler: SlotScheduler) -> None:
        self.count = 0
        self._projectdb = scheduler.engine.projectdb
        self._get_all = self._projectdb.get_all
        self._projectdb.get_all = self._counted

    def _counted(self, *args: Any, **kwargs: Any) -> Any:
        self.count += 1
        return self._get_all(*args, **kwargs)


def looked(scheduler: SlotScheduler) -> Changes:
    scheduler.rows.look_soon()
    return scheduler.rows.changes()


def test_rows_that_nobody_has_changed_are_not_read(world: World) -> None:
    world.project("p")
    scheduler = world.scheduler()
    reads = Reads(scheduler)
    assert looked(scheduler).changed == {"p"}

    assert looked(scheduler) == NO_CHANGES
    assert reads.count == 1


@pytest.mark.parametrize("is_ours", [True, False])
def test_a_change_is_read_whoever_made_it(world: World, is_ours: bool) -> None:
    world.project("p")
    scheduler = world.scheduler()
    looked(scheduler)

    (scheduler.engine if is_ours else world).projectdb.update("p", {"status": "STOP"})

    assert looked(scheduler).changed == {"p"}


def test_a_file_that_was_put_in_place_of_the_former_one_is_read(
    world: World, tmp_path: Path
) -> None:
    world.project("p")
    file = Path(world.projectdb.path)
    copy = shutil.copy(file, tmp_path / "copy.db")
    world.project("q")
    scheduler = world.scheduler()
    looked(scheduler)

    Path(copy).replace(file)

    assert looked(scheduler).gone == {"q"}


def test_a_read_that_failed_is_done_again(world: World) -> None:
    world.project("p")
    scheduler = world.scheduler()
    get_all = scheduler.engine.projectdb.get_all
    scheduler.engine.projectdb.get_all = lambda **_: 1 / 0
    assert looked(scheduler) == NO_CHANGES

    scheduler.engine.projectdb.get_all = get_all

    assert looked(scheduler).changed == {"p"}


def test_a_change_that_comes_while_rows_are_read_is_seen_by_the_next_read(world: World) -> None:
    world.project("p")
    scheduler = world.scheduler()
    get_all = scheduler.engine.projectdb.get_all

    def overtaken(**kwargs: Any) -> Any:
        rows = list(get_all(**kwargs))
        world.project("q")
        return iter(rows)

    scheduler.engine.projectdb.get_all = overtaken
    assert looked(scheduler).changed == {"p"}
    scheduler.engine.projectdb.get_all = get_all

    assert looked(scheduler).changed == {"q"}
