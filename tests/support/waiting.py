"""Waiting for what has no event to wait for."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PATIENCE = 120.0
"""Seconds until a test gives up; never how long it takes, on however busy a machine."""

LOOK = 0.02
"""Seconds between two looks."""


def eventually(
    condition: Callable[[], T],
    what: str = "",
    *,
    within: float = PATIENCE,
    look: float = LOOK,
    told: Callable[[], str] = str,
) -> T:
    """Wait until a condition holds, and return what it returned.

    Args:
        what: names the condition, for when it never holds.
        within: seconds until the test fails.
        look: seconds between two looks.
        told: what is said besides, such as the ends of logs.
    """
    deadline = time.monotonic() + within
    while not (found := condition()):
        assert time.monotonic() < deadline, f"never happened: {what or condition}\n{told()}"
        time.sleep(look)
    return found
