"""Logs of a process: lines that outside text cannot forge, or JSON.

A task id, say, may hold a line break. JSON is one object per line, with the ids by which a batch is
followed to its tasks.
"""

import json
import logging
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain

from pyspider_zk.components.log_records import ids_of, message_of, shortened, traceback_of
from pyspider_zk.terminal import escaped

TRAIL = "pyspider_zk.jobs.execution"
"""The logger that tells of each project of a job, at a level that pyspider's format leaves out."""

_INDENT = "    "


@dataclass(frozen=True)
class Escape:
    """A logging filter that drops nothing, and escapes messages in place."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Escape a record's message, and indent its traceback."""
        record.msg, record.args = shortened(escaped(message_of(record))), None
        if record.exc_info:
            lines = traceback_of(record).split("\n")
            record.exc_text = "\n".join(_INDENT + escaped(line) for line in lines)
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
        message = shortened(message_of(record))
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "component": self.component,
            "message": message,
            **ids_of(record, message),
        }
        if record.exc_info:
            line["traceback"] = traceback_of(record)
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
