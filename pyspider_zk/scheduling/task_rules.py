"""Rules of pyspider about one task, as functions of what is known of it."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol


class RequestTerms(Protocol):
    """What of a request's schedule tells whether its task runs again."""

    @property
    def age(self) -> Any:
        """How old its last crawl may be, in seconds; negative: it never runs again for that."""

    @property
    def itag(self) -> Any:
        """Whatever changes when the page does."""

    @property
    def force_update(self) -> Any:
        """Whether it runs again in any case."""


class ScheduleTerms(NamedTuple):
    """`RequestTerms`, of a schedule that is a mapping."""

    age: Any
    itag: Any
    force_update: Any

    @classmethod
    def of(cls, schedule: Mapping[str, Any]) -> "ScheduleTerms":
        """Return what a schedule asks for."""
        return cls(schedule.get("age"), schedule.get("itag"), schedule.get("force_update"))


def restarts(
    asked: RequestTerms,
    crawled: float,
    former: Callable[[], Mapping[str, Any]],
    default_age: float,
    now: float,
) -> bool:
    """Return whether a request lets a task that has a row run again; otherwise it changes nothing.

    Args:
        asked: its age is a number or None.
        crawled: when the task was crawled last, in seconds since the epoch; 0: never.
        former: returns the schedule of the row; asked only where it matters.
        default_age: of a request that names none.
        now: in seconds since the epoch.
    """
    if asked.force_update or (asked.itag and asked.itag != former().get("itag")):
        return True
    age: float = default_age if asked.age is None else asked.age
    return age >= 0 and age + crawled < now
