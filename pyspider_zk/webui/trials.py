"""Trials: scripts that the editor runs, each in a process of its own, which can be ended."""

import json
import logging
import os
import select
import signal
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from pyspider.processor.project_module import ProjectFinder

from pyspider_zk.components.parent_death import die_with
from pyspider_zk.components.watchdog import GRACE, TaskMark

logger = logging.getLogger(__name__)

TICK = 1.0
"""Seconds between two looks at a trial that has not answered."""


def run_apart(trial: Callable[..., str], project: Mapping[str, Any], *rest: Any) -> str:
    """Run a trial in a fork of this process; return its answer, or one that says why there is none.

    Blocks as long as the script's time limit lets it. Other threads may hold locks at the fork: who
    waits for one in the new process is ended by the same limit.

    Args:
        trial: gets the other arguments, and the function that limits each of its steps.
    """
    mark, began, parent = TaskMark(), time.monotonic(), os.getpid()
    reader, writer = os.pipe()
    with mark.at_hand({}):
        if not (child := _fork()):
            _answer(parent, writer, lambda: trial(project, *rest, mark.limit))
        os.close(writer)
        answer, overdue = _read(reader, mark, child)
        if overdue or not answer:
            os.kill(child, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if answer and not code:
            return answer.decode()
        reason = mark.lose(code, overdue=overdue).reason
    logger.warning("a trial of project %s failed: %s", project["name"], reason)
    return _failure(reason, time.monotonic() - began)


def _fork() -> int:
    """Return the process id of a fork of this process; 0 in the fork."""
    sys.stdout.flush()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads, see above
        return os.fork()


def _answer(parent: int, writer: int, trial: Callable[[], str]) -> None:
    """Write the answer and end this process, which has nothing of its own to tidy up."""
    code = 1
    try:
        die_with(parent)
        for each in sys.meta_path:
            if isinstance(each, ProjectFinder):
                _connect(each)
        with os.fdopen(writer, "wb") as answer:
            answer.write(trial().encode())
        code = 0
    except BaseException:
        logger.exception("a trial did not answer")
    finally:
        os._exit(code)


def _connect(finder: ProjectFinder) -> None:
    """Let scripts import projects by a connection of this process's own, made when one does."""
    if finder.projectdb is not None:
        finder.get_projectdb = cache(finder.projectdb.copy)


def _read(reader: int, mark: TaskMark, child: int) -> tuple[bytes, bool]:
    """Return what was answered until the process ended, and whether its time was over before.

    Processes of the script's own may keep the pipe open for longer.
    """
    answer, overdue = bytearray(), 0
    with os.fdopen(reader, "rb", buffering=0) as pipe:
        looking = select.poll()
        looking.register(pipe, select.POLLIN)
        while overdue <= GRACE:
            has_ended = os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if looking.poll(0 if has_ended else TICK * 1000):
                if not (part := pipe.read(1 << 16)):
                    break
                answer += part
            elif has_ended:  # before the look: all that it wrote was there
                break
            else:
                overdue = overdue + 1 if mark.is_overdue else 0
    return bytes(answer), overdue > GRACE


def _failure(reason: str, seconds: float) -> str:
    """Return the answer of a trial that gave none, as pyspider's editor shows it."""
    nothing: dict[str, Any] = {"follows": [], "messages": [], "result": None}
    return json.dumps(
        {"fetch_result": "", "logs": f"the trial failed: {reason}\n", "time": seconds, **nothing}
    )
