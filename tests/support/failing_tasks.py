"""Tasks that fail, as a scheduler leaves them in a task database."""

from typing import Any

from pyspider_zk.tasks.database import task_database
from pyspider_zk.tasks.failures import FailedTry
from pyspider_zk.tasks.writes import TaskWrite


def store_failures(
    taskdb: Any, project: str, kind: str, *taskids: str, at: float = 1e9, callback: str = "page"
) -> None:
    """Store tasks that are given up with an error of this kind, a second one after the other."""
    bulk = task_database(taskdb)
    writes = []
    for number, taskid in enumerate(taskids):
        url = f"http://site.example/{taskid}"
        processed = {"ok": False, "exception": kind, "logs": f"Traceback of {taskid}"}
        row = {"url": url, "status": taskdb.FAILED, "process": {"callback": callback}}
        columns = bulk.encoded({**row, "track": {"process": processed}})
        failure = FailedTry(url, kind, callback, 200, f"{kind} {taskid}", True, at + number)
        writes.append(TaskWrite(project, taskid, columns, True, failure))
    bulk.write_many(writes, lambda: None)
