"""Due queue: remembers since when tasks wait to be sent, which pyspider's queue does not."""

import time
from typing import Any

from pyspider.scheduler.task_queue import PriorityTaskQueue


class DueQueue(PriorityTaskQueue):
    """pyspider's queue of due tasks, with the time at which each came in.

    Threads: under the lock of the ``TaskQueue`` that holds it.
    """

    def _init(self, maxsize: int) -> None:
        super()._init(maxsize)
        self._since: dict[str, float] = {}

    def _put(self, item: Any) -> None:
        super()._put(item)
        self._since.setdefault(item.taskid, time.time())

    def _get(self) -> Any:
        item = super()._get()
        if item is not None:
            del self._since[item.taskid]
        return item

    def __delitem__(self, taskid: str) -> None:
        super().__delitem__(taskid)
        del self._since[taskid]

    @property
    def oldest(self) -> float | None:
        """Return when the task that waits longest came in, None if none waits.

        In seconds since the epoch. A dict keeps the order of insertion.
        """
        return next(iter(self._since.values()), None)
