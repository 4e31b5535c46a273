"""Rules of pyspider about one task, as functions of what is known of it."""

from collections.abc import Callable, Mapping
from typing import Any


def restarts(
    schedule: Mapping[str, Any],
    crawled: float,
    former: Callable[[], Mapping[str, Any]],
    default_age: float,
    now: float,
) -> bool:
    """Return whether a request lets a task that has a row run again; otherwise it changes nothing.

    Args:
        schedule: the request's; its age is a number or None.
        crawled: when the task was crawled last, in seconds since the epoch; 0: never.
        former: returns the schedule of the row; asked only where it matters.
        default_age: of a request that names none, in seconds; negative: the task never runs again.
        now: in seconds since the epoch.
    """
    itag = schedule.get("itag")
    if schedule.get("force_update") or (itag and itag != former().get("itag")):
        return True
    given = schedule.get("age")
    age: float = default_age if given is None else given
    return age >= 0 and age + crawled < now
