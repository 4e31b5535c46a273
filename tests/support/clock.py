"""A clock that a test sets."""

from dataclasses import dataclass


@dataclass
class Clock:
    """Says the same time until the test sets another; seconds."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now
