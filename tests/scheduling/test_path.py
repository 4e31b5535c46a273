"""How much code a round runs: a reader follows it from function to function.

The bounds are to fall, never to rise. What is done once in a second, such as measuring the load, is
left out: not all of ten rounds do it, however slow the machine is. The walk in
``architecture.md`` tells where a task comes by.
"""

import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import pyspider_zk
from tests.support.world import World, crawling

PACKAGE = Path(pyspider_zk.__file__).parent
WALK = PACKAGE.parent / "docs/internals/architecture.md"

ELSEWHERE = {"workers/processor.py", "workers/outbox.py", "queues/redis_streams.py"}
"""Where a task comes by in another process, or with another message queue."""

ROUNDS = 10  # of each kind

Functions = set[tuple[str, str]]
"""Modules, and the names of functions in them."""


def traced(work: Callable[[], object]) -> Functions:
    """Return which functions of ours a piece of work runs."""
    found: Functions = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(PACKAGE)):
            module = Path(code.co_filename).relative_to(PACKAGE)
            found.add((str(module), code.co_qualname))

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return found


def size(functions: Functions) -> tuple[int, int]:
    """Return how many functions and how many modules there are."""
    return len(functions), len({module for module, _ in functions})


@pytest.fixture
def rounds(world: World, task: Callable[..., dict[str, Any]]) -> dict[str, Functions]:
    """Give what each round runs that finds nothing, a new task, or a status pack."""
    scheduler = crawling(world)
    found: dict[str, list[Functions]] = {"idle": [], "new": [], "pack": []}
    for number in range(ROUNDS):
        world.new(task("p", f"t{number}"))
        found["new"].append(traced(scheduler.run_once))
        world.finish(*world.dispatched())
        found["pack"].append(traced(scheduler.run_once))
        scheduler.run_once()
        found["idle"].append(traced(scheduler.run_once))
    return {kind: set.intersection(*each) for kind, each in found.items()}


@pytest.mark.parametrize(
    ("kind", "functions", "modules"), [("idle", 125, 30), ("new", 295, 46), ("pack", 268, 45)]
)
def test_a_round_runs_no_more_code_than_before(
    rounds: dict[str, Functions], kind: str, functions: int, modules: int
) -> None:
    found = size(rounds[kind])
    assert found[0] <= functions
    assert found[1] <= modules


def test_the_walk_of_a_new_task_names_where_it_comes_by(rounds: dict[str, Functions]) -> None:
    text = WALK.read_text()
    walk = text[text.index("### A new task") : text.index("### A slot's move")]
    named = set(re.findall(r"`([a-z_]+/[a-z_]+\.py)`", walk))
    ran = {module for module, _ in rounds["new"]}
    assert named - ELSEWHERE - ran == {"tasks/shared.py"}
