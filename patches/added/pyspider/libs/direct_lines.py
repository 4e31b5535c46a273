"""Lines that are written past a logger if it would write just the same."""

import contextlib
import copy
import logging
import time
from collections.abc import Iterator, Mapping
from types import FunctionType, ModuleType
from typing import Any

import tornado.log
from pyspider.libs.delayed_flush import DelayedFlush, can_wait
from pyspider.libs.log import LogFormatter

# What stands before a message is the same for all lines of one place within one second.
_FORMAT = "%(color)s[%(levelname)1.1s %(asctime)s %(module)s:%(lineno)d]%(end_color)s %(message)s"
_NEVER: tuple[int, str | None] = (-1, None)


def makes_usual_records(logger: logging.Logger) -> bool:
    """Return whether a logger's records are those of the library."""
    makes = type(logger).makeRecord is logging.Logger.makeRecord
    return makes and logging.getLogRecordFactory() is logging.LogRecord


@contextlib.contextmanager
def direct_lines(logger: logging.Logger) -> Iterator["DirectLines | None"]:
    """Give a logger's direct lines while the block runs; None if it must write each by itself."""
    handlers = logger.handlers
    if type(logger) is not logging.Logger or len(handlers) != 1 or not can_wait(handlers[0]):
        yield None
        return
    with DelayedFlush(handlers[0]) as stream:
        yield DirectLines(logger, handlers[0], stream)


class DirectLines:
    """Writer of a logger's lines at level INFO, for a third of the processor time.

    It writes only those of which the logger's way is known: with one handler and pyspider's
    format, as in pyspider's own ``logging.conf``, and no filter that may have a say. A filter with
    a method ``leaves`` tells by it which messages it neither drops nor changes. All this is
    looked at with each line; once a second, what nobody changes but who replaces code.

    Threads: any.

    Args:
        handler: the logger's only one.
        stream: the handler's.
    """

    def __init__(
        self, logger: logging.Logger, handler: logging.Handler, stream: DelayedFlush
    ) -> None:
        self._logger = logger
        self._handler = handler
        self._handlers = [handler]
        self._formatter = handler.formatter
        self._stream = stream
        self._prefixes: dict[str, tuple[int, str | None]] = {}

    def write(self, first: logging.LogRecord, task: Mapping[str, Any]) -> bool:
        """Write a line with values of a task, unless the logger must; return whether it was done.

        Args:
            first: a record of a line of this kind.
        """
        logger, handler = self._logger, self._handler
        if not (
            logger.handlers == self._handlers
            and not logger.propagate
            and not logger.filters
            and handler.level <= logging.INFO
            and handler.formatter is self._formatter
            and handler.stream is self._stream.stream
        ):
            return False
        try:
            prefix, message = self._prefix(first), first.msg % task
            if prefix is None or not self._is_left(message):
                return False
            return self._stream.write(f"{prefix}{message}{handler.terminator}")
        except Exception:  # whatever a value or the stream raises: the logger knows what to do
            return False

    def _is_left(self, message: str) -> bool:
        """Return whether the handler would write the message as it is."""
        if not message.isascii() or "\n" in message:
            return False
        for each in self._handler.filters:
            leaves = getattr(each, "leaves", None)
            if leaves is None or not leaves(message):
                return False
        return True

    def _prefix(self, first: logging.LogRecord) -> str | None:
        """Return what the formatter puts before the message; None if that is not all it does."""
        now = int(time.time())
        second, prefix = self._prefixes.get(first.msg, _NEVER)
        if second != now:
            prefix = self._made(first, now)
            self._prefixes[first.msg] = now, prefix
        return prefix

    def _made(self, first: logging.LogRecord, now: int) -> str | None:
        formatter = self._formatter
        if type(formatter) is not LogFormatter or formatter._fmt != _FORMAT:
            return None
        # Without a format of its own a time has milliseconds.
        if not formatter.datefmt or not self._is_original():
            return None
        record = copy.copy(first)
        record.msg, record.args, record.created = "", None, now
        return formatter.format(record)

    def _is_original(self) -> bool:
        """Return whether nobody replaced what is passed over, as tools that watch programs do."""
        return (
            makes_usual_records(self._logger)
            and _are_of(logging, self._logger, "handle", "filter", "callHandlers")
            and _are_of(logging, self._handler, "handle", "filter", "format", "emit", "flush")
            and _are_of(logging, self._formatter, "formatTime")
            and _are_of(tornado.log, self._formatter, "format")
        )


def _are_of(module: ModuleType, owner: object, *methods: str) -> bool:
    functions = [getattr(getattr(owner, name), "__func__", None) for name in methods]
    return all(
        type(each) is FunctionType and each.__globals__ is vars(module) for each in functions
    )
