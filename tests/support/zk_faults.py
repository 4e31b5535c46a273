"""What ZooKeeper does to a connection at its worst: replies that are lost, and every refusal."""

import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from kazoo import exceptions
from kazoo.exceptions import KazooException, RolledBackError, RuntimeInconsistency
from kazoo.protocol import serialization as sent

from pyspider_zk.config import Settings
from pyspider_zk.errors import Unavailable
from pyspider_zk.groups.group import Group, Participant
from pyspider_zk.zookeeper.connection import Connection, Watch
from pyspider_zk.zookeeper.steps import Step
from tests.support.connected import HUNG


class Lossy(Connection):
    """Loses the replies to the next ``lose`` transactions, or to as many that are sent together.

    Of transactions that are sent together, only the first ``arrive`` reach the server; None: all.
    ``before`` happens before the next transaction, ``before_find`` before the next look. With
    ``lags`` the reply is lost with the server that gave it: the next one has not heard of the
    transaction, and lists what was there before, until it is made to catch up.
    """

    lose = 0
    arrive: int | None = None
    lags = False
    _is_behind = False
    before: Callable[[], object] | None = None
    before_find: Callable[[], object] | None = None

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings, HUNG)
        self._listed: dict[str, list[str]] = {}

    def multi(self, *steps: Step) -> list[object]:
        hook, self.before = self.before, None
        if hook:
            hook()
        results = super().multi(*steps)
        if self.lose:
            self.lose -= 1
            self._is_behind = self.lags
            raise Unavailable("the reply was lost")
        return results

    def multi_all(self, transactions: Sequence[Sequence[Step]]) -> list[Exception | None]:
        hook, self.before = self.before, None
        if hook:
            hook()
        refusals = super().multi_all(transactions[: self.arrive])
        if self.lose:
            self.lose -= 1
            self.arrive = None
            self._is_behind = self.lags
            raise Unavailable("the replies were lost")
        return refusals

    def children(self, path: str, watch: Watch | None = None) -> list[str]:
        names = super().children(path, watch)
        if not self._is_behind:
            self._listed[path] = names
        return self._listed.get(path, [])

    def sync(self, path: str) -> None:
        super().sync(path)
        self._is_behind = False

    def find(self, path: str, watch: Watch | None = None) -> tuple[bytes, int] | None:
        hook, self.before_find = self.before_find, None
        if hook:
            hook()
        return super().find(path, watch)


Refusal = type[KazooException]

STEP = "a step of multi"
CALLS: dict[str, type[Any]] = {
    "get": sent.GetData,
    "children": sent.GetChildren,
    "exists": sent.Exists,
    "acls": sent.GetACL,
    "create": sent.Create,
    "set": sent.SetData,
    "delete": sent.Delete,
    "protect": sent.SetACL,
    "sync": sent.Sync,
    "multi": sent.Transaction,
    STEP: sent.Transaction,
}
"""What a call sends."""


def all_refusals() -> list[Refusal]:
    """Return all errors that kazoo knows, those of the server and its own."""
    found = [each for each in vars(exceptions).values() if _is_error(each)]
    return sorted(set(found), key=lambda each: each.__name__)


def _is_error(each: object) -> bool:
    return isinstance(each, type) and issubclass(each, KazooException)


class Refusing:
    """Lets calls of one kind fail, of one connection; counts those that did.

    Threads: any.
    """

    def __init__(self, connection: Connection) -> None:
        self._client = connection._client
        self._call = self._client._call
        self._client._call = self._answered
        self._now: tuple[str, Refusal] | None = None
        self.count = 0

    @contextmanager
    def refusing(self, call: str, refusal: Refusal) -> Iterator[None]:
        """Let all calls of a kind fail while the block runs."""
        self.count = 0
        self._now = (call, refusal)
        try:
            yield
        finally:
            self._now = None

    def _answered(self, request: Any, answer: Any) -> Any:
        call, refusal = self._now or ("", KazooException)
        if not call or type(request) is not CALLS[call]:
            return self._call(request, answer)
        self.count += 1
        if call == STEP:
            answer.set(_rolled_back(len(request.operations), refusal))
        else:
            answer.set_exception(refusal())
        return True


def _rolled_back(steps: int, refusal: Refusal) -> list[KazooException]:
    """Return what the server answers if the step in the middle fails."""
    before = steps // 2
    after = [RuntimeInconsistency() for _ in range(steps - before - 1)]
    return [*(RolledBackError() for _ in range(before)), refusal(), *after]


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
