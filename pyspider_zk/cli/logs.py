"""Logs of a process: lines that outside text cannot forge, or JSON.

A task id, say, may hold a line break. JSON is one object per line, with the ids by which a batch is
followed to its tasks.
"""

import json
import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain

from pyspider_zk.jobs.model import JobName
from pyspider_zk.terminal import escaped

LIMIT = 10_000
"""Characters of a message; of a longer one the log has the beginning."""

TRAIL = "pyspider_zk.jobs.execution"
"""The logger that tells of each project of a job, at a level that pyspider's format leaves out."""

# As pyspider and we write a task in a sentence; its id is a hash, or names a callback. Only our own
# words stand before it: what a page says stands behind it, and may look the same.
_TASK = re.compile(r"(?:\[\d+\] |[a-z]+ )*([A-Za-z_]\w*):([0-9a-f]{32}|_?on_\w+)(?![^\s,:])")
_INDENT = "    "
_tracebacks = logging.Formatter()


@dataclass(frozen=True)
class Escape:
    """A logging filter that drops nothing, and escapes messages in place."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Escape a record's message, and indent its traceback."""
        record.msg, record.args = _shortened(escaped(_message(record))), None
        if record.exc_info:
            traceback = _tracebacks.formatException(record.exc_info)
            record.exc_text = "\n".join(_INDENT + escaped(line) for line in traceback.split("\n"))
        return True


def keep_lines_apart() -> None:
    """Make every existing handler write one line per message, and indent tracebacks.

    Loggers of scripts, which pyspider makes later, keep their line breaks.
    """
    for handler in _handlers():
        handler.addFilter(Escape())


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
        message = _shortened(_message(record))
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "component": self.component,
            "message": message,
            **_ids(record, message),
        }
        if record.exc_info:
            line["traceback"] = _tracebacks.formatException(record.exc_info)
        return json.dumps(line)


def write_json(component: str) -> None:
    """Make every existing handler write JSON."""
    for handler in _handlers():
        handler.setFormatter(JsonLines(component))
    logging.getLogger(TRAIL).setLevel(logging.DEBUG)


def name_component(component: str) -> None:
    """Say which component this process is, if it writes JSON."""
    for handler in _handlers():
        if isinstance(handler.formatter, JsonLines):
            handler.formatter.component = component


def _handlers() -> set[logging.Handler]:
    known = logging.root.manager.loggerDict.values()
    loggers = [logging.root, *(each for each in known if isinstance(each, logging.Logger))]
    return set(chain.from_iterable(logger.handlers for logger in loggers))


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception as error:  # whatever formatting a value raises
        return f"{record.msg!r} % {record.args!r}: {error!r}"


def _shortened(text: str) -> str:
    return text if len(text) <= LIMIT else f"{text[:LIMIT]}... ({len(text)} characters)"


def _ids(record: logging.LogRecord, message: str) -> dict[str, str]:
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
