"""Cron: when the ``@every`` callbacks of a project are due."""

import logging

logger = logging.getLogger("scheduler")

CATCH_UP = 3600
"""Seconds of missed ticks that are made up after a pause; older ones are lost."""


def tick_after(second: int, interval: int) -> int:
    """Return the first tick after a second."""
    return (second // interval + 1) * interval


class Cron:
    """The second up to which each project's ticks were counted.

    pyspider counts one tick for all projects and begins at the present when it starts, so what
    came due while it was down never runs. Here each project's count moves to its next owner, too.
    """

    def __init__(self) -> None:
        self._last: dict[str, int] = {}
        self._losing: set[str] = set()

    def start(self, project: str, at: int) -> None:
        """Count a project's ticks from a second on."""
        self._last[project] = at

    def begin(self, project: str, at: int) -> None:
        """Count a project's ticks from a second on, unless they are counted already."""
        self._last.setdefault(project, at)

    def last(self, project: str) -> int | None:
        """Return the second up to which a project's ticks are counted, None if they are not."""
        return self._last.get(project)

    def drop(self, project: str) -> None:
        """Forget a project."""
        self._last.pop(project, None)
        self._losing.discard(project)

    def due(self, project: str, interval: int, now: int, most: int | None = None) -> range:
        """Return the ticks that came due since the last call, and count them as sent.

        No tick comes twice, even if the clock is set back, unless by more than ``CATCH_UP``.

        Args:
            interval: the project's ``min_tick``; ticks are its multiples. 0: it has none.
            most: how many to return; the others stay due until a later call.
        """
        known = self._last.get(project, now)
        last = max(known, now - CATCH_UP)
        if now < last <= now + CATCH_UP:
            return range(0)  # a clock was set back, or the former owner's is ahead of ours
        found = range(tick_after(last, interval), now + 1, interval) if interval else range(0)
        self._tell_lost(project, interval, known, last)
        if most is None or len(found) <= most:
            self._last[project] = now
            return found
        self._last[project] = found[most] - 1
        return found[:most]

    def next(self, project: str, interval: int) -> int:
        """Return the second at which a counted project's next tick is due; it may be past."""
        return tick_after(self._last[project], interval)

    def _tell_lost(self, project: str, interval: int, known: int, last: int) -> None:
        """Log once when ticks begin to be lost, until none is."""
        lost = last // interval - known // interval if interval and last > known else 0
        if lost and project not in self._losing:
            logger.error(
                "project %s: ticks are lost, the oldest of second %d: they could not be sent for"
                " more than %d s",
                project,
                tick_after(known, interval),
                CATCH_UP,
            )
        if last == known:
            self._losing.discard(project)
        elif lost:
            self._losing.add(project)
