"""Status packs, what was put off, new requests, selection: the same effects as in stock pyspider.

Each scenario runs on pyspider's own scheduler and on a cluster's; fetches and rows must agree.
"""

import queue
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import pytest
from pyspider.database import connect_database
from pyspider.libs.counter import CounterManager
from pyspider.scheduler.scheduler import Scheduler

from pyspider_zk.queues.names import QueueKind
from pyspider_zk.scheduling.counters import read_counters
from pyspider_zk.scheduling.task_rules import UNCONDITIONAL
from tests.support.world import SCRIPT, World

Task = dict[str, Any]
Counted = dict[str, dict[str, dict[str, Any]]]


class Side(Protocol):
    """One of the two schedulers, with a project ``p`` that runs."""

    def new(self, *tasks: Task) -> None:
        """Publish new tasks."""

    def finish(self, sent: Task, ok: bool = True) -> None:
        """Publish the status pack of a task that was dispatched."""

    def round(self) -> None:
        """Let the scheduler work once."""

    def dispatched(self) -> list[Task]:
        """Take what was dispatched."""

    def row(self, taskid: str) -> Task | None:
        """Return a task's row."""

    def counted(self) -> Counted:
        """Return what the counters say, by window, project and event."""


class Stock:
    """pyspider's own scheduler."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._packs: queue.Queue[Task] = queue.Queue()
        self._news: queue.Queue[Task] = queue.Queue()
        self._out: queue.Queue[Task] = queue.Queue()
        self._scheduler = Scheduler(
            *(self._database(kind) for kind in ("task", "project")),
            newtask_queue=self._news,
            status_queue=self._packs,
            out_queue=self._out,
            data_path=str(folder),
        )
        row = {"status": "RUNNING", "script": SCRIPT, "group": "", "comments": ""}
        self._database("project").insert("p", {**row, "rate": 1e9, "burst": 1e9})
        self.round()
        self._packs.put({"taskid": "_on_get_info", "project": "p", "track": {"save": {}}})
        self.round()

    def new(self, *tasks: Task) -> None:
        for task in tasks:
            self._news.put(_copy(task))

    def finish(self, sent: Task, ok: bool = True) -> None:
        self._packs.put(_pack(sent, ok))

    def round(self) -> None:
        self._scheduler.run_once()

    def dispatched(self) -> list[Task]:
        sent = []
        while not self._out.empty():
            sent.append(self._out.get())
        return [each for each in sent if each["taskid"] != "_on_get_info"]

    def row(self, taskid: str) -> Task | None:
        found: Task | None = self._database("task").get_task("p", taskid)
        return found

    def counted(self) -> Counted:
        return _counted(self._scheduler._cnt)

    def _database(self, kind: str) -> Any:
        made = connect_database(f"sqlite+{kind}db:///{self._folder}/{kind}.db")
        made._execute("PRAGMA synchronous=OFF")
        return made


class Ours:
    """A cluster's scheduler."""

    def __init__(self, folder: Path) -> None:
        self._world = World(folder)
        self._world.project("p")
        self._scheduler = self._world.scheduler()
        self.round()
        info = {"taskid": "_on_get_info", "project": "p", "track": {"save": {}}}
        self._world.send(QueueKind.STATUS, info)
        self.round()

    def new(self, *tasks: Task) -> None:
        self._world.new(*tasks)

    def finish(self, sent: Task, ok: bool = True) -> None:
        self._world.send(QueueKind.STATUS, _pack(sent, ok))

    def round(self) -> None:
        self._scheduler.run_once()

    def dispatched(self) -> list[Task]:
        return self._world.dispatched()

    def row(self, taskid: str) -> Task | None:
        found: Task | None = self._world.database("task").get_task("p", taskid)
        return found

    def counted(self) -> Counted:
        return _counted(self._scheduler.engine.counters)


Seen = list[tuple[str, str]]


class Play:
    """Plays a scenario on one side and notes what is fetched.

    Attributes:
        fetched: task id and callback of what was dispatched, in order.
        under_way: the latest dispatch of each task that is not finished.
    """

    def __init__(self, side: Side) -> None:
        self._side = side
        self.fetched: Seen = []
        self.under_way: dict[str, Task] = {}
        self.new = side.new

    def rounds(self, count: int = 3) -> None:
        for _ in range(count):
            self._side.round()
            for sent in self._side.dispatched():
                self.fetched.append((sent["taskid"], sent["process"]["callback"]))
                self.under_way[sent["taskid"]] = sent

    def finish(self, taskid: str = "t", ok: bool = True) -> None:
        self._side.finish(self.under_way.pop(taskid), ok)

    def outcome(self) -> tuple[dict[str, list[str]], dict[str, Any]]:
        """Return what was fetched of each task, and what of the row does not hang on the clock.

        In which order tasks of one priority are selected is nobody's promise. That a page is to
        come whole is marked in no schedule of pyspider's.
        """
        row = self._side.row("t") or {}
        schedule = {**(row.get("schedule") or {})}
        for name in ("exetime", UNCONDITIONAL):
            schedule.pop(name, None)
        told = {key: row.get(key) for key in ("status", "fetch", "process", "url")}
        fetched: dict[str, list[str]] = {}
        for taskid, callback in self.fetched:
            fetched.setdefault(taskid, []).append(callback)
        return fetched, {**told, "schedule": schedule}


def task(callback: str = "old", taskid: str = "t", **schedule: Any) -> Task:
    return {
        "taskid": taskid,
        "project": "p",
        "url": f"http://site.example/{taskid}",
        "schedule": schedule,
        "fetch": {"headers": {"X": callback}},
        "process": {"callback": callback},
    }


def a_failing_task_with_age_0_is_updated(play: Play) -> None:
    play.new(task(age=0))
    play.rounds()
    play.new(task("new", age=0, force_update=True))
    play.rounds(1)
    play.finish(ok=False)
    play.rounds()


def a_recrawl_with_age_0_is_cancelled(play: Play) -> None:
    play.new(task(age=0, auto_recrawl=True))
    play.rounds()
    play.new(task(cancel=True, force_update=True))
    play.rounds(1)
    for _ in range(5):
        if "t" in play.under_way:
            play.finish()
        play.rounds()


def a_task_is_updated_while_it_is_under_way(play: Play) -> None:
    play.new(task())
    play.rounds()
    play.new(task("new", force_update=True, priority=3))
    play.rounds()
    play.finish()
    play.rounds()


def a_task_is_updated_in_the_round_of_its_pack(play: Play) -> None:
    play.new(task())
    play.rounds()
    play.new(task("new", force_update=True))
    play.finish()
    play.rounds()


def a_task_is_cancelled_while_it_is_under_way(play: Play) -> None:
    play.new(task())
    play.rounds()
    play.new(task(cancel=True, force_update=True))
    play.rounds()
    play.finish(ok=False)
    play.rounds()


def one_update_follows_another(play: Play) -> None:
    play.new(task())
    play.rounds()
    second = task("second", force_update=True, retries=9)
    del second["fetch"]
    play.new(task("first", force_update=True, priority=3))
    play.rounds(1)
    play.new(second)
    play.rounds(1)
    play.finish()
    play.rounds()
    play.finish()
    play.rounds()


def a_cancellation_follows_an_update(play: Play) -> None:
    play.new(task())
    play.rounds()
    play.new(task("new", force_update=True), task(cancel=True, force_update=True))
    play.rounds(1)
    play.finish()
    play.rounds()


def an_update_follows_a_cancellation(play: Play) -> None:
    play.new(task())
    play.rounds()
    play.new(task(cancel=True, force_update=True))
    play.rounds(1)
    play.new(task("new", force_update=True))
    play.rounds(1)
    play.finish()
    play.rounds()


def an_itag_changes_in_the_round_of_the_pack(play: Play) -> None:
    play.new(task(itag="a"))
    play.rounds()
    play.new(task("new", itag="b"))
    play.finish()
    play.rounds()


def an_itag_changes_while_the_task_is_under_way(play: Play) -> None:
    play.new(task(itag="a"))
    play.rounds()
    play.new(task("new", itag="b"))
    play.rounds(1)
    play.finish()
    play.rounds()
    play.new(task("newer", itag="c"))
    play.rounds()


def an_old_page_is_asked_for_again_in_the_round_of_its_pack(play: Play) -> None:
    play.new(task())
    play.rounds()
    play.new(task("new", age=0))
    play.finish()
    play.rounds()


def a_page_asks_for_itself_and_for_others(play: Play) -> None:
    play.new(task())
    play.rounds()
    play.new(task("again", force_update=True, age=0), task("other", "u"))
    play.finish()
    play.rounds()
    play.finish("u")
    play.rounds()


def a_project_finishes(play: Play) -> None:
    play.new(task())
    play.rounds()
    play.finish()
    play.rounds(15)
    play.finish("on_finished")
    play.rounds(15)


SCENARIOS = [
    a_failing_task_with_age_0_is_updated,
    a_recrawl_with_age_0_is_cancelled,
    a_task_is_updated_while_it_is_under_way,
    a_task_is_updated_in_the_round_of_its_pack,
    a_task_is_cancelled_while_it_is_under_way,
    one_update_follows_another,
    a_cancellation_follows_an_update,
    an_update_follows_a_cancellation,
    an_itag_changes_in_the_round_of_the_pack,
    an_itag_changes_while_the_task_is_under_way,
    an_old_page_is_asked_for_again_in_the_round_of_its_pack,
    a_page_asks_for_itself_and_for_others,
    a_project_finishes,
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: each.__name__)
def test_both_schedulers_fetch_the_same_and_leave_the_same_row(
    tmp_path: Path, scenario: Callable[[Play], None]
) -> None:
    outcomes = []
    for side in (Stock, Ours):
        folder = tmp_path / side.__name__
        folder.mkdir()
        play = Play(side(folder))
        scenario(play)
        outcomes.append(play.outcome())

    stock, ours = outcomes
    assert ours == stock
    assert stock[0]["t"][0] == "old"


def test_a_failing_task_is_fetched_as_it_was_and_then_as_it_shall_be(tmp_path: Path) -> None:
    play = Play(Ours(tmp_path))
    a_failing_task_with_age_0_is_updated(play)
    assert play.fetched == [("t", "old"), ("t", "new")]


def test_a_recrawl_that_was_cancelled_is_fetched_no_more(tmp_path: Path) -> None:
    play = Play(Ours(tmp_path))
    a_recrawl_with_age_0_is_cancelled(play)
    assert [each for each in play.fetched if each[0] == "t"] == [("t", "old")]


def _counted(managers: Mapping[str, CounterManager]) -> Counted:
    """Return sums, and averages of times."""
    return {
        window: read_counters(manager, "avg" if window == "5m_time" else "sum")
        for window, manager in managers.items()
    }


def _pack(sent: Task, ok: bool) -> Task:
    track = {"fetch": {"ok": ok, "time": 0.125}, "process": {"ok": ok, "time": 0.25}}
    keys = ("taskid", "project", "url", "schedule")
    return _copy({**{key: sent[key] for key in keys if key in sent}, "track": track})


def _copy(task: Task) -> Task:
    """Return a copy, as a queue between two processes makes one."""
    return {key: dict(value) if isinstance(value, dict) else value for key, value in task.items()}
