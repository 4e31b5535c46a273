"""What the searches through all states of a small cluster, and of a small job queue, share."""

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

State = TypeVar("State", bound=Hashable)


class Violated(AssertionError):
    """A state that must not be, with the shortest way to it."""

    def __init__(self, fault: str, way: list[str]) -> None:
        lines = [f"{number:4} {step}" for number, step in enumerate(way, 1)]
        super().__init__("\n".join([fault, *lines]))
        self.steps = len(way)


class Recovery(Generic[State]):
    """Looks whether all is well again once no fault happens any more.

    Everybody takes their steps in turn, fairly. States on the way to a good end are remembered,
    so that the next one that comes by is known to be good.

    Args:
        calm: lets no fault happen any more.
        a_round: lets everybody take their steps.
        what_is_left: tells what keeps a state from being well, None if nothing does.
        most: rounds within which it must be.
    """

    def __init__(
        self,
        calm: Callable[[State], State],
        a_round: Callable[[State], State],
        what_is_left: Callable[[State], str | None],
        most: int,
    ) -> None:
        self._calm = calm
        self._a_round = a_round
        self._what_is_left = what_is_left
        self._most = most
        self._good: set[State] = set()
        self.rounds = 0

    def check(self, state: State) -> None:
        """Raise ``AssertionError`` if it does not become well, within so many rounds."""
        way, state = [], self._calm(state)
        while state not in self._good and (fault := self._what_is_left(state)):
            assert len(way) < self._most, f"{fault} after {self._most} rounds: {state}"
            way.append(state)
            state = self._a_round(state)
        self.rounds = max(self.rounds, len(way))
        self._good.update(way)
