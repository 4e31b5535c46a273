"""Supervisor of child processes: restarts with back-off, changes of scale, an orderly end."""

import os
import signal
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from pyspider_zk.errors import ClusterError, ConfigError, Mismatch, brief
from pyspider_zk.local.child import Child, rotate, tail
from pyspider_zk.local.plan import Command
from pyspider_zk.pauses import doubling, pause_after

Report = Callable[[str], None]

PAUSES = doubling(1.0, 30.0)  # seconds before each restart
STEADY = 60.0  # seconds of life after which earlier deaths are forgotten
POLL = 0.05  # seconds

ASKED = (0, -signal.SIGTERM, -signal.SIGINT)
"""How a child ends that somebody else told to; it may not have come to handle the signal yet."""

# The same settings fail the same way next time, so a restart would only hide the reason.
HOPELESS = frozenset({ConfigError.exit_code, Mismatch.exit_code})


class CrashLoop(ClusterError):
    """A child ended with an error that a restart cannot fix."""


@dataclass
class _Post:
    """One command and the child that runs it now."""

    command: Command
    child: Child
    wanted: bool = True
    deaths: int = 0
    failures: int = 0  # of starts, since the last one
    started: float = 0.0
    due: float = 0.0  # when to start it next
    alive: bool = False  # as far as known
    kill_at: float | None = None  # SIGTERM was sent; when to send SIGKILL


class Supervisor:
    """Supervisor of one child per wanted command.

    All its methods are to be called from one thread that outlives the children. Times are
    seconds of any monotonic clock, the same in all calls.

    Args:
        logs: the folder for the children's output.
        patience: how long an unwanted child may take to end.
        report: called with one line that the user should see.
    """

    def __init__(self, logs: Path, patience: float, report: Report) -> None:
        self._logs = logs
        self._patience = patience
        self._report = report
        self._posts: dict[str, _Post] = {}

    def want(self, commands: Iterable[Command], now: float) -> None:
        """Run exactly these commands from now on; does not block.

        New ones start at the next ``tick``. The others get SIGTERM now and SIGKILL when the
        patience ends.
        """
        wanted = {command.name: command for command in commands}
        for name, command in wanted.items():
            if name not in self._posts:
                self._posts[name] = _Post(command, self._child(command), due=now)
            self._posts[name].wanted = True
        for name, post in self._posts.items():
            if post.wanted and name not in wanted:
                self._dismiss(post, now)

    def tick(self, now: float) -> None:
        """Supervise every child: start, restart or kill what is due; does not block.

        Raises:
            CrashLoop: a child ended with an error that a restart cannot fix.
        """
        for name, post in list(self._posts.items()):
            if post.child.running:
                self._watch(post, now)
            elif post.alive:
                self._ended(post, now)
            elif not post.wanted:
                del self._posts[name]
            elif now >= post.due:
                self._start(post, now)

    def pid(self, name: str) -> int | None:
        """Return the process id of a child; None if it does not run."""
        post = self._posts.get(name)
        return post.child.pid if post is not None and post.child.running else None

    @property
    def names(self) -> frozenset[str]:
        """The names of the wanted children."""
        return frozenset(name for name, post in self._posts.items() if post.wanted)

    def end(self, names: Collection[str], patience: float, hurried: Callable[[], bool]) -> None:
        """End these children together: SIGTERM, then SIGKILL; blocks until they are gone.

        Args:
            names: the children; unknown ones are ignored.
            patience: seconds until SIGKILL.
            hurried: called repeatedly; once it returns True the children are killed at once.
        """
        posts = [self._posts.pop(name) for name in names if name in self._posts]
        for post in posts:
            post.child.terminate()
        deadline = monotonic() + patience
        for post in posts:
            while not hurried() and monotonic() < deadline and not post.child.wait(POLL):
                pass
        for post in posts:
            if post.child.running and not hurried():
                self._report(f"{post.command.name} did not end in time and is killed")
            post.child.kill()

    def end_all(self, patience: float, hurried: Callable[[], bool]) -> None:
        """End every child that is left; blocks until they are gone. See ``end``."""
        self.end(list(self._posts), patience, hurried)

    def _child(self, command: Command) -> Child:
        log = self._logs / f"{command.name}.log"
        rotate(log)
        return Child(command.name, command.line, log, {**os.environ, **command.environ})

    def _start(self, post: _Post, now: float) -> None:
        try:
            post.child.start()
        except OSError as error:
            self._failed(post, now, error)
            return
        post.failures = 0
        post.alive = True
        post.started = now
        post.kill_at = None

    def _failed(self, post: _Post, now: float, error: OSError) -> None:
        """Try again later: the machine may lack memory, processes or disk only now."""
        post.failures += 1
        post.due = now + pause_after(post.failures, PAUSES)
        if post.failures == 1:
            name = post.command.name
            self._report(f"{name} cannot be started now ({brief(error)}); it is tried again")

    def _dismiss(self, post: _Post, now: float) -> None:
        post.wanted = False
        post.kill_at = now + self._patience
        post.child.terminate()

    def _watch(self, post: _Post, now: float) -> None:
        if post.kill_at is not None and now >= post.kill_at:
            self._report(f"{post.command.name} did not end in time and is killed")
            post.child.kill()

    def _ended(self, post: _Post, now: float) -> None:
        post.alive = False
        post.child.kill()  # the processes that it started end with it
        if post.kill_at is None:
            self._died(post, now)

    def _died(self, post: _Post, now: float) -> None:
        code = post.child.code
        if code in HOPELESS:
            raise CrashLoop(f"{post.command.name} cannot run:\n{tail(post.child.log)}")
        post.deaths = 1 if now - post.started > STEADY else post.deaths + 1
        post.due = now + pause_after(post.deaths, PAUSES)
        self._report_death(post, code)

    def _report_death(self, post: _Post, code: int | None) -> None:
        """Report each end that was asked for, and the first death in a row; others add nothing."""
        if code in ASKED:
            self._report(f"{post.command.name} ended as it was told to, and is started again")
        elif post.deaths == 1:
            how = f"signal {-code}" if code is not None and code < 0 else f"code {code}"
            self._report(
                f"{post.command.name} ended unexpectedly ({how}) and is started again;"
                f" see {post.child.log}"
            )
