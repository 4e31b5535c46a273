"""Filters: which tasks or failures are meant; all that is given must hold. Pure."""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Self

from pyspider.database.base.taskdb import TaskDB
from pyspider.libs.utils import md5string

from pyspider_zk.asked import Part, parsed

State = Literal["ACTIVE", "SUCCESS", "FAILED", "BAD"]
"""Of a task."""


@dataclass(frozen=True)
class FailureFilter:
    """Which failures are meant.

    Attributes:
        status_code: 0: there was no answer.
        since: only tasks that failed at this time or later, in seconds since the epoch.
        url: part of it, in capitals or not.
        error: part of the last one, in capitals or not.
    """

    project: str | None = None
    kind: str | None = None
    callback: str | None = None
    status_code: int | None = None
    since: float | None = None
    url: Part | None = None
    error: Part | None = None

    @classmethod
    def parse(cls, asked: object) -> Self:
        """Read the plain form, a mapping of the attributes, or raise ``BadRequest``."""
        return parsed(cls, "a filter of failures", asked)


@dataclass(frozen=True)
class TaskFilter:
    """Which tasks are meant.

    Attributes:
        url: part of it, in capitals or not; or a task id.
        since: only tasks that were tried at this time or later, in seconds since the epoch.
    """

    project: str | None = None
    url: Part | None = None
    state: State | None = None
    since: float | None = None

    @classmethod
    def parse(cls, asked: object) -> Self:
        """Read the plain form, a mapping of the attributes, or raise ``BadRequest``."""
        return parsed(cls, "a filter of tasks", asked)

    @property
    def status(self) -> int | None:
        """What the state is stored as."""
        return TaskDB.status_to_int(self.state) if self.state else None

    @cached_property
    def ids(self) -> tuple[str, ...]:
        """The ids that are meant if the URL is a whole one, or an id itself."""
        return (md5string(self.url), self.url) if self.url else ()

    def holds(self, status: object, crawled: object) -> bool:
        """Return whether a row is in the state, and was tried late enough."""
        is_late = self.since is None or (isinstance(crawled, int | float) and crawled >= self.since)
        return is_late and self.status in (None, status)
