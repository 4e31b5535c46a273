"""Rules of pyspider about one task, as functions of what is known of it."""

from collections.abc import Mapping
from typing import Any, NamedTuple

TIMES = {"connect_timeout": 20.0, "timeout": 120.0, "process_time_limit": 30.0}
"""What limits a try, and in how many seconds unless the task says otherwise."""

LONGEST = 24 * 3600.0
"""Seconds after which a task in flight counts as lost whatever it may take."""

UNCONDITIONAL = "unconditional"
"""In a schedule: the next page comes whole, because the task was asked for again.

Otherwise its site may answer that nothing has changed since the last crawl, and no callback runs.
"""


class ScheduleTerms(NamedTuple):
    """What of a request's schedule tells whether its task runs again.

    Attributes:
        age: how old its last crawl may be, in seconds; negative: it never runs again for that.
        itag: whatever changes when the page does.
        force_update: whether it runs again in any case.
    """

    age: Any
    itag: Any
    force_update: Any

    @classmethod
    def of(cls, schedule: Mapping[str, Any]) -> "ScheduleTerms":
        """Return what a schedule asks for."""
        return cls(schedule.get("age"), schedule.get("itag"), schedule.get("force_update"))


def restarts(
    asked: ScheduleTerms,
    crawled: float,
    former: Mapping[str, Any],
    default_age: float,
    now: float,
) -> bool:
    """Return whether a request lets a task that has a row run again; otherwise it changes nothing.

    Args:
        asked: its age is a number or None.
        crawled: when the task was crawled last, in seconds since the epoch; 0: never.
        former: the schedule of the row.
        default_age: of a request that names none.
        now: in seconds since the epoch.
    """
    if is_asked_again(asked, former):
        return True
    age: float = default_age if asked.age is None else asked.age
    return age >= 0 and age + crawled < now


def is_asked_again(asked: ScheduleTerms, former: Mapping[str, Any]) -> bool:
    """Return whether a request lets a task run again whatever its age; see `restarts`."""
    return bool(asked.force_update or (asked.itag and asked.itag != former.get("itag")))


def schedule_again(
    schedule: Mapping[str, Any],
    asked: ScheduleTerms,
    former: Mapping[str, Any],
    *,
    is_pending: bool,
) -> dict[str, Any]:
    """Return the schedule of a task that runs again, which says whether its page comes whole.

    Args:
        schedule: that was asked for.
        former: the schedule of the row.
        is_pending: whether the page that was asked for before has yet to come.
    """
    was_asked = is_pending and former.get(UNCONDITIONAL, False)
    unmarked = {key: value for key, value in schedule.items() if key != UNCONDITIONAL}
    if was_asked or is_asked_again(asked, former):
        return {**unmarked, UNCONDITIONAL: True}
    return unmarked


def without_validators(track: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is known of a task's last crawl, but for what makes a request conditional."""
    fetched = track.get("fetch")
    return (
        {**track, "fetch": {**fetched, "headers": {}}} if isinstance(fetched, dict) else {**track}
    )


def recrawl_delay(schedule: Mapping[str, Any]) -> float | None:
    """Return in how many seconds a task runs again by itself that has ended; None: it does not."""
    if not schedule.get("auto_recrawl"):
        return None
    age: float = schedule.get("age", -1)
    return None if age < 0 else age


def retry_delay(
    schedule: Mapping[str, Any],
    retries: float,
    retried: float,
    delays: Mapping[Any, float],
    usual: Mapping[Any, float],
) -> float | None:
    """Return in how many seconds a task that failed is tried again; None: it is given up.

    Args:
        schedule: of the task. An age that is negative says nothing about failures.
        retries: how many times it may be tried again.
        retried: how many times it was.
        delays: of the script, by the number of tries before, in seconds; for all others, at the
            empty text. A negative one gives the task up.
        usual: likewise, for tries of which the script says nothing.
    """
    delay = _delay(retried, delays, _delay(retried, usual, 0))
    recrawl = recrawl_delay(schedule)
    if recrawl is not None:
        delay = min(delay, recrawl)
    elif retried >= retries:
        return None
    elif schedule.get("age", -1) >= 0:
        delay = min(delay, schedule["age"])
    return None if delay < 0 else delay


def _delay(retried: float, delays: Mapping[Any, float], otherwise: float) -> float:
    return delays.get(retried, delays.get("", otherwise))


def time_in_flight(task: Mapping[str, Any], usual: float) -> float:
    """Return in how many seconds a task counts as lost that is with fetcher or processor.

    Args:
        usual: of a task that names no limits; what one may take beyond them comes on top.
    """
    limits = {**(task.get("process") or {}), **(task.get("fetch") or {})}
    more = sum(_number(limits.get(name), least) - least for name, least in TIMES.items())
    return min(usual + max(0.0, more), LONGEST)


def _number(value: object, default: float) -> float:
    known = isinstance(value, int | float) and not isinstance(value, bool) and value > 0
    return float(value) if known else default  # type: ignore[arg-type]
