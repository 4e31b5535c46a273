"""Project in memory: what its row and its script say, its tasks, and when it rests."""

import logging
from collections import deque
from collections.abc import Iterable, Mapping
from itertools import takewhile
from typing import Any

from pyspider.libs.utils import md5string

from pyspider_zk.projects.rows import ACTIVE
from pyspider_zk.scheduling.window import Window

logger = logging.getLogger("scheduler")

Entry = tuple[float, dict[str, Any]]
"""Of the log of a project's tasks: when, in seconds since the epoch, and the task."""

SENT = 1
"""The type of a task that is sent to a fetcher; entries of packs have none."""

CHECKING = "checking"


class FailurePause:
    """Pause of a project whose latest tasks have all failed, as pyspider's.

    After some time a few tasks are let through: one that succeeds ends the pause, or else it goes
    on. Threads: the scheduler loop changes it; ``state`` may be read by any.

    Attributes:
        state: False, True, or ``CHECKING`` while tasks are let through.
        since: when it began, in seconds since the epoch.
        seen: the newest entry's task when the check began.
    """

    def __init__(self) -> None:
        self.state: bool | str = False
        self.since = 0.0
        self.seen: Mapping[str, Any] | None = None

    def follow(
        self, log: Iterable[Entry], now: float, *, failures: int, seconds: float, checks: int
    ) -> bool:
        """Return whether nothing may be sent now.

        Args:
            log: newest first.
            now: in seconds since the epoch.
            failures: how many in a row begin it; 0: there are no pauses.
            seconds: that it lasts until the check.
            checks: how many tasks are let through.
        """
        if failures <= 0:
            self.state = False
            return False
        tasks = (task for _, task in log)
        if self.state is False:
            if _failed_in_a_row(tasks)[0] >= failures:
                self.state, self.since = True, now
        elif self.state is True:
            if self.since + seconds < now:
                self.state, self.seen = CHECKING, next(tasks, None)
        else:
            since_check = takewhile(lambda task: task is not self.seen, tasks)
            failed, has_succeeded = _failed_in_a_row(since_check)
            if has_succeeded:
                self.state = False
            elif failed >= checks:
                self.state, self.since = True, now
        return self.state is True


def _failed_in_a_row(tasks: Iterable[Mapping[str, Any]]) -> tuple[int, bool]:
    """Return how many of the newest tasks have failed, and whether one before has succeeded."""
    count = 0
    for task in tasks:
        if task.get("type") == SENT:
            continue
        if task["track"]["process"]["ok"]:
            return count, True
        count += 1
    return count, False


class LoadedProject:
    """Project in memory. Attributes that pyspider has go by its names.

    Threads: the scheduler loop only, but for what is documented otherwise.

    Args:
        row: of the project database.
        tasks: its queue.
        logged: how many entries its log has at most.

    Attributes:
        name, group, db_status, updatetime: of its row.
        md5sum: of its script.
        task_queue: its pending tasks, those in flight, and how many may be sent.
        task_loaded: whether the queue knows the rows.
        active_tasks: the log of its tasks, newest first.
        waiting_get_info: whether its script has yet to send its settings.
        cannot_start: why its script could not send them; empty: it could, or has yet to.
        is_info_due: whether they are to be requested.
        min_tick, retry_delay, crawl_config: its script's settings.
        pause: of failures.
        has_sent: whether tasks were sent since ``on_finished`` was called last.
        idle_rounds: for how many rounds it has had no task since.
        ran_until: when ``on_finished`` was called last, in seconds since the epoch.
    """

    def __init__(self, row: Mapping[str, Any], tasks: Window, logged: int) -> None:
        self.active_tasks: deque[Entry] = deque(maxlen=logged)
        self.task_queue = tasks
        self.task_loaded = False
        self.has_sent = False
        self.idle_rounds = 0
        self.ran_until = 0.0
        self.md5sum: str | None = None
        self.is_info_due = False
        self.waiting_get_info = True
        self.cannot_start = ""
        self.pause = FailurePause()
        self.min_tick: Any = 0
        self.retry_delay: Mapping[Any, float] = {}
        self.crawl_config: Mapping[str, Any] = {}
        self.update(row)

    @property
    def active(self) -> bool:
        """Whether its tasks are scheduled. Threads: any."""
        return self.db_status in ACTIVE

    def update(self, row: Mapping[str, Any]) -> None:
        """Follow its row; a script that changed is to send its settings again."""
        self.name: str = row["name"]
        self.group: str | None = row["group"]
        self.db_status: str = row["status"]
        self.updatetime: float = row["updatetime"]
        md5sum = md5string(row["script"])
        if self.md5sum != md5sum:
            self.waiting_get_info = True
            self.cannot_start = ""
        self.md5sum = md5sum
        if self.active and self.waiting_get_info:
            self.is_info_due = True
        bucket = self.task_queue.bucket
        bucket.rate, bucket.burst = (row["rate"], row["burst"]) if self.active else (0, 0)
        logger.info(
            "project %s updated, status:%s, paused:%s, %d tasks",
            self.name,
            self.db_status,
            self.pause.state is True,
            len(self.task_queue),
        )

    def on_get_info(self, info: Mapping[str, Any], cannot_start: str = "") -> None:
        """Follow the settings that its script has sent, or why it could not."""
        self.waiting_get_info = False
        self.cannot_start = cannot_start
        self.min_tick = info.get("min_tick", 0)
        self.retry_delay = info.get("retry_delay", {})
        self.crawl_config = info.get("crawl_config", {})
