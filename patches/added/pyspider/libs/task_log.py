"""Log of what happens to tasks: a logger's lines, for half of the processor time."""

import contextlib
import logging
import os
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

from pyspider.libs.direct_lines import DirectLines, again, direct_lines, makes_usual_records


class TaskLog:
    """Logger of the few lines that a scheduler logs of every task.

    For each line a logger finds out anew who logs it, in which thread and process. Here that is
    found once for each kind of line. Levels, filters, handlers and formats are the logger's.

    Threads: any; lines of one thread at a time are the cheap ones.
    """

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._first: dict[str, logging.LogRecord] = {}
        self._direct: DirectLines | None = None

    @contextlib.contextmanager
    def flushed_late(self) -> Iterator[None]:
        """Let lines reach the log some milliseconds later, many together, while the block runs.

        Their order among all lines of the logger's handler is kept. Nothing changes with a logging
        config of which ``DirectLines`` does not know what it does, or where SIGTERM ends the
        process on the spot: set its handler first.
        """
        with direct_lines(self._logger, self._first) as self._direct:
            try:
                yield
            finally:
                self._direct = None

    def info(self, line: str, task: Mapping[str, Any]) -> None:
        """Log a line with values of a task.

        Args:
            line: one of few, logged from one place each; names the values as ``%(name)s``.
        """
        if not self._logger.isEnabledFor(logging.INFO):
            return
        direct = self._direct
        if direct is not None and direct.write(line, task):
            return
        if not makes_usual_records(self._logger):  # each may be another
            self._logger.info(line, task, stacklevel=2)
            return
        first = self._first.get(line)
        if first is None or _maker(first) != _here():
            first = self._first[line] = self._made(line)
        self._logger.handle(again(first, line, task, time.time()))

    def _made(self, line: str) -> logging.LogRecord:
        place = self._logger.findCaller(stacklevel=3)
        file, number, function, _ = place
        return self._logger.makeRecord(
            self._logger.name, logging.INFO, file, number, line, (), None, function
        )


def _maker(record: logging.LogRecord) -> tuple[int | None, int | None, str | None]:
    return record.process, record.thread, record.threadName


def _here() -> tuple[int, int, str]:
    """Return what a logger would find out; ids of threads that ended are given to others."""
    return os.getpid(), threading.get_ident(), threading.current_thread().name
