"""The clock of leases."""

import time


def boottime() -> float:
    """Return seconds on a clock that never jumps and that counts suspension.

    A lease counted on a clock that stands still while the machine sleeps would still look valid
    after waking. Where CLOCK_BOOTTIME is missing (macOS), the monotonic clock has to do.
    """
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime(clock)
