"""A scheduler that dies while it carries out an operation."""

import os
import signal
from typing import Any

from pyspider_zk.hooks import ClusterScheduler

DIES_AT = 100
"""The task at which it dies; the tasks of the chunks before are stored."""


class DyingScheduler(ClusterScheduler):
    """Is killed by itself, at once and without a word, when it is asked for its hundredth task."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._asked = 0

    def on_request(self, task: dict[str, Any]) -> Any:
        """Count a task, or die."""
        self._asked += 1
        if self._asked == DIES_AT:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().on_request(task)
