"""Every error that ZooKeeper may answer, in the place of the answer to a call.

No server can be made to give most of them, so they are put in where kazoo sends a request.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kazoo import exceptions
from kazoo.exceptions import KazooException, RolledBackError, RuntimeInconsistency
from kazoo.protocol import serialization as sent

from pyspider_zk.zookeeper.connection import Connection

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
