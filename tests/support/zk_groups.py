"""Participants without threads, and what stands below their root."""

import itertools
import threading
from collections.abc import Callable
from contextlib import ExitStack

from pyspider_zk.config import Settings
from pyspider_zk.groups.group import Group, Participant
from pyspider_zk.zookeeper.connection import Connection
from tests.support.zk_faults import Lossy

PATIENCE = 60.0

_times = itertools.count()


class GroupPlace:
    """One would-be participant with a connection of its own."""

    def __init__(self, settings: Settings, name: str, run: str) -> None:
        self.connection = Lossy(settings)
        self.connection.start()
        self.name = name
        self.group = Group(self.connection, settings.root, "work", run)

    def join(self, patience: float = PATIENCE) -> int:
        return self.group.join(Participant(0, self.name, "host", 1, next(_times)), patience).number

    def vanish(self) -> None:
        """End without leaving, as a process that was killed."""
        self.connection.stop()


class Places:
    def __init__(self, settings: Settings, stack: ExitStack) -> None:
        self._settings = settings
        self._stack = stack

    def make(self, name: str = "", run: str = "") -> GroupPlace:
        place = GroupPlace(self._settings, name, run)
        self._stack.callback(place.connection.stop)
        return place

    def join(self, *names: str) -> list[GroupPlace]:
        places = [self.make(name) for name in names]
        for place in places:
            place.join()
        return places


def together(*tasks: Callable[[], object]) -> None:
    """Do all at once, each in a thread, and fail if one fails."""
    failures: list[BaseException] = []
    fence = threading.Barrier(len(tasks))

    def run(task: Callable[[], object]) -> None:
        try:
            fence.wait(60)
            task()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(task,)) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def tree(connection: Connection, path: str) -> list[str]:
    below = [tree(connection, f"{path}/{name}") for name in sorted(connection.children(path))]
    return [path, *(found for part in below for found in part)]
