"""Log lines that outside text cannot forge: a task id, say, that holds a line break."""

import logging
import re
from dataclasses import dataclass
from itertools import chain

from pyspider_zk.terminal import escaped

LIMIT = 10_000
"""Characters of a message; of a longer one the log has the beginning."""

_PLAIN = re.compile("[ -~]*")
_INDENT = "    "
_tracebacks = logging.Formatter()


@dataclass(frozen=True)
class Escape:
    """A logging filter that drops nothing, and escapes messages in place."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Escape a record's message, and indent its traceback."""
        record.msg, record.args = _shortened(escaped(_message(record))), None
        if record.exc_info:
            record.exc_text = _indented(_tracebacks.formatException(record.exc_info))
        return True

    def leaves(self, message: str) -> bool:
        """Return whether a message, and each part of it, surely stays; ``DirectLines`` asks."""
        return len(message) <= LIMIT and _PLAIN.fullmatch(message) is not None


def keep_lines_apart() -> None:
    """Make every existing handler write one line per message, and indent tracebacks.

    Loggers of scripts, which pyspider makes later, keep their line breaks.
    """
    for handler in handlers():
        handler.addFilter(Escape())


def handlers() -> set[logging.Handler]:
    """Return every existing handler."""
    return set(chain.from_iterable(logger.handlers for logger in _loggers()))


def limited_message(record: logging.LogRecord) -> str:
    """Return a record's message, or the beginning of a long one; it may hold line breaks."""
    return _shortened(_message(record))


def _loggers() -> list[logging.Logger]:
    known = logging.root.manager.loggerDict.values()
    return [logging.root, *(logger for logger in known if isinstance(logger, logging.Logger))]


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception as error:  # whatever formatting a value raises
        return f"{record.msg!r} % {record.args!r}: {error!r}"


def _shortened(text: str) -> str:
    return text if len(text) <= LIMIT else f"{text[:LIMIT]}... ({len(text)} characters)"


def _indented(traceback: str) -> str:
    return "\n".join(_INDENT + escaped(line) for line in traceback.split("\n"))
