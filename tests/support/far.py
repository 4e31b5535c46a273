"""Programs of the tests that run in processes of their own."""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def program(name: str) -> list[str]:
    """Return the command that runs a module of ``tests/support``, from ``ROOT``."""
    return [sys.executable, "-m", f"tests.support.{name}"]
