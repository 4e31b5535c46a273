"""Form of the history: what is counted in which steps of time, and read for which spans of it."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import date, timedelta
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from pyspider_zk.queues.names import history_key

DAY = 86_400
KEPT = 15 * DAY
"""Seconds for which a day's sums are kept after the last addition."""

PROJECT_STEP, CLUSTER_STEP = 3600, 300
"""Seconds that are counted together: 72 small fields a day stay one block, of 1.4 KB."""

ENDS = ("success", "failed", "retry")
"""How tries end: what is counted of a project, too."""

TIMES: Mapping[str, str] = MappingProxyType({"fetch_time": "fetches", "process_time": "calls"})
"""Sums in microseconds, and how many times are in each."""

PENDING = "pending"
"""Sum of the pending tasks, times the seconds for which they were: members need not agree when."""

MEASURES = (*ENDS, *TIMES, *TIMES.values(), PENDING)

LATE = 120
"""Seconds after which all members have added what belongs to a step."""

Sums = Mapping[str, Mapping[str, int]]
"""What to add, by key and field."""


class Span(NamedTuple):
    """How many seconds are read, and how many of them are told together at least."""

    length: int
    step: int


SPANS: Mapping[str, Span] = MappingProxyType(
    {
        "day": Span(DAY, CLUSTER_STEP),
        "week": Span(7 * DAY, 3600),
        "fortnight": Span(14 * DAY, 7200),
    }
)


class TaskHistory(Protocol):
    """Sums by key and field, which `field_at` names. Threads: any. Blocks for some round trips.

    Both methods raise ``Unavailable`` if the message queue does not answer.
    """

    def add(self, adder: str, number: int, sums: Sums) -> None:
        """Add to the sums, all or nothing.

        Args:
            adder: who adds; one thread.
            number: of this addition; one that is repeated, for its answer was lost, adds nothing.
        """

    def read(self, keys: Sequence[str], fields: Sequence[str]) -> list[list[int]]:
        """Return the values of these fields, of each key; 0 for what is not there, or no sum."""


def field_at(at: float, project: str, measure: str) -> tuple[str, str]:
    """Return the key and the field of what is counted at a time.

    Args:
        at: in seconds since the epoch.
        project: its name; empty: the cluster.
    """
    day, second = divmod(int(at), DAY)
    return _key(day, project), f"{second // _step(project)}:{measure}"


def read_history(history: TaskHistory, project: str, span: str, now: float) -> dict[str, Any]:
    """Return what was counted in each step of a span, the oldest first; see ``HistorySchema``."""
    length, coarse = SPANS[span]
    step = max(_step(project), coarse)
    steps = length // step
    first = (int(now) // step - steps + 1) * step
    sums = {each: [0] * steps for each in MEASURES}
    for at, measure, value in _cells(history, project, range(first // DAY, int(now) // DAY + 1)):
        place = (at - first) // step
        if 0 <= place < steps:
            sums[measure][place] += value
    over = 0 if project else int(now - LATE - first) // step
    pending = [each / step if place < over else None for place, each in enumerate(sums[PENDING])]
    ends = {each: sums[each] for each in ENDS}
    return {"at": first, "step": step, **ends, **_averages(sums), PENDING: pending}


def _cells(
    history: TaskHistory, project: str, days: Sequence[int]
) -> Iterator[tuple[int, str, int]]:
    """Yield all sums of some days, each after the time when its step began and its measure."""
    step, measures = _step(project), ENDS if project else MEASURES
    cells = [(second, each) for second in range(0, DAY, step) for each in measures]
    fields = [f"{second // step}:{measure}" for second, measure in cells]
    found = history.read([_key(day, project) for day in days], fields)
    for day, values in zip(days, found, strict=True):
        for (second, measure), value in zip(cells, values, strict=True):
            yield day * DAY + second, measure, value


def _averages(sums: Mapping[str, list[int]]) -> dict[str, list[float | None]]:
    """Return the times in seconds; None where nothing took any."""
    return {
        name: [
            total / number / 1e6 if number else None
            for total, number in zip(sums[name], sums[each], strict=True)
        ]
        for name, each in TIMES.items()
    }


def _step(project: str) -> int:
    return PROJECT_STEP if project else CLUSTER_STEP


def _key(day: int, project: str) -> str:
    return history_key((date(1970, 1, 1) + timedelta(days=day)).isoformat(), project)
