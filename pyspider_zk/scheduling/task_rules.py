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


def recrawl_delay(schedule: Mapping[str, Any]) -> float | None:
    """Return in how many seconds a task runs again by itself that has ended; None: it does not."""
    if not schedule.get("auto_recrawl") or "age" not in schedule:
        return None
    age: float = schedule["age"]
    return age


def retry_delay(
    schedule: Mapping[str, Any],
    retries: float,
    retried: float,
    delays: Mapping[Any, float],
    last: float,
) -> float | None:
    """Return in how many seconds a task that failed is tried again; None: it is given up.

    Args:
        schedule: of the task.
        retries: how many times it may be tried again.
        retried: how many times it was.
        delays: by the number of tries before, in seconds; for all others, at the empty text.
        last: what counts where there is none for all others. A negative one gives the task up.
    """
    delay = delays.get(retried, delays.get("", last))
    recrawl = recrawl_delay(schedule)
    if recrawl is not None:
        delay = min(delay, recrawl)
    elif retried >= retries:
        return None
    elif "age" in schedule:
        delay = min(delay, schedule["age"])
    return None if delay < 0 else delay
