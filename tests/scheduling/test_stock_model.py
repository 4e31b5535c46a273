"""Random requests, packs and times: pyspider's own scheduler and a cluster's do the same.

The clock is the test's, so that the rows agree to the second. Three differences are declared:

- Updates that wait for one pack are merged and counted once. pyspider counts each; with a
  cancellation among them it may end at minus one pending task.
- A negative age says nothing about failures and recrawls. pyspider gives the task up when it fails,
  and one that recrawls by itself it crawls over and over. Such steps are not played.
- A schedule is marked whose page is to come whole.
"""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pyspider_zk.scheduling.task_rules import UNCONDITIONAL
from tests.scheduling.test_stock_order import Counted, Ours, Play, Stock, task

NOON = 1_000_000_000.0
COLUMNS = ("status", "schedule", "fetch", "process", "url", "lastcrawltime")

SCHEDULES = st.fixed_dictionaries(
    {},
    optional={
        "age": st.sampled_from([0, 10, 40, -1]),
        "itag": st.sampled_from(["a", "b", ""]),
        "force_update": st.booleans(),
        "auto_recrawl": st.booleans(),
        "cancel": st.booleans(),
        "retries": st.sampled_from([0, 1]),
        "exetime": st.sampled_from([0, NOON + 50]),
        "priority": st.integers(0, 9),
    },
)
PLAIN = SCHEDULES.map(lambda given: {key: given[key] for key in ("age", "itag") if key in given})
REQUESTS = st.tuples(st.just("request"), PLAIN | SCHEDULES)
PACKS = st.tuples(st.just("pack"), st.booleans())
PASSED = st.tuples(st.just("later"), st.sampled_from([1, 8, 30, 5000]))
STEPS = st.tuples(REQUESTS, PACKS, st.lists(REQUESTS | PACKS | PASSED, min_size=1, max_size=10))


def is_alike(steps: Sequence[Any]) -> bool:
    """Return whether both treat the ages of these steps alike."""
    fails = ("pack", False) in steps
    asked = [what for kind, what in steps if kind == "request"]
    return not any(each.get("age") == -1 and (fails or each.get("auto_recrawl")) for each in asked)


UPDATE = ("request", {"age": 0, "force_update": True})
CANCELLATION = ("request", {"age": 0, "force_update": True, "cancel": True})
MERGED = [("request", {}), UPDATE, UPDATE, CANCELLATION, ("pack", True)]


class Player:
    """Plays steps on a side, by a clock of its own."""

    def __init__(self, side: Any, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self._now = NOON
        self._waiting = 0  # updates that wait for the task's pack
        self._merges = False
        patch.setattr(time, "time", lambda: self._now)
        self._side = side(folder)
        self._play = Play(self._side)

    def play(self, steps: list[Any]) -> tuple[dict[str, list[str]], Any, Counted | None]:
        """Return the callbacks that were sent of each task, the row that is left, the counters.

        The counters are None if updates were merged.
        """
        for number, (kind, what) in enumerate(steps):
            if kind == "request":
                self._note(what)
                self._play.new(task(f"page{number}", **what))
            elif kind == "pack" and "t" in self._play.under_way:
                self._waiting = 0
                self._play.finish(ok=what)
            elif kind == "later":
                self._now += what
            self._play.rounds(2)
            self._now += 1
        row = self._side.row("t")
        left = row and {name: row[name] for name in COLUMNS}
        if left:
            left["schedule"].pop(UNCONDITIONAL, None)
        counted = None if self._merges else self._side.counted()
        return self._play.outcome()[0], left, counted

    def _note(self, schedule: dict[str, Any]) -> None:
        self._waiting += "t" in self._play.under_way and bool(schedule.get("force_update"))
        self._merges |= self._waiting > 1


def played(side: Callable[..., Any], steps: list[Any]) -> Any:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        return Player(side, Path(folder), patch).play(steps)


@settings(max_examples=100)
@example(MERGED)
@given(STEPS.map(lambda given: [*given[:2], *given[2]]).filter(is_alike))
def test_both_schedulers_send_store_and_count_the_same(steps: list[Any]) -> None:
    assert played(Ours, steps) == played(Stock, steps)
