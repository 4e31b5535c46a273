"""JSON logs: one object per line, with the ids by which a batch is followed to its tasks."""

import json
import logging
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from pyspider_zk.cli.log_lines import handlers, limited_message
from pyspider_zk.jobs.model import JobName

# As pyspider and we write a task in a sentence; its id is a hash, or names a callback. Only our own
# words stand before it: what a page says stands behind it, and may look the same.
_TASK = re.compile(r"(?:\[\d+\] |[a-z]+ )*([A-Za-z_]\w*):([0-9a-f]{32}|_?on_\w+)(?![^\s,:])")
_tracebacks = logging.Formatter()

TRAIL = "pyspider_zk.jobs.execution"
"""The logger that tells of each project of a job, at a level that pyspider's format leaves out."""


class JsonLines(logging.Formatter):
    """Formatter of records as JSON.

    Attributes:
        component: which component of pyspider this process is.
    """

    def __init__(self, component: str) -> None:
        super().__init__()
        self.component = component

    def format(self, record: logging.LogRecord) -> str:
        """Return a record's line."""
        message = limited_message(record)
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "component": self.component,
            "message": message,
            **ids(record, message),
        }
        if record.exc_info:
            line["traceback"] = _tracebacks.formatException(record.exc_info)
        return json.dumps(line)


def write_json(component: str) -> None:
    """Make every existing handler write JSON."""
    for handler in handlers():
        handler.setFormatter(JsonLines(component))
    logging.getLogger(TRAIL).setLevel(logging.DEBUG)


def name_component(component: str) -> None:
    """Say which component this process is, if it writes JSON."""
    for handler in handlers():
        if isinstance(handler.formatter, JsonLines):
            handler.formatter.component = component


def ids(record: logging.LogRecord, message: str) -> dict[str, str]:
    """Return the ids that a record has: of the batch, the job, the project and the task."""
    found = dict(_ids_of_values(record))
    if "project" in record.__dict__:
        found["project"] = str(record.__dict__["project"])
    if "task" not in found and (task := _TASK.match(message)):
        found |= {"project": task[1], "task": task[2]}
    return found


def _ids_of_values(record: logging.LogRecord) -> Iterator[tuple[str, str]]:
    """Yield the ids of what a record was made with: a job's name, or a task."""
    values = record.args if isinstance(record.args, tuple) else (record.args,)
    for value in values:
        if isinstance(value, JobName):
            yield from (("batch", value.group), ("job", str(value)))
        elif isinstance(value, Mapping) and {"project", "taskid"} <= value.keys():
            yield from (("project", str(value["project"])), ("task", str(value["taskid"])))
