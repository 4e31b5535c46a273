"""What a log tells of a record, in whichever form: message, traceback, and the ids in it."""

import logging
import re
from collections.abc import Iterator, Mapping

from pyspider_zk.jobs.model import JobName

LIMIT = 10_000
"""Characters of a message; of a longer one the log has the beginning."""

# As pyspider and we write a task in a sentence. Only our own words stand before it: what a page
# says stands behind it, and may look the same. After a try's words there is always a task; after
# others it is known by its id, a hash or the name of a callback.
_TRY = re.compile(r"(?:\[\d+\]|fetch|process) (\w+):(\S+?)[,:]?(?:\s|$)")
_TASK = re.compile(r"(?:[a-z]+ )*([A-Za-z_]\w*):([0-9a-f]{32}|_?on_\w+)(?![^\s,:])")
_PROJECT = re.compile(
    r"(?:job \S+, )?(?:[a-z]+ )*project (?!database\b|that\b)([A-Za-z_]\w*)(?![^\s,:])"
)
_tracebacks = logging.Formatter()


def message_of(record: logging.LogRecord) -> str:
    """Return a record's whole message, even if its values do not fit into it."""
    try:
        return record.getMessage()
    except Exception as error:  # whatever formatting a value raises
        return f"{record.msg!r} % {record.args!r}: {error!r}"


def shortened(text: str) -> str:
    """Return the beginning of a text that is too long, which says so."""
    return text if len(text) <= LIMIT else f"{text[:LIMIT]}... ({len(text)} characters)"


def traceback_of(record: logging.LogRecord) -> str:
    """Return the traceback of a record, empty without one."""
    return _tracebacks.formatException(record.exc_info) if record.exc_info else ""


def ids_of(record: logging.LogRecord, message: str) -> dict[str, str]:
    """Return what a record is about: ``batch``, ``job``, ``project`` and ``task``, if known."""
    found = dict(_ids_of_values(record))
    if "project" in record.__dict__:
        found["project"] = str(record.__dict__["project"])
    if "task" not in found and (task := _TRY.match(message) or _TASK.match(message)):
        found |= {"project": task[1], "task": task[2]}
    if "project" not in found and (project := _PROJECT.match(message)):
        found["project"] = project[1]
    return found


def _ids_of_values(record: logging.LogRecord) -> Iterator[tuple[str, str]]:
    """Yield the ids of what a record was made with: a job's name, or a task."""
    values = record.args if isinstance(record.args, tuple) else (record.args,)
    for value in values:
        if isinstance(value, JobName):
            yield from (("batch", value.group), ("job", str(value)))
        elif isinstance(value, Mapping) and {"project", "taskid"} <= value.keys():
            yield from (("project", str(value["project"])), ("task", str(value["taskid"])))
