"""Asking for operations by XML-RPC: at every member, for the whole cluster."""

import functools
from collections.abc import Callable, Mapping
from typing import Any
from xmlrpc.client import Fault

from pyspider_zk.core.selection import Selection
from pyspider_zk.errors import (
    BadMessage,
    BadRequest,
    BatchTaken,
    ClusterError,
    Conflict,
    Mismatch,
    NotFound,
    SessionLost,
    Unavailable,
)
from pyspider_zk.hooks.dispatcher import Dispatcher
from pyspider_zk.hooks.plain import plain
from pyspider_zk.hooks.rpc import Functions
from pyspider_zk.zookeeper.events import Events
from pyspider_zk.zookeeper.jobs import NORMAL

PAGE = 100

FAULT_CODES: Mapping[type[ClusterError], int] = {
    Unavailable: 503,
    SessionLost: 503,  # another one begins
    Mismatch: 503,
    NotFound: 404,
    Conflict: 409,
    BatchTaken: 409,
    BadRequest: 400,
    BadMessage: 400,
}
"""The fault that an error comes as; the text is the error's."""


def operation_functions(
    dispatcher: Callable[[], Dispatcher], events: Callable[[], Events]
) -> Functions:
    """Return what a member serves besides pyspider's functions.

    Args:
        dispatcher: returns the member's; raises ``Unavailable`` before it has joined.
        events: likewise.
    """
    answers = OperationAnswers(dispatcher, events)
    names = (
        "submit_operation",
        "plan_operation",
        "get_batch",
        "list_batches",
        "cancel_batch",
        "retry_batch",
        "list_projects",
        "list_events",
    )
    return {name: _answering(getattr(answers, name)) for name in names}


class OperationAnswers:
    """The functions; each takes and returns plain values.

    A selection is a mapping of the attributes of ``core.selection.Selection``. Threads: any.
    """

    def __init__(self, dispatcher: Callable[[], Dispatcher], events: Callable[[], Events]) -> None:
        self._dispatcher = dispatcher
        self._events = events

    def submit_operation(
        self,
        operation: str,
        selection: object,
        arguments: Any = None,
        user: str = "",
        batch: str = "",
        priority: int = NORMAL,
        plan: str = "",
    ) -> dict[str, Any]:
        """Have an operation carried out; return the batch."""
        chosen = Selection.parse(selection)
        return self._dispatcher().submit(operation, chosen, arguments, user, batch, priority, plan)

    def plan_operation(
        self, operation: str, selection: object, arguments: Any = None
    ) -> dict[str, Any]:
        """Return what it would do."""
        return self._dispatcher().plan(operation, Selection.parse(selection), arguments)

    def get_batch(self, batch: str) -> dict[str, Any]:
        """Return how far a batch is."""
        return self._dispatcher().batch(batch)

    def list_batches(self, offset: int = 0, limit: int | None = PAGE) -> dict[str, Any]:
        """Return batches, the newest first."""
        return self._dispatcher().batches(offset, limit).as_dict()

    def cancel_batch(self, batch: str, user: str = "") -> dict[str, Any]:
        """Stop a batch before its next project."""
        return self._dispatcher().cancel(batch, user)

    def retry_batch(self, batch: str, user: str = "") -> dict[str, Any]:
        """Ask again for the projects that a batch failed for; return the new batch."""
        return self._dispatcher().retry(batch, user)

    def list_projects(
        self,
        selection: object = None,
        sort: str = "name",
        offset: int = 0,
        limit: int | None = PAGE,
    ) -> dict[str, Any]:
        """Return the projects that are meant; by default all."""
        chosen = Selection.parse(selection or {})
        return self._dispatcher().projects(chosen, sort, offset, limit).as_dict()

    def list_events(self, after: int | None = None, limit: int = PAGE) -> list[dict[str, Any]]:
        """Return events, the oldest first: those after a number, or the newest."""
        return [
            {"sequence": number, **vars(event)}
            for number, event in self._events().read(after, limit)
        ]


def _answering(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function, answering with values and faults that XML-RPC carries."""

    @functools.wraps(function)
    def answer(*args: Any) -> Any:
        try:
            return plain(function(*args))
        except ClusterError as error:
            codes = [code for kind, code in FAULT_CODES.items() if isinstance(error, kind)]
            raise Fault(codes[0] if codes else 500, str(error)) from error

    return answer
