"""After any disturbance nothing that pyspider would do is left undone."""

import random
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from pyspider_zk.errors import ClusterError
from pyspider_zk.projects.rows import split_group
from pyspider_zk.scheduling.scheduler import SlotScheduler
from tests.support.seed import SEED
from tests.support.sole_owner import SoleOwner
from tests.support.world import SLOTS, World

Task = Callable[..., dict[str, Any]]

DAY = 24 * 60 * 60
NAMES = [f"p{number}" for number in range(5)]


class Storm:
    """Random changes of all that a round depends on, from a seed."""

    def __init__(self, world: World, task: Task, seed: int, monkeypatch: pytest.MonkeyPatch):
        self.chance = random.Random(seed)  # noqa: S311 - no secret
        self.now = 6_000_000.0
        monkeypatch.setattr(time, "time", lambda: self.now)
        self.world = world
        self.task = task
        self.owner = SoleOwner(SLOTS)
        self.scheduler = world.scheduler(self.owner)
        self.scheduler.engine.FAIL_PAUSE_NUM, self.scheduler.engine.PAUSE_TIME = 3, 30
        self.sent: list[dict[str, Any]] = []
        self.count = self.epoch = 1

    def step(self) -> None:
        """Change one thing, then do a round or apply what arrived."""
        chance, name = self.chance, self.chance.choice(NAMES)
        often = self.submit, self.answer, self.wait
        seldom = self.learn, self.turn, self.jam, self.shut, self.move, self.back, self.break_
        act = chance.choice([*often, *often, *seldom])
        act(name)
        one = self.scheduler.take_arrivals if chance.random() < 0.3 else self.scheduler.run_once
        with suppress(ClusterError):
            one()

    def submit(self, name: str) -> None:
        """Request tasks, due now or later."""
        for _ in range(self.chance.randrange(1, 6)):
            self.count += 1
            due = self.now + self.chance.choice([-1, 0, 7.5, 900])
            force = self.chance.random() < 0.3
            taskid = str(self.chance.randrange(self.count))
            self.world.new(self.task(name, taskid, exetime=due, force_update=force))

    def answer(self, _: str) -> None:
        """Answer some of what was sent; the rest is lost, or comes later."""
        self.sent += self.world.dispatched()
        self.chance.shuffle(self.sent)
        ok = self.chance.random() < 0.5
        for sent in [self.sent.pop() for _ in range(len(self.sent) // 2)]:
            if sent["taskid"] != "_on_cronjob":
                self.world.finish(sent, ok)

    def learn(self, name: str) -> None:
        """Answer a script's request for settings."""
        self.world.script_is_known(name, min_tick=self.chance.choice([0, 60, 3600]))

    def turn(self, name: str) -> None:
        """Change a project's row, or create it."""
        row = {
            "status": self.chance.choice(["RUNNING", "RUNNING", "DEBUG", "STOP"]),
            "rate": self.chance.choice([0, 0.3, 1, 50, 1e9]),
            "burst": self.chance.choice([0.5, 1, 5, 1e9]),
            "group": self.chance.choice(["", "", "delete"]),
            "script": f"class Handler: x = {self.chance.randrange(2)}",
        }
        if self.world.projectdb.get(name):
            self.world.projectdb.update(name, **row)
        else:
            self.world.project(name, **row)
        self.scheduler.rows.look_soon()

    def jam(self, _: str) -> None:
        """Let the fetcher's queue be limited, or not."""
        self.world.fetcher.maxsize = self.chance.choice([0, 1, 3])

    def shut(self, _: str) -> None:
        """Shut the fence, or open it."""
        self.chance.choice([self.owner.lose_lease, self.owner.renew_lease])()

    def move(self, name: str) -> None:
        """Take the slot of a project away in a planned move, and give it back."""
        self.owner.ask_back([self.scheduler.fence.slot(name)])
        with suppress(ClusterError):
            self.scheduler.run_once()
        self.epoch += 1
        self.owner.grant([self.scheduler.fence.slot(name)], self.epoch)

    def back(self, _: str) -> None:
        """Set the clock back."""
        if self.chance.random() < 0.3:
            self.now -= self.chance.choice([0.5, 30, 5000])

    def break_(self, name: str) -> None:
        """Put a project into quarantine."""
        if name in self.scheduler.engine.projects and self.chance.random() < 0.3:
            self.scheduler.project_set.put_aside(name, ValueError("broken"))

    def wait(self, _: str) -> None:
        """Let time pass."""
        self.now += self.chance.choice([0.1, 1, 20, 601, DAY / 2])

    def busy(self) -> set[str]:
        """Return the projects that every round looks at, though all is done."""
        attention = self.scheduler.engine.attention
        looked = []
        for _ in range(5):
            self.now += 0.001
            due = [each._due.items() for each in (attention.selection, attention.ticks)]
            looked.append({name for each in due for name, when in each if when <= self.now})
            self.scheduler.run_once()
        return set.intersection(*looked)

    def settle(self) -> None:
        """Let everything be well again, and do all that there is to do."""
        self.world.fetcher.maxsize = 0
        self.owner.renew_lease()
        for name in NAMES:
            self.scheduler.quarantine.renew(name)
        for _ in range(60):
            self.now += 0.001
            self.sent += self.world.dispatched()
            self.scheduler.run_once()


@pytest.mark.parametrize("seed", [1, 2, pytest.param(SEED, marks=pytest.mark.soak, id="SEED")])
def test_nothing_that_is_due_is_left(
    world: World, task: Task, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    storm = Storm(world, task, seed, monkeypatch)
    for name in NAMES:
        storm.turn(name)
    for _ in range(4):
        for _ in range(20):
            storm.step()
        storm.settle()
        assert [left for name in NAMES for left in undone(storm.scheduler, name)] == []
        assert len(storm.scheduler.engine.projects) == len(list(world.projectdb.get_all(["name"])))
        assert storm.busy() == set()


def undone(scheduler: SlotScheduler, name: str) -> list[tuple[str, str]]:
    """Return what pyspider would do for a project."""
    now = time.time()
    project = scheduler.engine.projects.get(name)
    if project is None:
        return []
    if not project.active:
        is_due = project.updatetime + scheduler.engine.DELETE_TIME <= now
        is_deleted = project.db_status == "STOP" and "delete" in split_group(project.group)
        return [(name, "deletion")] if is_due and is_deleted else []
    if project.waiting_get_info:
        return []
    left = []
    if project.min_tick and scheduler.cron.next(name, project.min_tick) <= now:
        left.append((name, "tick"))
    if scheduler.engine.is_paused(project):
        return left
    tasks = project.task_queue
    tasks.check_update()
    if tasks.priority_queue.qsize() and tasks.bucket.get() >= 1:
        left.append((name, "task"))
    if not len(tasks) and project.has_sent:
        left.append((name, "on_finished"))
    return left
