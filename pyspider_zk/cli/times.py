"""Times in records, for people. Anybody may have written one, so it may be no time at all.

Such a record is none the worse otherwise: a member with an odd clock keeps its slots and is shown.
"""

from datetime import UTC, datetime, timedelta

UNREADABLE = "unreadable"
"""What is shown in place of a time before the first year, or after the last, of the calendar."""


def moment(seconds: float) -> str:
    """Return a time, in seconds since the epoch, by the local clock."""
    try:
        return datetime.fromtimestamp(seconds, UTC).astimezone().isoformat(" ", "seconds")
    except (OverflowError, ValueError):
        return UNREADABLE


def age(since: float, now: float) -> str:
    """Return how long ago a time was; what is yet to come is new."""
    try:
        return str(max(timedelta(), timedelta(seconds=int(now - since))))
    except (OverflowError, ValueError):
        return UNREADABLE
