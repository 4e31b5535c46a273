"""Parent-death signal: runs a program that dies with the process that started it.

Started as a script: ``python -I -S parent_death.py PARENT PROGRAM ARGUMENT...``. On Linux it
asks the kernel to kill this process when its parent ends, however the parent ends, and then
becomes the program: the process id stays the same. Elsewhere it only becomes the program.

A script of its own, because the same request in ``Popen(preexec_fn=...)`` runs Python between
fork and exec, where a lock that another thread held at the fork stays locked forever.

The kernel watches the *thread* that started the child: start children from a thread that lives as
long as they do.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def die_with(parent: int) -> None:
    """Ask the kernel to kill this process when the parent ends. Does nothing outside Linux.

    Raises:
        SystemExit: the parent has ended already, so nobody would end us.
    """
    if not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:
        raise SystemExit("the starting process ended")


def become(command: list[str]) -> None:
    """Replace this process by the program; never returns.

    Python ignores these signals at its start, and the program would inherit that.
    """
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    os.execvp(command[0], command)  # noqa: S606 - no shell is wanted


if __name__ == "__main__":
    die_with(int(sys.argv[1]))
    become(sys.argv[2:])
