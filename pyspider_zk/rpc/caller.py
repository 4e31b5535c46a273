"""Caller: on whose behalf this thread works."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True)
class Caller:
    """Who asks.

    Attributes:
        user: the name; empty if nobody said one that can be believed.
        proven: the secret was proven.
    """

    user: str = ""
    proven: bool = False


NOBODY = Caller()

_current = ContextVar("caller", default=NOBODY)


def current_caller() -> Caller:
    """Return who asked for what this thread does."""
    return _current.get()


@contextmanager
def calling(caller: Caller) -> Iterator[None]:
    """Work on somebody's behalf while the block runs."""
    before = _current.set(caller)
    try:
        yield
    finally:
        _current.reset(before)
