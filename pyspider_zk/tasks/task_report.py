"""Task report: all that is known of one task. What a script or a page wrote may be anything.

Beside it stand the reports of many tasks.
"""

import io
import json
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

from pyspider.database.base.taskdb import TaskDB

from pyspider_zk.errors import NotFound
from pyspider_zk.tasks.columns import LIMIT
from pyspider_zk.tasks.database import answered, task_database
from pyspider_zk.tasks.documents import DOCUMENTS, UNREADABLE
from pyspider_zk.tasks.failure_report import FailureReport
from pyspider_zk.tasks.failures import error_of, spellings
from pyspider_zk.tasks.task_search import TaskSearch

Row = Mapping[str, Any]

MOST_TEXT = 100_000
"""Characters of a document or log that are told, at most."""

_ENCODER = json.JSONEncoder(indent=2, ensure_ascii=False, default=repr)


class TaskReport:
    """Reports of single tasks.

    Threads: any; blocks for the databases, and raises ``Unavailable`` if one does not answer.

    Args:
        taskdb, resultdb: pyspider's; there may be no result database.
    """

    def __init__(self, taskdb: Any, resultdb: Any) -> None:
        self._taskdb = taskdb
        self._resultdb = resultdb

    def find(self, project: str, taskid: str) -> dict[str, Any]:
        """Return a task: its last try, its next one, and what is stored of it; see ``TaskSchema``.

        Raises:
            NotFound: there is none, or it cannot be read.
        """
        row = self._row(project, taskid)
        result = answered(lambda: self._result(project, row["taskid"]))
        schedule, process, track = (
            _mapping(row.get(each)) for each in ("schedule", "process", "track")
        )
        fetched, processed = _mapping(track.get("fetch")), _mapping(track.get("process"))
        ok = bool(processed.get("ok")) if processed else None
        is_active = row.get("status") == TaskDB.ACTIVE  # later its last time stays in the row
        return {
            **tried({**row, "project": project, "taskid": taskid}),
            "ok": ok,
            "state": TaskDB.status_to_string(row.get("status")),
            "callback": _text(process.get("callback")),
            "crawled_at": _measured(row.get("lastcrawltime")),
            "due_at": _measured(schedule.get("exetime")) if is_active else None,
            "retried": _counted(schedule.get("retried")),
            "retries": _counted(schedule.get("retries")),
            "priority": _measured(schedule.get("priority")),
            "error": error_of(processed, fetched) if ok is False else "",
            "logs": _text(processed.get("logs"))[:MOST_TEXT],
            "documents": {
                **{name: shown(row[name]) for name in DOCUMENTS if row.get(name)},
                **result,
            },
        }

    def _row(self, project: str, taskid: str) -> Row:
        database = task_database(self._taskdb)  # a new one knows the latest tables
        found = answered(lambda: database.get_many(project, spellings(taskid), ()))
        if not found:
            raise NotFound(f"project {project!r} has no task {taskid!r}")
        stored, row = next(iter(found.items()))
        if row is None:
            raise NotFound(f"the row of task {taskid!r} of project {project!r} cannot be read")
        return {**row, "taskid": stored}

    def _result(self, project: str, taskid: Any) -> dict[str, str]:
        """Return what is stored as a task's result, if there is one."""
        try:
            found = self._resultdb.get(project, taskid) if self._resultdb else None
        except UNREADABLE as error:
            return {"result": f"it cannot be read: {error!r:.200}"}
        return {"result": shown(found["result"])} if found else {}


class Reports(NamedTuple):
    """What is told of the tasks of all projects. Threads: any; blocks for the databases."""

    task: TaskReport
    failures: FailureReport
    search: TaskSearch

    @classmethod
    def of(cls, taskdb: Any, resultdb: Any) -> Self:
        """Return those by pyspider's databases."""
        return cls(TaskReport(taskdb, resultdb), FailureReport(taskdb), TaskSearch(taskdb))


def tried(task: Row) -> dict[str, Any]:
    """Return what a task says of its last try; one that is sent has none that has ended."""
    has_ended = "type" not in task  # only what is sent has one
    track = _mapping(task.get("track") if has_ended else None)
    fetched, processed = _mapping(track.get("fetch")), _mapping(track.get("process"))
    return {
        **{name: str(task.get(name)) for name in ("project", "taskid", "url")},
        "ok": bool(processed.get("ok")) if has_ended else None,
        "status_code": _counted(fetched.get("status_code")),
        "fetch_time": _measured(fetched.get("time")),
        "process_time": _measured(processed.get("time")),
        "follows": _counted(processed.get("follows")),
    }


def shown(value: Any, most: int = MOST_TEXT) -> str:
    """Return JSON for people, or its beginning: a page may have made it as large as it likes."""
    text, left = io.StringIO(), most
    try:
        for piece in _ENCODER.iterencode(value):
            left -= text.write(piece[:left])
            if left <= 0:
                return f"{text.getvalue()}\n... it is longer"
    except UNREADABLE as error:
        return f"it cannot be shown: {error!r:.200}"
    return text.getvalue()


def _mapping(value: object) -> Row:
    return value if isinstance(value, Mapping) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _counted(value: object) -> int | None:
    return value if type(value) is int else None


def _measured(value: object) -> float | None:
    return value if isinstance(value, int | float) and abs(value) < LIMIT else None
