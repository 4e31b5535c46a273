"""Quarantine of projects that cannot be scheduled because of a fault of their own."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from pyspider_zk.errors import brief
from pyspider_zk.pauses import pause_after

logger = logging.getLogger("scheduler")

PAUSES = (1.0, 5.0, 15.0, 60.0, 300.0)
"""Seconds after each failure until a project is tried again; the last one repeats."""

TRIAL = 600.0
"""Seconds for which a released project is on trial: another fault counts as its next one."""


@dataclass(frozen=True)
class Fault:
    """What is wrong with a project in quarantine.

    Attributes:
        reason: one sentence for people.
        since: when it came into quarantine, in seconds since the epoch.
        failures: how often it failed since then.
        due: when it is tried again, on the quarantine's clock.
    """

    reason: str
    since: float
    failures: int
    due: float


class AtFault(Exception):
    """A project cannot be scheduled as it is; the message says what is wrong with it."""


class Quarantine:
    """Projects that are left alone, each with the reason and the time of the next try.

    A fault of one project, in its row, its tasks, its script or its slot record, must stop only
    that project. It is released when a try succeeds or when its row has changed.

    Threads: the scheduler loop changes it; ``told`` and ``in`` may be used from any.

    Args:
        clock: in seconds, for the pauses.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._faults: dict[str, Fault] = {}
        self._on_trial: dict[str, Fault] = {}

    def __contains__(self, project: str) -> bool:
        return project in self._faults

    def __len__(self) -> int:
        return len(self._faults)

    def put(self, project: str, error: BaseException | str) -> None:
        """Put a project into quarantine; one that is already there waits longer."""
        known = self._faults.get(project) or self._tried(project)
        reason = brief(str(error) if isinstance(error, str | AtFault) else repr(error))
        failures = known.failures + 1 if known else 1
        pause = pause_after(failures, PAUSES)
        since = known.since if known else time.time()
        self._faults[project] = Fault(reason, since, failures, self._clock() + pause)
        if known is None or known.reason != reason:
            logger.error("project %s is in quarantine: %s", project, reason)

    def renew(self, project: str) -> None:
        """Reset a project's failures because its row changed; it stays in until the next try."""
        self._on_trial.pop(project, None)
        known = self._faults.get(project)
        if known is not None:
            self._faults[project] = replace(known, failures=0, due=self._clock())

    def pardon(self, project: str) -> None:
        """Release a project on trial, if it is in: a try succeeded, but its row is the same."""
        fault = self._faults.get(project)
        if fault is not None:
            self.release(project)
            now = self._clock()
            self._on_trial = {
                name: each for name, each in self._on_trial.items() if now < each.due + TRIAL
            }
            self._on_trial[project] = replace(fault, due=now)

    def release(self, project: str) -> None:
        """Release a project, if it is in."""
        self._on_trial.pop(project, None)
        if self._faults.pop(project, None) is not None:
            logger.info("project %s is out of quarantine", project)

    def drop(self, project: str) -> None:
        """Forget a project that is no longer ours."""
        self._faults.pop(project, None)
        self._on_trial.pop(project, None)

    def names(self) -> list[str]:
        """Return the projects that are in."""
        return list(self._faults)

    def reason(self, project: str) -> str | None:
        """Return what is wrong with a project, None if it is not in."""
        fault = self._faults.get(project)
        return None if fault is None else fault.reason

    def due(self) -> list[str]:
        """Return the projects to try again now."""
        now = self._clock()
        return [project for project, fault in list(self._faults.items()) if fault.due <= now]

    def told(self) -> dict[str, dict[str, Any]]:
        """Return what is wrong with each project, for people."""
        now = self._clock()
        return {
            project: {
                "reason": fault.reason,
                "since": fault.since,
                "failures": fault.failures,
                "next_look": max(0.0, fault.due - now),
            }
            for project, fault in sorted(self._faults.copy().items())
        }

    def _tried(self, project: str) -> Fault | None:
        """Return the last fault of a project that is on trial."""
        fault = self._on_trial.pop(project, None)
        return fault if fault is not None and self._clock() < fault.due + TRIAL else None
