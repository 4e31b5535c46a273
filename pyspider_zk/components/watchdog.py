"""Watchdog: the parent of a process whose work may hold or kill it, and which then forks the next.

Signals do not interrupt C, and a script may catch what they raise, so only another process can end
one for certain.
"""

import gc
import logging
import os
import signal
import sys
from contextlib import suppress
from time import monotonic
from typing import NoReturn

from pyspider_zk.components.parent_death import die_with
from pyspider_zk.components.task_mark import TaskMark, signal_name
from pyspider_zk.errors import Unavailable
from pyspider_zk.pauses import doubling, pause_after

logger = logging.getLogger(__name__)

GRACE = 5
"""Looks at a task whose time is over before it is ended: pyspider's own limit may still end it, and
a machine that stood still may go on."""

PAUSES = doubling(1.0, 30.0)
"""Seconds until a process is started anew that ended without a task."""

STEADY = 60.0
"""Seconds of life after which earlier ends are forgotten."""

_SIGNALS = (signal.SIGCHLD, signal.SIGALRM, signal.SIGTERM, signal.SIGINT)


class Watchdog:
    """Watchdog of one worker after the other, which have a mark in common. Threads: one, the main.

    A worker that ends by itself and without a task is done, and so is the watchdog, with the same
    exit code: a failure to start is told to whoever started it.

    Args:
        mark: of the task at hand.
        tick: seconds between two looks at it.
    """

    def __init__(self, mark: TaskMark, tick: float = 1.0) -> None:
        self._mark = mark
        self._tick = tick
        self._failures = 0  # in a row, without a task

    def guard(self) -> None:
        """Go on in a new process: return in each worker, and in this process never.

        Raises:
            SystemExit: in this process; the last worker has ended.
        """
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        signal.setitimer(signal.ITIMER_REAL, self._tick, self._tick)
        watchdog = os.getpid()
        gc.freeze()  # a collection would write to memory that is shared until somebody does
        while True:
            sys.stdout.flush()
            worker = os.fork()
            if not worker:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
                die_with(watchdog)
                return
            self._see_out(worker)

    def _see_out(self, worker: int) -> None:
        """Wait for the end of a worker; return if there shall be another one."""
        began, overdue = monotonic(), 0
        while (code := _code(worker)) is None:
            if self._next(worker) != signal.SIGALRM:
                continue
            overdue = overdue + 1 if self._mark.is_overdue else 0
            if overdue > GRACE:
                os.kill(worker, signal.SIGKILL)
        if self._mark.is_at_hand:
            self._note_loss(code, overdue=overdue > GRACE)
        elif self._mark.is_last or not self._is_recoverable(code):
            _end_as(code)
        else:
            self._failures = 1 if monotonic() - began > STEADY else self._failures + 1
            self._pause(code)

    def _next(self, worker: int = 0) -> int:
        """Wait for the next signal, and pass on those that ask for the end."""
        number = signal.sigwait(_SIGNALS)
        if number in (signal.SIGTERM, signal.SIGINT):
            self._mark.is_last = True
            if worker:
                os.kill(worker, number)
        return number

    def _note_loss(self, code: int, *, overdue: bool) -> None:
        self._failures = 0
        lost = self._mark.lose(code, overdue=overdue)
        named = [lost.task.get(key) for key in ("project", "taskid", "url")]
        logger.error("process %s:%s %s failed: %s", *named, lost.reason)

    def _is_recoverable(self, code: int) -> bool:
        """Return whether another worker may have more luck than one that ended without a task."""
        is_away = code == Unavailable.exit_code and self._mark.lost() is not None
        return code < 0 or is_away

    def _pause(self, code: int) -> None:
        """Wait before the next worker begins."""
        seconds = pause_after(self._failures, PAUSES)
        how = signal_name(-code) if code < 0 else f"code {code}"
        logger.warning("the worker ended (%s) and is started again in %g s", how, seconds)
        for _ in range(round(seconds / self._tick)):
            while self._next() != signal.SIGALRM:
                if self._mark.is_last:
                    _end_as(-signal.SIGTERM)


def _code(worker: int) -> int | None:
    """Return the exit code of a worker, None while it runs.

    In a container this may be the first process, and what a worker started and left is ours, too.
    """
    while True:
        ended, status = os.waitpid(-1, os.WNOHANG)
        if not ended:
            return None
        if ended == worker:
            return os.waitstatus_to_exitcode(status)


def _end_as(code: int) -> NoReturn:
    """End this process as another one ended."""
    if code < 0:
        with suppress(OSError):  # some signals have no handlers
            signal.signal(-code, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [-code])
        os.kill(os.getpid(), -code)
    raise SystemExit(code if code >= 0 else 128 - code)
