"""pyspider's own scheduler has the faults that ours is tested for: those tests can fail.

Each test here is the twin of one in ``test_slot_scheduler.py`` and runs the stock class on the
same databases. Should one of them fail with a newer pyspider, an override has lost its reason.
"""

import queue
from collections import Counter
from collections.abc import Callable
from typing import Any

from pyspider.database.sqlite.taskdb import TaskDB
from pyspider.scheduler.scheduler import Scheduler

from tests.support.world import World

Task = Callable[..., dict[str, Any]]


def test_stock_dispatches_one_on_start_for_fifty_projects_started_in_one_round(
    world: World, task: Task
) -> None:
    scheduler = stock(world)
    for number in range(50):
        world.project(f"p{number}")
        know_script(scheduler, f"p{number}")
        scheduler.newtask_queue.put(task(f"p{number}", "on_start"))

    scheduler.run_once()
    scheduler.run_once()

    assert len(world.dispatched()) == 1


def test_stock_throws_away_packs_of_tasks_that_it_did_not_dispatch_itself(
    world: World, task: Task
) -> None:
    world.project("p")
    before, after = stock(world), stock(world)
    know_script(before, "p")
    before.newtask_queue.put(task("p"))
    before.run_once()
    before.run_once()
    (sent,) = world.dispatched()

    track = {"fetch": {"ok": True}, "process": {"ok": True}}
    after.status_queue.put({**sent, "track": track})
    after.run_once()

    assert world.statuses("p") == {"t": TaskDB.ACTIVE}


def test_stock_counts_all_rows_of_a_stopped_project_at_every_update(world: World) -> None:
    counted: Counter[str] = Counter()

    class FaultCountingTaskDB(TaskDB):
        def status_count(self, project: str) -> Any:
            counted[project] += 1
            return super().status_count(project)

    world.project("p", status="STOP")
    scheduler = stock(world, taskdb=FaultCountingTaskDB(world.taskdb.path))
    for comment in "abc":
        world.projectdb.update("p", {"comments": comment})
        scheduler._force_update_project = True
        scheduler.run_once()

    assert counted == {"p": 3}


def test_stock_does_not_see_a_change_written_by_a_host_whose_clock_is_behind(
    world: World,
) -> None:
    world.project("p", status="TODO")
    scheduler = stock(world)
    scheduler.run_once()
    world.projectdb._update(where="name = ?", where_values=("p",), status="RUNNING", updatetime=1.0)
    scheduler._force_update_project = True

    scheduler.run_once()

    assert not scheduler.projects["p"].active


def test_stock_keeps_a_ghost_of_a_row_removed_by_hand(world: World) -> None:
    world.project("p")
    scheduler = stock(world)
    scheduler.run_once()
    world.projectdb.drop("p")
    scheduler._force_update_project = True

    scheduler.run_once()

    assert set(scheduler.projects) == {"p"}


def stock(world: World, **databases: Any) -> Scheduler:
    """Return pyspider's own scheduler in this world."""
    chosen = {f"{kind}db": world.database(kind) for kind in ("task", "project", "result")}
    return Scheduler(
        **{**chosen, **databases},
        newtask_queue=queue.Queue(),
        status_queue=queue.Queue(),
        out_queue=world.fetcher,
        data_path=str(world.folder),
    )


def know_script(scheduler: Scheduler, project: str) -> None:
    """Answer the scheduler's question about a script."""
    pack = {"taskid": "_on_get_info", "project": project, "url": "data:,_on_get_info"}
    scheduler.status_queue.put({**pack, "track": {"save": {}}})
