"""Child process that ends with us and does not receive the terminal's Ctrl-C."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from pyspider_zk.components import parent_death

KEPT_LOGS = 3
LARGEST_LOG = 10_000_000  # bytes
_TAIL = 65_536  # bytes


class Child:
    """A program that runs as our child.

    It gets a session of its own, so that Ctrl-C reaches only us and we can end our children in
    order; on Linux the kernel kills it if we die without ending it. Not thread-safe; start it
    from a thread that outlives it (see ``parent_death``).

    Attributes:
        name: its name in messages, and of its log.
        log: the file that its output is appended to.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log: Path,
        environ: Mapping[str, str] | None = None,
        folder: Path | None = None,
    ) -> None:
        self.name = name
        self.log = log
        self._command = tuple(command)
        self._environ = None if environ is None else dict(environ)
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the program; returns at once.

        Raises:
            RuntimeError: it is running already.
        """
        if self.running:
            raise RuntimeError(f"{self.name} runs already")
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(  # noqa: S603 - the command is our own
                [
                    sys.executable,
                    "-I",
                    "-S",
                    parent_death.__file__,
                    str(os.getpid()),
                    *self._command,
                ],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self._environ,
                cwd=self._folder,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The process id of the last start.

        Raises:
            RuntimeError: it was never started.
        """
        if self._process is None:
            raise RuntimeError(f"{self.name} was never started")
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the process is running. Does not block."""
        return self._process is not None and self._process.poll() is None

    @property
    def code(self) -> int | None:
        """The exit code, negative for a signal; None while it runs or before the start."""
        return None if self._process is None else self._process.poll()

    def wait(self, seconds: float) -> bool:
        """Block until the process ends, for at most that many seconds; return whether it ended."""
        if self._process is None:
            return True
        try:
            self._process.wait(max(0.0, seconds))
        except subprocess.TimeoutExpired:
            return False
        return True

    def terminate(self) -> None:
        """Send SIGTERM; returns at once."""
        if self._process is not None:
            self._process.terminate()

    def kill(self) -> None:
        """End the process and all that it started (SIGKILL); blocks until it is gone."""
        if self._process is None:
            return
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):  # macOS reports the latter for a zombie
            self._process.kill()
        self._process.wait()

    def stop(self, patience: float) -> bool:
        """Terminate the process, then kill it after a time; return whether it ended by itself."""
        self.terminate()
        ended = self.wait(patience)
        self.kill()
        return ended


def rotate(log: Path) -> None:
    """Rotate the logs: ``x.log`` becomes ``x.log.1``, and so on up to KEPT_LOGS."""
    if log.exists():
        log.replace(_room(log))


def cut(log: Path) -> None:
    """Rotate a log if it is large, while its writer appends to it.

    What is written between the copy and the cut is lost; without room for a copy, all of it. A log
    that cannot be cut grows on: nothing ends by that.
    """
    with suppress(OSError):
        if log.stat().st_size > LARGEST_LOG:
            _keep(log)
            os.truncate(log, 0)


def _keep(log: Path) -> None:
    copy = log.with_name(f"{log.name}.0")
    try:
        shutil.copyfile(log, copy)
    except OSError:  # the disk is full
        copy.unlink(missing_ok=True)
    else:
        copy.replace(_room(log))


def tail(log: Path, lines: int = 15) -> str:
    """Return the last lines of a log; empty if there is none."""
    if not log.exists():
        return ""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _TAIL))
        text = file.read().decode("utf-8", "replace")
    return "\n".join(text.splitlines()[-lines:])


def _room(log: Path) -> Path:
    """Move the old logs on; return the path of the newest of them, which is free then."""
    for number in range(KEPT_LOGS, 1, -1):
        older = log.with_name(f"{log.name}.{number - 1}")
        if older.exists():
            older.replace(log.with_name(f"{log.name}.{number}"))
    return log.with_name(f"{log.name}.1")
