"""Lines that are written past a logger, many at once, if it would write just the same."""

import contextlib
import logging
import select
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any

import tornado.log
from pyspider.libs.delayed_flush import DelayedFlush, can_wait
from pyspider.libs.log import LogFormatter

PIECE = select.PIPE_BUF
"""Bytes that a pipe takes in one piece."""

LINES = 32
"""Lines that wait at most: about a piece."""

# What stands before a message is the same for all lines of one place within one second.
_FORMAT = "%(color)s[%(levelname)1.1s %(asctime)s %(module)s:%(lineno)d]%(end_color)s %(message)s"


@dataclass(slots=True)
class _Kind:
    """What the lines of one kind have in common within a second.

    Attributes:
        first: the record of the first one.
        template: of a whole line, without its end.
        start: where the message begins.
    """

    first: logging.LogRecord
    template: str
    start: int


_Line = tuple[_Kind, str]


def makes_usual_records(logger: logging.Logger) -> bool:
    """Return whether a logger's records are those of the library."""
    makes = type(logger).makeRecord is logging.Logger.makeRecord
    return makes and logging.getLogRecordFactory() is logging.LogRecord


def again(
    first: logging.LogRecord, message: str, task: Mapping[str, Any] | None, now: float
) -> logging.LogRecord:
    """Return a record like the first of its kind, with another message and time."""
    record = logging.LogRecord.__new__(logging.LogRecord)
    record.__dict__.update(first.__dict__)
    record.msg = message
    record.args = task  # type: ignore[assignment]  # as a logger does with a mapping
    record.created = now
    record.msecs = int(now % 1 * 1000) + 0.0
    record.relativeCreated = first.relativeCreated + (now - first.created) * 1000
    return record


@contextlib.contextmanager
def direct_lines(
    logger: logging.Logger, firsts: Mapping[str, logging.LogRecord]
) -> Iterator["DirectLines | None"]:
    """Give a logger's direct lines while the block runs; None if it must write each by itself.

    Args:
        firsts: the record of the first line of each kind, by its message; may grow.
    """
    handlers = logger.handlers
    if type(logger) is not logging.Logger or len(handlers) != 1 or not can_wait(handlers[0]):
        yield None
        return
    (handler,) = handlers
    lines = DirectLines(logger, handler, firsts)
    # New lists, as other threads may be passing through the old one.
    handler.filters = [lines, *handler.filters]
    try:
        with lines.delay:
            yield lines
    finally:
        handler.filters = [each for each in handler.filters if each is not lines]


class DirectLines:
    """Writer of a logger's lines at level INFO, for a fifth of the processor time.

    Lines wait for each other, ``DELAY`` at most, and are written in one piece: other processes
    that write to the same pipe do not come between. Their time is when the first began to wait.

    They are written past the logger only while its way is known: with one handler and pyspider's
    format, as in pyspider's own ``logging.conf``, without colours, and no filter that may have a
    say. A filter with a method ``leaves`` tells by it of a text that it neither drops nor changes
    any message that is a part of it. All this is looked at before lines wait, and again before
    they are written; once a second, what nobody changes but who replaces code. What may not be
    written so is written by the logger, each line by itself.

    This is also the handler's first filter: before any other record it writes what waits.

    Threads: any. A line is put where lines wait without a lock, so whoever logs does not wait for
    the stream.

    Args:
        handler: the logger's only one.
        firsts: the record of the first line of each kind, by its message; may grow.

    Attributes:
        delay: lines wait only while its block runs.
    """

    def __init__(
        self,
        logger: logging.Logger,
        handler: "logging.StreamHandler[Any]",
        firsts: Mapping[str, logging.LogRecord],
    ) -> None:
        self._logger = logger
        self._handler = handler
        self._handlers = [handler]
        self._stream = handler.stream
        self._lock = handler.lock
        self._firsts = firsts
        self._since = 0.0
        self._made: dict[str, _Kind] = {}
        self._made_at = (0, 0)  # the second, and how many kinds there were
        self._is_writing = False
        self._waiting: deque[_Line] = deque()
        self._kinds: dict[str, _Kind] = {}  # none while no flush will come for what is added
        self.delay = DelayedFlush(self.flush, self._waiting.clear, self._lock)

    def write(self, line: str, task: Mapping[str, Any]) -> bool:
        """Write a line with values of a task, unless the logger must; return whether it was done.

        Args:
            task: may be changed afterwards.
        """
        try:
            kinds = self._kinds or self._begin()
            kind = kinds.get(line)
            if kind is None or self._handler.level > logging.INFO:
                return False
            text = kind.template % task
        except Exception:  # whatever a value or the formatter raises: the logger knows what to do
            return False
        self._waiting.append((kind, text))
        # First added, then looked: a flush by another thread takes the line, or is seen here.
        if len(self._waiting) >= LINES or self._kinds is not kinds:
            self.flush()
        return True

    def flush(self) -> None:
        """Write what waits."""
        with self._lock:
            if self._is_writing:  # by this thread: what came since then comes after it
                return
            self._is_writing = True
            try:
                self._kinds = {}
                lines: list[_Line] = []
                while self._waiting:  # no copy, as others add
                    lines.append(self._waiting.popleft())
                if lines and self._is_usual():
                    self._write(lines)
                else:
                    self._log(lines)
            finally:
                self._is_writing = False

    def filter(self, _: logging.LogRecord) -> bool:
        """Write what waits before the handler writes a record."""
        self.flush()
        return True

    def leaves(self, _: str) -> bool:
        """Return that this filter drops and changes nothing."""
        return True

    def _begin(self) -> dict[str, _Kind]:
        """Let lines wait from now on; return those kinds that may."""
        with self._lock:
            if self._kinds or not self.delay.is_open or not self._is_usual():
                return self._kinds
            now = time.time()
            if self._made_at != (int(now), len(self._firsts)):
                self._made_at = (int(now), len(self._firsts))
                self._made = self._kinds_at(now)
            self._since = now
            if self._made:
                self._kinds = self._made
                self.delay.call_soon()
            return self._kinds

    def _kinds_at(self, now: float) -> dict[str, _Kind]:
        if not _is_original(self._logger, self._handler):
            return {}
        kinds = {}
        for line, first in list(self._firsts.items()):
            prefix = self._handler.format(again(first, "", None, now))
            kinds[line] = _Kind(first, prefix.replace("%", "%%") + line, len(prefix))
        return kinds

    def _is_usual(self) -> bool:
        """Return whether nothing but its message can keep a line from being written directly."""
        logger, handler = self._logger, self._handler
        formatter = handler.formatter
        return (
            logger.handlers == self._handlers
            and not logger.propagate
            and not logger.filters
            and handler.filters[:1] == [self]
            and all(hasattr(each, "leaves") for each in handler.filters)
            and handler.stream is self._stream
            and handler.terminator == "\n"
            and type(formatter) is LogFormatter
            and formatter._fmt == _FORMAT
            and bool(formatter.datefmt)  # without, a time has milliseconds
            and not formatter._colors
        )

    def _write(self, lines: Sequence[_Line]) -> None:
        """Write lines in one piece; in several if some are long, or the logger's."""
        texts = [text for _, text in lines]
        if self._are_plain(texts):
            try:
                self._stream.write("\n".join(texts) + "\n")
                self._stream.flush()
            except Exception:
                self._handler.handleError(self._record(*lines[-1]))
        elif len(lines) == 1:
            self._log(lines)
        else:
            half = len(lines) // 2
            self._write(lines[:half])
            self._write(lines[half:])

    def _are_plain(self, texts: Sequence[str]) -> bool:
        """Return whether the handler would write the texts as they are, and a pipe take them."""
        text = "".join(texts)
        if len(text) + len(texts) > PIECE or not text.isascii() or "\n" in text:
            return False
        try:
            return all(each.leaves(text) for each in self._handler.filters)
        except Exception:  # whatever a filter raises: the logger knows what to do
            return False

    def _log(self, lines: Sequence[_Line]) -> None:
        """Let the logger write lines, each by itself."""
        for line in lines:
            record = self._record(*line)
            try:
                self._logger.handle(record)
            except Exception:  # a filter's, say: the other lines are written all the same
                self._handler.handleError(record)

    def _record(self, kind: _Kind, text: str) -> logging.LogRecord:
        return again(kind.first, text[kind.start :], None, self._since)


def _is_original(logger: logging.Logger, handler: logging.Handler) -> bool:
    """Return whether nobody replaced what is passed over, as tools do that watch programs."""
    return (
        makes_usual_records(logger)
        and _are_of(logging, logger, "handle", "filter", "callHandlers")
        and _are_of(logging, handler, "handle", "filter", "format", "emit", "flush")
        and _are_of(logging, handler.formatter, "formatTime")
        and _are_of(tornado.log, handler.formatter, "format")
    )


def _are_of(module: ModuleType, owner: object, *methods: str) -> bool:
    functions = [getattr(getattr(owner, name), "__func__", None) for name in methods]
    return all(
        type(each) is FunctionType and each.__globals__ is vars(module) for each in functions
    )
