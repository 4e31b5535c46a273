"""A wall clock that the harness can shift while the process runs; Python reads it at its start.

It stands in for libfaketime, whose release 0.9.10 makes ``poll`` return at once and Python's
``sleep`` fail, so that whatever runs under it is disturbed all the time; and a time namespace has
no wall clock of its own. Only the wall clock of Python code is shifted, which is all that a
scheduler reads; the lease's clock counts from boot and stays true.
"""

import mmap
import os
import struct
import time

_true_time, _true_time_ns = time.time, time.time_ns

with open(os.environ["CHAOS_CLOCK"], "rb") as _file:
    _shift = mmap.mmap(_file.fileno(), 8, access=mmap.ACCESS_READ)


def _seconds() -> float:
    return float(struct.unpack("d", _shift)[0])


def _time() -> float:
    return _true_time() + _seconds()


def _time_ns() -> int:
    return _true_time_ns() + round(_seconds() * 1e9)


time.time, time.time_ns = _time, _time_ns
