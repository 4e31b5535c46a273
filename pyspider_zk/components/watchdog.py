"""Watchdog: the parent of a process whose work may hold or kill it, and which then forks the next.

Signals do not interrupt C, and a script may catch what they raise, so only another process can end
one for certain. What it knows of the task at hand is in memory that both have in common.
"""

import ctypes
import gc
import json
import logging
import mmap
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import IntEnum
from time import monotonic
from typing import Any, NoReturn
from uuid import uuid4

from pyspider_zk.components.parent_death import die_with
from pyspider_zk.errors import Unavailable
from pyspider_zk.pauses import doubling, pause_after

logger = logging.getLogger(__name__)

ROOM = 2**18
"""Bytes for a task's names; with longer ones it cannot be reported. Only what is used is taken."""

GRACE = 5
"""Looks at a task whose time is over before it is ended: pyspider's own limit may still end it, and
a machine that stood still may go on."""

PAUSES = doubling(1.0, 30.0)
"""Seconds until a process is started anew that ended without a task."""

STEADY = 60.0
"""Seconds of life after which earlier ends are forgotten."""

_SIGNALS = (signal.SIGCHLD, signal.SIGALRM, signal.SIGTERM, signal.SIGINT)
_ENCODER = json.JSONEncoder(default=repr)
_NEVER = float("inf")
_KEPT = ("taskid", "project", "url", "schedule")
"""What a scheduler needs to count a task as failed."""


class _State(IntEnum):
    IDLE = 0
    AT_HAND = 1
    LOST = 2  # its process ended in the middle of it, and nobody has reported that yet


class _Shared(ctypes.Structure):
    _fields_ = (
        ("state", ctypes.c_uint8),
        ("deadline", ctypes.c_double),
        ("limit", ctypes.c_double),
        ("overdue", ctypes.c_uint64),
        ("died", ctypes.c_uint64),
        ("length", ctypes.c_uint32),
    )


@dataclass(frozen=True)
class LostTask:
    """A task in the middle of which its process ended.

    Attributes:
        task: what of it was kept; empty if that was too long.
        reason: why the process ended, as a phrase.
    """

    task: Mapping[str, Any]
    reason: str


class TaskMark:
    """Mark of the task at hand, shared by a process and those that it forks from now on.

    Threads and processes: one writes at a time, a worker while it lives and then its watchdog. What
    is written stays when the writer is killed; a state is written last.

    Attributes:
        is_last: whether this process shall report what was lost, and end.
        name: of the processes that write, one after the other, as a consumer of pages.
    """

    def __init__(self) -> None:
        self.is_last = False
        self.name = uuid4().hex
        self._memory = mmap.mmap(-1, ctypes.sizeof(_Shared) + ROOM)
        self._shared = _Shared.from_buffer(self._memory)

    @contextmanager
    def at_hand(self, task: Mapping[str, Any]) -> Iterator[None]:
        """Mark a task while the block runs; a block within it belongs to the same task."""
        if self.is_at_hand:
            yield
            return
        self._write({key: task[key] for key in _KEPT if key in task})
        self._shared.deadline = _NEVER
        self._shared.state = _State.AT_HAND
        try:
            yield
        finally:
            self._shared.state = _State.IDLE

    def limit(self, seconds: float) -> None:
        """Give the task at hand so many seconds from now; 0: as long as it likes."""
        self._shared.limit = seconds
        self._shared.deadline = monotonic() + seconds if seconds > 0 else _NEVER

    @property
    def is_at_hand(self) -> bool:
        """Whether a task is at hand."""
        return bool(self._shared.state == _State.AT_HAND)

    @property
    def is_overdue(self) -> bool:
        """Whether a task is at hand whose time is over."""
        return self.is_at_hand and self._shared.deadline < monotonic()

    def lose(self, code: int, *, overdue: bool) -> LostTask:
        """Note that the process ended in the middle of its task.

        Args:
            code: its exit code, negative for a signal.
            overdue: whether it was ended because the time was over.
        """
        if overdue:
            self._shared.overdue += 1
        else:
            self._shared.died += 1
        lost = LostTask(self._read(), self._overdue() if overdue else _died(code))
        self._write({**lost.task, "reason": lost.reason})
        self._shared.state = _State.LOST
        return lost

    def lost(self) -> LostTask | None:
        """Return the task that is still to be reported as lost."""
        if self._shared.state != _State.LOST:
            return None
        task = self._read()
        return LostTask(task, task.pop("reason"))

    def reported(self) -> None:
        """Forget the lost task: it was reported."""
        self._shared.state = _State.IDLE

    def deaths(self) -> dict[str, float]:
        """Return how many processes ended in the middle of a task, by cause."""
        return {"overdue": self._shared.overdue, "died": self._shared.died}

    def _overdue(self) -> str:
        return f"it exceeded the time limit of {self._shared.limit:g} s, and its process was ended"

    def _write(self, values: Mapping[str, Any]) -> None:
        data = _ENCODER.encode(values).encode()
        if len(data) > ROOM:
            kept = {key: values[key] for key in ("reason",) if key in values}
            data = json.dumps(kept).encode()
        begin = ctypes.sizeof(_Shared)
        self._memory[begin : begin + len(data)] = data
        self._shared.length = len(data)

    def _read(self) -> dict[str, Any]:
        begin = ctypes.sizeof(_Shared)
        values: dict[str, Any] = json.loads(self._memory[begin : begin + self._shared.length])
        return values


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
        how = _signal_name(-code) if code < 0 else f"code {code}"
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


def _signal_name(number: int) -> str:
    """Return the name of a signal; some have only a number."""
    names = {each.value: each.name for each in signal.Signals}
    return names.get(number, f"signal {number}")


def _died(code: int) -> str:
    if code >= 0:
        return f"its process ended in the middle of it, with code {code}"
    hint = ", as the kernel does where memory is short" if code == -signal.SIGKILL else ""
    return f"its process was ended in the middle of it by {_signal_name(-code)}{hint}"
