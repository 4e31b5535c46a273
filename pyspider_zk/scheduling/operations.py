"""Operations: what each does to one project, in the loop of its owner.

A job may be carried out twice, because its claimant may die in between. So every operation can be
repeated: what its batch has already done is not done again.
"""

import logging
from collections.abc import Mapping
from typing import Any

from pyspider_zk.databases.tables import drop_table
from pyspider_zk.jobs.operations import (
    Operation,
    Work,
    check_arguments,
    check_operation,
    with_delete,
)
from pyspider_zk.jobs.stages import OperationRefused, ProjectTarget, Stage
from pyspider_zk.projects.names import check_project_name
from pyspider_zk.projects.rows import ACTIVE
from pyspider_zk.scheduling.deletion import Deletion
from pyspider_zk.scheduling.fenced_scheduler import FencedScheduler
from pyspider_zk.scheduling.message_applier import MessageApplier
from pyspider_zk.scheduling.project_set import ProjectSet

logger = logging.getLogger("scheduler")

SETTLE = 3.0
"""Seconds until the tables of deleted projects are dropped a second time.

Longer than result workers and processors assume that a project exists; see ``projects/cache.py``.
"""

ON_START = "on_start"


class ProjectOperations:
    """The operations on projects.

    All effects are behind the fence; ``FenceClosed`` and the errors of databases are raised.

    A job does not wait for a project in quarantine: to start it is refused with the reason; to
    change or delete it is allowed, because that may be the cure.

    Threads: the scheduling loop.
    """

    def __init__(
        self,
        scheduler: FencedScheduler,
        projects: ProjectSet,
        applier: MessageApplier,
        deletion: Deletion,
    ) -> None:
        self._scheduler = scheduler
        self._projects = projects
        self._applier = applier
        self._deletion = deletion

    def check_slot(self, standing: str, project: str) -> None:
        """Make sure that a project is not in another member's slot.

        The fence would stop its effects in every round, and with them everything that follows.

        Args:
            standing: the project that the job is named after.

        Raises:
            OperationRefused: it is; the job was written by hand, or for a cluster with another
                number of slots.
        """
        fence = self._scheduler.fence
        if fence.is_open(standing) and not fence.is_open(project):
            raise OperationRefused("it is not in the slot of the job: request the operation again")

    def stages(self, work: Work) -> tuple[Stage, ...]:
        """Return the stages of a job's operation.

        Raises:
            BadRequest: there is no such operation, or it has other arguments; a newer version
                may know it.
        """
        operation = check_operation(work.operation)
        arguments = check_arguments(operation, work.arguments)
        match operation:
            case Operation.DELETE if arguments["wait"]:
                return (Stage(self._delete_later),)
            case Operation.DELETE:
                return (
                    Stage(self._note_version),
                    Stage(self._delete, recorded=True),
                    Stage(self._sweep, settle=SETTLE, tidies=True),
                )
            case Operation.START:
                return (Stage(self._start),)
            case Operation.RUN:
                return (Stage(self._run),)
            case Operation.RESTART:
                return (Stage(self._restart),)
            case Operation.STOP:
                return (Stage(lambda target: self._change(target, {"status": "STOP"})),)
            case _:  # rate, group, status: the arguments are the columns
                return (Stage(lambda target: self._change(target, arguments)),)

    # --- starting ---

    def _start(self, target: ProjectTarget) -> bool:
        """Make it RUNNING and dispatch ``on_start``, once per batch."""
        if self._still_waits(target):
            return False
        if self._has_begun(target):
            return True
        if target.waited:
            self._projects.refresh(target.project)
        else:
            self._change(target, {"status": "RUNNING"})
        return self._begin(target)

    def _run(self, target: ProjectTarget) -> bool:
        """Dispatch ``on_start`` of a running project, once per batch."""
        if self._still_waits(target):
            return False
        if self._has_begun(target):
            return True
        self._projects.refresh(target.project)
        return self._begin(target)

    def _restart(self, target: ProjectTarget) -> bool:
        """Drop all tasks, then start it, once per batch."""
        if self._still_waits(target):
            return False
        if self._has_begun(target):
            return True
        if not target.waited:
            self._row(target)
            self._scheduler.fence.check(target.project)
            self._projects.forget(target.project)
            drop_table(self._scheduler.taskdb, target.project)
            self._change(target, {"status": "RUNNING"})
        return self._begin(target)

    def _still_waits(self, target: ProjectTarget) -> bool:
        """Return whether a waiting project need not be checked again, judged by memory alone.

        Thousands may wait for fetchers that are down, and each is checked again and again.
        """
        project = self._scheduler.projects.get(target.project)
        if not target.waits or project is None or not project.active:
            return False
        return self._scheduler.is_full(project) or project.task_queue.is_processing(ON_START)

    def _has_begun(self, target: ProjectTarget) -> bool:
        """Return whether this batch's ``on_start`` has a row, done or not.

        Raises:
            BadMessage: the project has a name that no task can have.
        """
        check_project_name(target.project)
        self._applier.commit()  # what an earlier try could not
        row = self._scheduler.find_task(target.project, ON_START, ["taskid", "schedule"])
        return row is not None and (row.get("schedule") or {}).get("itag") == target.batch

    def _begin(self, target: ProjectTarget) -> bool:
        """Apply ``on_start`` as if its message had been read; False if an old one is in flight."""
        fault = self._projects.quarantine.told().get(target.project)
        if fault:
            raise OperationRefused(f"it is in quarantine: {fault['reason']}")
        project = self._scheduler.projects.get(target.project)
        if project is None:
            raise OperationRefused("there is no such project")
        if not project.active:
            raise OperationRefused(f"it is {project.db_status}; it must be {' or '.join(ACTIVE)}")
        if self._scheduler.is_full(project):
            return False
        has_begun = self._applier.apply_task(
            {
                "project": target.project,
                "taskid": ON_START,
                "url": f"data:,{ON_START}",
                "process": {"callback": ON_START},
                "schedule": {
                    "priority": 9,
                    "force_update": True,
                    "itag": target.batch,
                },
            }
        )
        refused = self._applier.commit()
        if refused:
            raise next(iter(refused.values()))
        return has_begun

    # --- changing ---

    def _change(self, target: ProjectTarget, columns: Mapping[str, Any]) -> bool:
        """Write columns of the project's row, and update memory at once."""
        self._row(target)
        self._scheduler.fence.check(target.project)
        self._scheduler.projectdb.update(target.project, dict(columns))
        self._projects.refresh(target.project)
        return True

    def _row(self, target: ProjectTarget, *fields: str) -> dict[str, Any]:
        """Return the project's row.

        Raises:
            OperationRefused: there is none.
        """
        row = self._find(target, *fields)
        if not row:
            raise OperationRefused("there is no such project")
        return row

    def _find(self, target: ProjectTarget, *fields: str) -> dict[str, Any] | None:
        row: dict[str, Any] | None = self._scheduler.projectdb.get(
            target.project, fields=["name", *fields]
        )
        return row

    # --- deleting ---

    def _delete_later(self, target: ProjectTarget) -> bool:
        """Stop it and put it into the group that pyspider deletes after a day."""
        group = with_delete(self._row(target, "group")["group"])
        return self._change(target, {"status": "STOP", "group": group})

    def _note_version(self, target: ProjectTarget) -> bool:
        """Stop it, and record the version of its row: a new project of the name has another."""
        self._change(target, {"status": "STOP"})
        target.version = self._row(target, "updatetime")["updatetime"]
        return True

    def _delete(self, target: ProjectTarget) -> bool:
        """Delete the project that was marked, not a new one of the same name."""
        row = self._find(target, "updatetime")
        if row and row["updatetime"] != target.version:
            raise OperationRefused(
                "it was changed or created again before it was deleted; it is kept"
            )
        self._deletion.delete(target.project)
        return True

    def _sweep(self, target: ProjectTarget) -> bool:
        """Drop tables that late results and tasks may have created again."""
        if not self._find(target):
            self._deletion.delete(target.project)
        return True
