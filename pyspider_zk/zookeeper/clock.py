"""The clock of leases."""

import time

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def boottime() -> float:
    """Return seconds on a clock that never jumps and that counts suspension.

    A lease counted on a clock that stands still while the machine sleeps would still look valid
    after waking. Where CLOCK_BOOTTIME is missing (macOS), the monotonic clock has to do.
    """
    return time.clock_gettime(_CLOCK)
