"""Form of the cluster's log: what components warn of, and which lines of it are wanted."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Protocol

from msgspec import Meta

LEVELS = ("warning", "error", "critical")
"""The levels that are shared; information is a line for each task."""

MESSAGE, TRACEBACK, NAME = 2_000, 8_000, 200
"""Characters of a line's message, of its traceback, and of each other text of it."""

KEPT = 10_000
"""Lines that the log keeps, a few more or less; and how many one search looks at."""

LOOK = 500
"""Lines that are read at once."""

Name = Annotated[str, Meta(max_length=NAME)]


@dataclass(frozen=True)
class LogLine:
    """What a component has warned of.

    Attributes:
        at: when, seconds since the epoch by its machine's clock.
        level: one of ``LEVELS``.
        project: that it is about; empty: not known, as with ``task`` and ``traceback``.
    """

    at: float
    level: Annotated[str, Meta(pattern=rf"^({'|'.join(LEVELS)})$")]
    component: Name
    host: Name
    pid: int
    logger: Name
    message: Annotated[str, Meta(max_length=MESSAGE)]
    project: Name = ""
    task: Name = ""
    traceback: Annotated[str, Meta(max_length=TRACEBACK)] = ""


Entry = tuple[str, LogLine | None]
"""An id in the log, and the line there; None: something else."""


class ClusterLog(Protocol):
    """What all components have warned of lately. Threads: any. Blocks for a round trip.

    All methods raise ``Unavailable`` if the message queue does not answer.
    """

    def append(self, lines: Sequence[LogLine]) -> None:
        """Append lines; the oldest are dropped. After a broken connection some may be in it twice.

        What cannot be read any more is in the way of none.
        """

    def latest(self, before: str, count: int) -> list[Entry]:
        """Return entries, the latest first.

        Args:
            before: only those that stand before this id; empty: all.
            count: how many at most.
        """

    def behind(self, after: str, count: int) -> list[Entry]:
        """Return entries, the oldest first.

        Args:
            after: only those that stand behind this id; empty: all.
            count: how many at most.
        """


@dataclass(frozen=True)
class LogFilter:
    """Which lines; all that is given must hold.

    Attributes:
        level: the least.
        text: part of the message or the traceback, in capitals or not.
    """

    level: str = LEVELS[0]
    component: str = ""
    project: str = ""
    text: str = ""

    def holds(self, line: LogLine) -> bool:
        """Return whether a line is wanted."""
        text = self.text.lower()
        return (
            LEVELS.index(line.level) >= LEVELS.index(self.level)
            and self.component in ("", line.component)
            and self.project in ("", line.project)
            and (text in line.message.lower() or text in line.traceback.lower())
        )


def read_log(
    log: ClusterLog, wanted: LogFilter, before: str, limit: int
) -> tuple[list[tuple[str, LogLine]], str | None]:
    """Return lines with their ids, the latest first, and where the next page begins.

    Looks at ``KEPT`` lines at most, which may be before it has found any; None: there are no more.
    """
    found: list[tuple[str, LogLine]] = []
    for _ in range(KEPT // LOOK):
        entries = log.latest(before, LOOK)
        for before, line in entries:
            if line is not None and wanted.holds(line):
                found.append((before, line))
                if len(found) == limit:
                    return found, before
        if len(entries) < LOOK:
            return found, None
    return found, before
