"""Caller: the person or program on whose behalf this thread works."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True)
class Caller:
    """A caller.

    Attributes:
        user: the name; empty if there is no trustworthy one.
        proven: the caller has proved the secret.
    """

    user: str = ""
    proven: bool = False


NOBODY = Caller()

_current = ContextVar("caller", default=NOBODY)


def current_caller() -> Caller:
    """Return the caller on whose behalf this thread works."""
    return _current.get()


@contextmanager
def calling(caller: Caller) -> Iterator[None]:
    """Work on behalf of a caller while the block runs."""
    before = _current.set(caller)
    try:
        yield
    finally:
        _current.reset(before)
