"""Fair share: in which order, and how many at a time, projects send their due tasks. Pure."""

from collections import deque
from collections.abc import Callable, Collection

Take = Callable[[str, int], int]
"""Takes so many due tasks of a project, or fewer if it has no more; returns how many."""


class FairShare:
    """Deficit round robin over the projects that have tasks to send.

    A project whose turn it is sends ``quantum`` tasks, then the next one has its turn. What is left
    of a turn when the round ends is its deficit: it goes on with that in the next round. So of any
    two projects that always have tasks neither is ever ahead by more than one turn, and one that
    is alone sends as many as a round may.

    Threads: one.
    """

    def __init__(self) -> None:
        self._line: deque[str] = deque()
        self._deficits: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._line)

    def join(self, project: str) -> None:
        """Let a project have its turns, after all who wait already."""
        if project not in self._deficits:
            self._deficits[project] = 0
            self._line.append(project)

    def leave(self, project: str) -> None:
        """End a project's turns; it joins anew at the end of the line."""
        if self._deficits.pop(project, None) is not None:
            self._line.remove(project)

    def serve(
        self, limit: int, quantum: int, take: Take, only: Collection[str] | None = None
    ) -> None:
        """Give turns until ``limit`` tasks are taken, or nobody has more: who has none leaves.

        Args:
            only: who may have turns now; the others keep their places. None: everybody.
        """
        waiting = deque(name for name in self._line if only is None or name in only)
        while waiting and limit > 0:
            project = waiting.popleft()
            turn = self._deficits[project] or quantum
            share = min(turn, limit)
            taken = take(project, share)
            limit -= taken
            if taken < share:
                self.leave(project)
            elif share < turn:
                self._deficits[project] = turn - share
            else:
                self._deficits[project] = 0
                self._line.remove(project)
                self._line.append(project)
                waiting.append(project)
