"""Answers to XML-RPC requests for operations: every member gives them for the whole cluster."""

import functools
from collections.abc import Callable, Mapping
from typing import Any, get_type_hints
from xmlrpc.client import Fault

import msgspec

from pyspider_zk.cluster.event_archive import EventSearch
from pyspider_zk.cluster.event_filter import EventFilter, Logged
from pyspider_zk.errors import (
    BadRequest,
    ClusterError,
    LockedProjects,
)
from pyspider_zk.jobs.batch_service import BatchService
from pyspider_zk.jobs.model import NORMAL
from pyspider_zk.jobs.operations import within_limits
from pyspider_zk.projects.rows import is_number
from pyspider_zk.projects.selection import Selection
from pyspider_zk.rpc.admission import current_caller
from pyspider_zk.rpc.server import Functions
from pyspider_zk.rpc.values import xmlrpc_value
from pyspider_zk.tasks.filters import FailureFilter, TaskFilter
from pyspider_zk.tasks.task_report import Reports

PAGE = 100

MOST = 1000
"""Failures, tasks or events of one answer."""

LOCK_REMEDY = "set secret_file, which callers prove to know"


def operation_functions(answers: "OperationAnswers") -> Functions:
    """Return the functions that a member serves besides pyspider's."""
    names = (
        "submit_operation",
        "plan_operation",
        "get_batch",
        "list_batches",
        "cancel_batch",
        "retry_batch",
        "list_projects",
        "list_events",
        "find_events",
        "list_failures",
        "list_failed_tasks",
        "search_tasks",
        "get_task",
    )
    return {name: _answering(getattr(answers, name)) for name in names}


class OperationAnswers:
    """The functions; each takes and returns plain values.

    A selection is a mapping of the attributes of ``projects.selection.Selection``. The user is the
    one that the call was admitted for; an argument ``user`` is ignored. Threads: any.

    Args:
        batch_service: returns the member's; raises ``Unavailable`` before it has joined.
        events, reports: likewise.
        limits: the highest ``rate`` and ``burst`` that projects get.
    """

    def __init__(
        self,
        batch_service: Callable[[], BatchService],
        events: Callable[[], EventSearch],
        reports: Callable[[], Reports],
        limits: Mapping[str, float],
    ) -> None:
        self._batch_service = batch_service
        self._events = events
        self._reports = reports
        self._limits = limits

    def submit_operation(
        self,
        operation: str,
        selection: object,
        arguments: Any = None,
        user: str = "",  # noqa: ARG002 - see the class
        batch: str = "",
        priority: int = NORMAL,
        plan: str = "",
    ) -> dict[str, Any]:
        """Have an operation carried out; return the batch."""
        chosen = Selection.parse(selection)
        given = within_limits(operation, arguments, self._limits)
        self._check_locks(chosen)
        asker = current_caller().user
        return self._batch_service().submit(operation, chosen, given, asker, batch, priority, plan)

    def plan_operation(
        self, operation: str, selection: object, arguments: Any = None
    ) -> dict[str, Any]:
        """Return what an operation would do."""
        chosen = Selection.parse(selection)
        given = within_limits(operation, arguments, self._limits)
        plan = self._batch_service().plan(operation, chosen, given)
        if plan["count"] and (locked := self._locked(chosen)):
            plan["faults"].append(str(LockedProjects(locked, LOCK_REMEDY)))
        return plan

    def get_batch(self, batch: str) -> dict[str, Any]:
        """Return the progress of a batch."""
        return self._batch_service().batch(batch)

    def list_batches(self, offset: int = 0, limit: int | None = PAGE) -> dict[str, Any]:
        """Return batches, the newest first."""
        return self._batch_service().batches(offset, limit).as_dict()

    def cancel_batch(self, batch: str, user: str = "") -> dict[str, Any]:  # noqa: ARG002
        """Stop a batch before its next projects."""
        return self._batch_service().cancel(batch, current_caller().user)

    def retry_batch(self, batch: str, user: str = "") -> dict[str, Any]:  # noqa: ARG002
        """Repeat a batch for the projects that it failed for; return the new batch."""
        if failed := self._batch_service().failed(batch):
            self._check_locks(Selection(names=tuple(failed)))
        return self._batch_service().retry(batch, current_caller().user)

    def list_projects(
        self,
        selection: object = None,
        sort: str = "name",
        offset: int = 0,
        limit: int | None = PAGE,
    ) -> dict[str, Any]:
        """Return the projects that are meant; by default all."""
        chosen = Selection.parse({} if selection is None else selection)
        return self._batch_service().projects.page(chosen, sort, offset, limit).as_dict()

    def list_events(self, after: int | None = None, limit: int = PAGE) -> list[dict[str, Any]]:
        """Return events, the oldest first: those after a number, or the newest."""
        return list(map(_plain, self._events().log.read(after, limit)))

    def find_events(
        self, wanted: object = None, before: tuple[float, int] | None = None, limit: int = PAGE
    ) -> dict[str, Any]:
        """Return events, the latest first, behind one of them (its time, number).

        See ``FoundEvents``.
        """
        chosen = EventFilter.parse({} if wanted is None else wanted)
        if before is not None and not all(map(is_number, before)):
            raise BadRequest(f"before: {before!r:.80} is the place of no event")
        position = before and (before[0], before[1])  # XML-RPC knows lists only
        found = self._events().find(chosen, position, _few(limit))
        return {"items": list(map(_plain, found.events)), "missing": found.missing}

    def list_failures(
        self, wanted: object = None, offset: int = 0, limit: int = PAGE
    ) -> dict[str, Any]:
        """Return kinds of failures, those of most tasks first, and how many there are."""
        chosen = FailureFilter.parse({} if wanted is None else wanted)
        kinds, total = self._reports().failures.kinds(chosen, max(0, offset), _few(limit))
        return {"items": [kind._asdict() for kind in kinds], "total": total}

    def list_failed_tasks(
        self, wanted: object = None, after: tuple[float, str, str] | None = None, limit: int = PAGE
    ) -> list[dict[str, Any]]:
        """Return tasks that fail, the latest first, behind one of them (its time, project, id)."""
        chosen = FailureFilter.parse({} if wanted is None else wanted)
        position = None if after is None else (float(after[0]), after[1], after[2])
        found = self._reports().failures.tasks(chosen, position, _few(limit))
        return [task._asdict() for task in found]

    def search_tasks(
        self, wanted: object = None, cursor: str = "", limit: int = PAGE
    ) -> dict[str, Any]:
        """Return tasks that one look finds, and the cursor of the next; see ``FoundTasks``."""
        chosen = TaskFilter.parse({} if wanted is None else wanted)
        look = self._reports().search.look(chosen, cursor, _few(limit))
        return {**look._asdict(), "tasks": [task._asdict() for task in look.tasks]}

    def get_task(self, project: str, taskid: str) -> dict[str, Any]:
        """Return all that is known of a task; see ``TaskReport.find``."""
        return self._reports().task.find(project, taskid)

    def _check_locks(self, selection: Selection) -> None:
        """Refuse locked projects without a proof of the secret, as the web UI does without a login.

        Raises:
            LockedProjects: naming them.
        """
        selection.check()
        if locked := self._locked(selection):
            raise LockedProjects(locked, LOCK_REMEDY)

    def _locked(self, selection: Selection) -> list[str]:
        return [] if current_caller().proven else self._batch_service().projects.locked(selection)


def _plain(logged: Logged) -> dict[str, Any]:
    return {"sequence": logged[0], **vars(logged[1])}


def _few(limit: int) -> int:
    return min(max(1, limit), MOST)


def _answering(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function, answering with values and faults that XML-RPC carries."""
    wanted = list(get_type_hints(function).items())

    @functools.wraps(function)
    def answer(*args: Any) -> Any:
        try:
            for (name, kind), value in zip(wanted, args, strict=False):
                _check_kind(name, kind, value)
            return xmlrpc_value(function(*args))
        except ClusterError as error:
            raise Fault(int(error.status), str(error)) from error

    return answer


def _check_kind(name: str, kind: Any, value: object) -> None:
    """Check the type of an argument; callers may send anything.

    Raises:
        BadRequest: naming it.
    """
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise BadRequest(f"{name}: {error}, not {value!r:.80}") from None
