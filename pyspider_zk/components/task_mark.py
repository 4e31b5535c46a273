"""Mark of the task at hand, in memory that outlives the process which works on it."""

import ctypes
import json
import mmap
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum
from time import monotonic
from typing import Any

ROOM = 2**18
"""Bytes for a task's names; with longer ones it cannot be reported. Only what is used is taken."""

_ENCODER = json.JSONEncoder(default=repr)

NEVER = float("inf")
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
    """

    def __init__(self) -> None:
        self.is_last = False
        self._memory = mmap.mmap(-1, ctypes.sizeof(_Shared) + ROOM)
        self._shared = _Shared.from_buffer(self._memory)

    @contextmanager
    def at_hand(self, task: Mapping[str, Any]) -> Iterator[None]:
        """Mark a task while the block runs; a block within it belongs to the same task."""
        if self.is_at_hand:
            yield
            return
        self._write({key: task[key] for key in _KEPT if key in task})
        self._shared.deadline = NEVER
        self._shared.state = _State.AT_HAND
        try:
            yield
        finally:
            self._shared.state = _State.IDLE

    def limit(self, seconds: float) -> None:
        """Give the task at hand so many seconds from now; 0: as long as it likes."""
        self._shared.limit = seconds
        self._shared.deadline = monotonic() + seconds if seconds > 0 else NEVER

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
        data = _encoded(values)
        if len(data) > ROOM:
            data = _encoded({key: values[key] for key in ("reason",) if key in values})
        begin = ctypes.sizeof(_Shared)
        self._memory[begin : begin + len(data)] = data
        self._shared.length = len(data)

    def _read(self) -> dict[str, Any]:
        begin = ctypes.sizeof(_Shared)
        values: dict[str, Any] = json.loads(self._memory[begin : begin + self._shared.length])
        return values


def _encoded(values: Mapping[str, Any]) -> bytes:
    return _ENCODER.encode(values).encode()


def signal_name(number: int) -> str:
    """Return the name of a signal; some have only a number."""
    names = {each.value: each.name for each in signal.Signals}
    return names.get(number, f"signal {number}")


def _died(code: int) -> str:
    if code >= 0:
        return f"its process ended in the middle of it, with code {code}"
    hint = ", as the kernel does where memory is short" if code == -signal.SIGKILL else ""
    return f"its process was ended in the middle of it by {signal_name(-code)}{hint}"
