"""A scheduler that dies while it carries out an operation; a processor that tells its scripts."""

import json
import os
import signal
from pathlib import Path
from typing import Any

from pyspider_zk.hooks import ClusterProcessor, ClusterScheduler

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


TOLD = "scripts.json"


class TellingProcessor(ClusterProcessor):
    """Writes the names into its working folder whenever it looks for a task."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        before = self.inqueue._before

        def tell() -> None:
            before()
            draft = Path(f"{TOLD}.{os.getpid()}")
            draft.write_text(json.dumps(sorted(self.project_manager.projects)), encoding="utf-8")
            draft.replace(TOLD)

        self.inqueue._before = tell
