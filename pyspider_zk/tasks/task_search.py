"""Task search: finds tasks of all projects by their URL, state and time, some with each look.

No index leads to a part of a URL. So rows are read in the order of their tables, for some tenths of
a second at a time, and a cursor tells where the next look goes on. First come the few rows that
have the id which the text would have if it were a whole URL.
"""

import math
import re
import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from threading import Lock
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from pyspider.database.base.taskdb import TaskDB

from pyspider_zk.errors import BadRequest
from pyspider_zk.tasks.database import TaskDatabase, answered, task_database
from pyspider_zk.tasks.failures import spellings
from pyspider_zk.tasks.filters import TaskFilter
from pyspider_zk.tasks.pages import FOUND, FoundPage, FoundRow

LOOK_FOR = 0.3  # seconds

Place = tuple[str, str]
"""What a project's tasks are searched by, ``id`` or ``row``, and the project."""

Position = int | str | None
"""Of the last row that was looked at; None: none of the project was."""

Cursor = tuple[Place, Position]

CURSOR = r"^(?:(id|row) ([^ \x00]*)(?: (?:#(-?[0-9]{1,19})|=([^\x00]*)))?)?\Z"
"""How a place and a position are written, the position as a number, or as an id; empty: none."""


class FoundTask(NamedTuple):
    """A task that was found.

    Attributes:
        state: ACTIVE, SUCCESS, FAILED or BAD.
        crawled_at: when its last try ended, in seconds since the epoch; None: it had none.
    """

    project: str
    taskid: str
    url: str
    state: str
    crawled_at: float | None


class FoundTasks(NamedTuple):
    """What one look found.

    Attributes:
        cursor: of the next look; empty: all was looked at.
        rows: how many were looked at this time.
        projects: how many are done.
        of: how many there are.
    """

    tasks: Sequence[FoundTask]
    cursor: str
    rows: int
    projects: int
    of: int


class TaskSearch:
    """Search of the tasks of all projects.

    Threads: any, one after the other. It has a connection of its own: pyspider's database objects
    list their tables for all who share them, one by one.

    Args:
        taskdb: pyspider's.
        size: rows that a database reads at once.
    """

    def __init__(
        self, taskdb: Any, clock: Callable[[], float] = time.monotonic, size: int = 5000
    ) -> None:
        self._taskdb = taskdb
        self._lock = Lock()
        self._size = size
        self._clock = clock

    def look(self, wanted: TaskFilter, cursor: str = "", limit: int = 25) -> FoundTasks:
        """Look on for some tenths of a second, or until about that many are found.

        Raises:
            BadRequest: the cursor is none of a look.
            Unavailable: the database does not answer.
        """
        before = _parsed(cursor)
        with self._lock:
            return answered(lambda: self._look(task_database(self._own), wanted, before, limit))

    @cached_property
    def _own(self) -> Any:
        return self._taskdb.copy()

    def close(self) -> None:
        """Close its connection."""
        own = vars(self).pop("_own", None)
        if hasattr(own, "close"):  # pyspider's sqlite has none
            own.close()

    def _look(
        self, database: TaskDatabase, wanted: TaskFilter, before: Cursor | None, limit: int
    ) -> FoundTasks:
        until = self._clock() + LOOK_FOR
        projects = sorted(each for each in database.projects() if wanted.project in (None, each))
        ways = ("id", "row") if wanted.url else ("row",)
        order = [(by, project) for by in ways for project in projects]
        index, position = 0, None
        if before:
            index = bisect_left(order, before[0])
            position = before[1] if order[index : index + 1] == [before[0]] else None
        tasks: list[FoundTask] = []
        rows = 0
        while index < len(order):
            page = self._page(database, wanted, order[index], position, limit - len(tasks))
            tasks += [_found(order[index][1], row) for row in page.rows]
            rows += page.looked_at
            position = page.last
            index += position is None
            if len(tasks) >= limit or self._clock() > until:
                break
        cursor = _cursor(order[index], position) if order[index:] else ""
        done = max(0, index - (len(order) - len(projects)))
        return FoundTasks(tasks, cursor, rows, done, len(projects))

    def _page(
        self,
        database: TaskDatabase,
        wanted: TaskFilter,
        place: Place,
        after: Position,
        limit: int,
    ) -> FoundPage:
        """Return what is found at a place; a task that is found by its id is not found again."""
        by, project = place
        if by == "row":
            page = database.search_page(project, wanted, after, self._size, limit)
            return replace(page, rows=[row for row in page.rows if str(row[0]) not in wanted.ids])
        ids = [spelling for each in wanted.ids for spelling in spellings(each)]
        known = database.get_many(project, ids, FOUND[1:])
        rows = ((str(taskid), *map(row.get, FOUND[1:])) for taskid, row in known.items() if row)
        found = [row for row in rows if wanted.holds(*row[2:])]
        return FoundPage(list(dict.fromkeys(found)), 0, None)  # one may be found by two spellings


def _parsed(cursor: str) -> Cursor | None:
    if not cursor:
        return None
    found = re.match(CURSOR, cursor)
    if not found or abs(int(found[3] or 0)) >= 2**63:
        raise BadRequest(f"the cursor {cursor!r:.80} is none of a search")
    by, project, number, taskid = found.groups()
    return (by, unquote(project)), taskid if number is None else int(number)


def _cursor(place: Place, position: Position) -> str:
    mark = "" if position is None else f" {'#' if isinstance(position, int) else '='}{position}"
    by, project = place
    return f"{by} {quote(project, safe='')}{mark}"


def _found(project: str, row: FoundRow) -> FoundTask:
    taskid, url, status, crawled = row
    is_time = isinstance(crawled, int | float) and math.isfinite(crawled)  # sqlite takes anything
    state, at = TaskDB.status_to_string(status), float(crawled) if is_time else None
    return FoundTask(project, str(taskid), str(url), state, at)
