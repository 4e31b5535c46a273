"""Filters: which tasks or failures are meant; all that is given must hold. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Annotated, Any, Literal, Self, TypeVar

import msgspec
from pyspider.database.base.taskdb import TaskDB
from pyspider.libs.utils import md5string

from pyspider_zk.errors import BadRequest

T = TypeVar("T")

MOST_PART = 1000  # characters

Part = Annotated[str, msgspec.Meta(min_length=1, max_length=MOST_PART)]
"""Of a longer text."""

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
        return _parsed(cls, "a filter of failures", asked)


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
        return _parsed(cls, "a filter of tasks", asked)

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


Filter = TypeVar("Filter", FailureFilter, TaskFilter)


def filter_among(kind: type[Filter], query: Mapping[str, Any]) -> Filter:
    """Return the filter whose attributes stand in a query, among others; see its ``parse``."""
    known = [each.name for each in fields(kind)]
    return kind.parse({name: query[name] for name in known if name in query})


def _parsed(kind: type[T], what: str, asked: object) -> T:
    """Read a filter; what is unknown is refused, for it would mean all."""
    known = [each.name for each in fields(kind)]  # type: ignore[arg-type]
    if not isinstance(asked, Mapping):
        raise BadRequest(f"{what} must be an object, not {asked!r:.80}")
    if strange := [str(name) for name in asked if name not in known]:
        raise BadRequest(f"{what} has no {strange[0]:.80}; known are {', '.join(known)}")
    if nul := [name for name, value in asked.items() if "\0" in str(value)]:
        raise BadRequest(f"{what}: {nul[0]} has the character NUL")
    try:
        return msgspec.convert(dict(asked), kind)
    except msgspec.ValidationError as error:
        raise BadRequest(f"{what}: {error}") from None
