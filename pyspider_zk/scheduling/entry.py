"""Message in flight, from when it is read until it is applied, parked or a dead letter."""

from itertools import chain, takewhile
from typing import Any

from msgspec import Struct

from pyspider_zk.queues.api import Delivery, Parked, published
from pyspider_zk.queues.tasks import TaskKey


class InFlightMessage(Struct, eq=False):
    """A message, and which part of it is still to do.

    Attributes:
        delivery: the message; a parked one has no body until it is read.
        parked: its name in the parking lot, if it came from there.
        skipped: how many of its first tasks a former owner has applied.
        rest: for new tasks, those that were not tried yet or failed; None before the first try.
        put_off: tasks that must wait until the same task is no longer in flight.
        held: by project, the tasks that wait in the parking lot for the project or the next try.
        applied: tasks of it, or the pack, that were applied since messages were settled last.
        fault: what is wrong with the items that are not tasks.
        reason: why the whole message is to become a dead letter; empty: it is not.
        failures: how often it failed.
        pause: rounds to wait before the next try.
    """

    delivery: Delivery
    parked: Parked | None = None
    skipped: int = 0
    rest: list[Any] | None = None
    put_off: list[Any] = []
    held: dict[str, Any] = {}
    applied: list[Any] = []
    fault: str = ""
    reason: str = ""
    failures: int = 0
    pause: int = 0

    @property
    def published(self) -> int:
        """When it was published; see ``queues.api.published``."""
        return published(self.delivery.tag)

    @property
    def must_wait(self) -> bool:
        """Whether a part of it waits for something else, and may do so in the parking lot."""
        return bool(self.put_off or self.held)

    @property
    def tasks(self) -> list[Any]:
        """What a new-task message says, without what a former owner has applied."""
        body = self.delivery.body
        return body[self.skipped :] if isinstance(body, list) else [body]

    @property
    def begun(self) -> int:
        """How many of its first tasks are applied, so that nobody need apply them again.

        If an item of it is no task, only those count that a former owner has applied.
        """
        if self.rest is None or self.fault or not isinstance(self.delivery.body, list):
            return self.skipped
        left = {_key(task) for task in chain(self.rest, self.put_off, *self.held.values())}
        keys = map(_key, self.tasks)
        return self.skipped + sum(1 for _ in takewhile(lambda key: key not in left, keys))

    def hold(self) -> None:
        """Let the rest of it wait in the parking lot, each project's part separately."""
        whole = self.tasks if self.skipped else self.delivery.body
        body = whole if self.rest is None else self.rest
        for task in body if isinstance(body, list) else [body]:
            if not isinstance(task, dict) or not isinstance(task.get("project"), str):
                return  # its project is unknown: it waits where it is
        if not isinstance(body, list):
            self.held = {body["project"]: body}
            return
        for task in body:
            self.held.setdefault(task["project"], []).append(task)
        self.rest = []

    def stay(self, rounds: int) -> None:
        """Wait in the slot queue after all: what was held is tried again."""
        self.pause = max(self.pause, rounds)
        if self.rest is not None:
            self.rest = [*self.rest, *(task for own in self.held.values() for task in own)]
        self.held = {}


def _key(task: Any) -> TaskKey:
    return task["project"], task["taskid"]
