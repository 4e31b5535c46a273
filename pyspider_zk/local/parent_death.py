"""Parent-death signal: runs a program that dies with the process that started it.

Started as a script: ``python -I -S tether.py PARENT PROGRAM ARGUMENT...``. On Linux it asks the
kernel to kill this process when its parent ends, however the parent ends, and then becomes the
program: the process id stays the same. Elsewhere it only becomes the program.

A script of its own, because the same request in ``Popen(preexec_fn=...)`` runs Python between
fork and exec, where a lock that another thread held at the fork stays locked forever.

The kernel means the *thread* that started the child: start children from a thread that lives as
long as they like.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def tie(parent: int) -> None:
    """Let the kernel kill this process when the parent ends. Does nothing outside Linux.

    Raises:
        SystemExit: the parent ended before the kernel was asked, so nobody would end us.
    """
    if not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:
        raise SystemExit("the starting process ended")


def become(command: list[str]) -> None:
    """Replace this process by the program; never returns.

    Python ignores these signals at its start, and a program inherits what is ignored.
    """
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    os.execvp(command[0], command)  # noqa: S606 - no shell is wanted


if __name__ == "__main__":
    tie(int(sys.argv[1]))
    become(sys.argv[2:])
