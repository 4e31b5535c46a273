"""Operations: what each does to a chunk of projects, in the loop of their owner.

A job may be carried out twice, because its claimant may die in between. So every operation can be
repeated: what its batch has already done is not done again.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from pyspider_zk.errors import DatabaseAway, FenceClosed, Unavailable
from pyspider_zk.jobs.execution import OperationRefused, ProjectTarget, Results, Stage
from pyspider_zk.jobs.operations import (
    Operation,
    Work,
    check_arguments,
    check_operation,
    with_delete,
)
from pyspider_zk.projects.names import check_project_name
from pyspider_zk.projects.rows import ACTIVE, row_faults
from pyspider_zk.scheduling.deletion import Deletion
from pyspider_zk.scheduling.engine import TaskEngine
from pyspider_zk.scheduling.message_applier import MessageApplier
from pyspider_zk.scheduling.project import LoadedProject
from pyspider_zk.scheduling.project_set import ProjectSet
from pyspider_zk.scheduling.quarantine import AtFault
from pyspider_zk.scheduling.refetching import (
    RefetchFilter,
    Refetching,
    check_faults,
    note_refused,
)

logger = logging.getLogger("scheduler")

SETTLE = 2.5
"""Seconds until the tables of deleted projects are dropped a second time.

Two seconds longer than result workers and processors assume that a project exists, see
``projects/cache.py``: what they began to write before may wait for a lock.
"""

ON_START = "on_start"

NOBODY = "there is no such project"

Targets = Sequence[ProjectTarget]
Columns = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""Function of a project's row, with its name and group: the columns to write."""


class ProjectOperations:
    """The operations on projects.

    All effects are behind the fence; ``FenceClosed`` and the errors of databases are raised.

    A job does not wait for a project in quarantine: to start it is refused with the reason; to
    change or delete it is allowed, because that may be the cure.

    Threads: the scheduling loop.
    """

    def __init__(
        self,
        engine: TaskEngine,
        projects: ProjectSet,
        applier: MessageApplier,
        deletion: Deletion,
    ) -> None:
        self._engine = engine
        self._projects = projects
        self._applier = applier
        self._deletion = deletion

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
                return (Stage(partial(self._change, {"status": "STOP"})),)
            case Operation.REFETCH:
                return (Stage(partial(self._refetch, RefetchFilter(**arguments))),)
            case _:  # rate, group, status: the arguments are the columns
                return (Stage(partial(self._change, arguments)),)

    # --- starting ---

    def _start(self, targets: Targets) -> Results:
        """Make them RUNNING and dispatch ``on_start``, once per batch."""
        results = self._settled(targets)
        left = _left(targets, results)
        results |= _faults(self._change({"status": "RUNNING"}, _fresh(left)))
        results |= self._refreshed([target for target in left if target.waited])
        return results | self._begin(_left(left, results))

    def _run(self, targets: Targets) -> Results:
        """Dispatch ``on_start`` of running projects, once per batch."""
        results = self._settled(targets)
        results |= self._refreshed(_left(targets, results))
        return results | self._begin(_left(targets, results))

    def _restart(self, targets: Targets) -> Results:
        """Drop all tasks, then start them, once per batch."""
        results = self._settled(targets)
        results |= _faults(_each(_fresh(_left(targets, results)), self._forget))
        results |= self._loaded_anew(_fresh(_left(targets, results)))
        return results | self._begin(_left(targets, results))

    def _loaded_anew(self, forgotten: Targets) -> Results:
        """Drop all tasks of projects and load them; return those that are at fault."""
        names = _names(forgotten)
        try:
            check = self._engine.databases.check_all
            self._engine.taskdb.drop_all(names, check, is_for_good=False)
            return _faults(self._change({"status": "RUNNING"}, forgotten))
        except Exception:
            self._projects.look_soon(names)  # the job may end here, being cancelled
            raise

    def _settled(self, targets: Targets) -> Results:
        """Return the results of projects for which nothing is to be done, or cannot be."""
        results: Results = {
            target.project: False for target in targets if self._still_waits(target)
        }
        left = _left(targets, results)
        if left:
            self._applier.commit()  # what an earlier try could not
        return results | {
            name: result for name, result in _each(left, self._has_begun).items() if result
        }

    def _still_waits(self, target: ProjectTarget) -> bool:
        """Return whether a waiting project need not be checked again, judged by memory alone.

        Thousands may wait for fetchers that are down, and each is checked again and again.
        """
        project = self._engine.projects.get(target.project)
        if not target.waits or project is None or not project.active:
            return False
        return self._engine.is_full(project) or project.task_queue.is_processing(ON_START)

    def _has_begun(self, target: ProjectTarget) -> bool:
        """Return whether this batch's ``on_start`` has a row, done or not.

        Raises:
            BadMessage: the project has a name that no task can have.
        """
        check_project_name(target.project)
        row = self._engine.taskdb.get_task(target.project, ON_START, ["taskid", "schedule"])
        return row is not None and (row.get("schedule") or {}).get("itag") == target.batch

    def _begin(self, targets: Targets) -> Results:
        """Apply ``on_start`` as if its message had been read; False if an old one is in flight."""
        results = self._unread(targets)
        results |= _each(_left(targets, results), self._request)
        refused = self._applier.commit() if targets else {}
        return results | {
            project: error for (project, _), error in refused.items() if project in results
        }

    def _request(self, target: ProjectTarget) -> bool:
        project = self._running(target.project)
        if self._engine.is_full(project):
            return False
        return self._applier.apply_task(
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

    def _unread(self, targets: Targets) -> Results:
        """Return those that wait for a look at their rows: what memory tells of them is old.

        A database that is away for a moment must not have them refused, which is final.
        """
        return {
            target.project: False
            for target in targets
            if self._projects.is_look_due(target.project)
        }

    def _running(self, name: str) -> LoadedProject:
        """Return a project whose tasks are scheduled.

        Raises:
            OperationRefused: they are not.
        """
        fault = self._projects.quarantine.told().get(name)
        if fault:
            raise OperationRefused(f"it is in quarantine: {fault['reason']}")
        project = self._engine.projects.get(name)
        if project is None:
            raise OperationRefused(NOBODY)
        if not project.active:
            raise OperationRefused(f"it is {project.db_status}; it must be {' or '.join(ACTIVE)}")
        return project

    def _refreshed(self, targets: Targets) -> Results:
        """Update memory from the projects' rows; return those that this fails for."""
        with self._engine.dispatch.collecting():  # the scripts of new ones are asked about
            return _faults(_each(targets, self._refresh))

    def _refresh(self, target: ProjectTarget) -> bool:
        with suppress(AtFault):  # it is in quarantine, which keeps nobody from changing its row
            self._projects.refresh(target.project)
        return True

    def _forget(self, target: ProjectTarget) -> bool:
        row = self._row(target, "group", "script", "rate", "burst")
        faults = row_faults({**row, "status": "RUNNING", "updatetime": 0.0})  # as it will be
        if faults:  # it cannot be loaded: its tasks stay
            raise OperationRefused(f"it is in quarantine: {', '.join(faults)}")
        self._engine.fence.check(target.project)
        self._projects.forget(target.project)
        return True

    # --- fetching again ---

    def _refetch(self, wanted: RefetchFilter, targets: Targets) -> Results:
        """Have tasks of running projects fetched again, once per batch, the next page of them."""
        results = self._refreshed(_fresh(targets))
        results |= self._unread(_left(targets, results))
        results |= _faults(_each(_left(targets, results), self._check_running))
        self._applier.commit()  # pages are of committed rows
        refetching = Refetching(self._engine, self._applier, wanted)
        results |= _each(_left(targets, results), refetching.step)
        refused = self._applier.commit()
        for target in targets:
            note_refused(target, refused)
        through = [target for target in targets if results[target.project] is True]
        return results | _each(through, check_faults)

    def _check_running(self, target: ProjectTarget) -> bool:
        return bool(self._running(target.project))

    # --- changing ---

    def _change(self, columns: Mapping[str, Any], targets: Targets) -> Results:
        """Write columns of the projects' rows, and update memory at once."""
        return self._change_by(lambda _row: columns, targets)

    def _change_by(self, columns: Columns, targets: Targets) -> Results:
        """Write columns that depend on the row as it is, with its name and group."""
        if not targets:
            return {}
        write = partial(self._write, columns, _names(targets))
        results = self._engine.databases.together(_names(targets), write)
        left = _left(targets, _faults(results))
        try:
            return results | self._refreshed(left)
        except DatabaseAway:  # memory follows; in another try the rows would be written again
            self._projects.look_soon(_names(left))
            return results

    def _write(self, columns: Columns, names: Sequence[str]) -> Results:
        results: Results = {}
        for name in names:
            row = self._find(name, "group")
            if row:
                self._engine.fence.check(name)
                self._engine.projectdb.update(name, dict(columns(row)))
            results[name] = bool(row) or OperationRefused(NOBODY)
        return results

    def _row(self, target: ProjectTarget, *fields: str) -> dict[str, Any]:
        """Return the project's row.

        Raises:
            OperationRefused: there is none.
        """
        row = self._find(target.project, *fields)
        if not row:
            raise OperationRefused(NOBODY)
        return row

    def _find(self, name: str, *fields: str) -> dict[str, Any] | None:
        row: dict[str, Any] | None = self._engine.projectdb.get(name, fields=["name", *fields])
        return row

    # --- deleting ---

    def _delete_later(self, targets: Targets) -> Results:
        """Stop them and put them into the group that pyspider deletes after a day."""
        return self._change_by(_deleted_later, targets)

    def _note_version(self, targets: Targets) -> Results:
        """Stop them, and record the version of each row: a new project of the name has another."""
        results = self._change({"status": "STOP"}, targets)
        return {**results, **_each(_left(targets, _faults(results)), self._mark)}

    def _mark(self, target: ProjectTarget) -> bool:
        target.version = self._row(target, "updatetime")["updatetime"]
        return True

    def _delete(self, targets: Targets) -> Results:
        """Delete the projects that were marked, not new ones of the same names."""
        results = _each(targets, self._check_version)
        if marked := _left(targets, _faults(results)):
            self._deletion.delete_all(_names(marked))
        return results

    def _check_version(self, target: ProjectTarget) -> bool:
        row = self._find(target.project, "updatetime")
        if row and row["updatetime"] != target.version:
            raise OperationRefused(
                "it was changed or created again before it was deleted; it is kept"
            )
        return True

    def _sweep(self, targets: Targets) -> Results:
        """Drop tables that late results and tasks may have created again.

        Rows are not touched: one that comes at this moment is a new project's.
        """
        if gone := [target for target in targets if not self._find(target.project)]:
            self._deletion.drop_data(_names(gone))
            for name in _names(gone):
                self._projects.refresh(name)  # one that is still in memory must make no table anew
        return {target.project: True for target in targets}


def _deleted_later(row: Mapping[str, Any]) -> Mapping[str, Any]:
    group = row["group"] if isinstance(row["group"], str) else ""  # any other names no groups
    return {"status": "STOP", "group": with_delete(group)}


def _each(targets: Targets, act: Callable[[ProjectTarget], bool]) -> Results:
    """Return what came of an act on each project; what is nobody's own fault is raised."""
    results: Results = {}
    for target in targets:
        try:
            results[target.project] = act(target)
        except (FenceClosed, Unavailable):
            raise
        except Exception as error:  # each database has its own errors
            results[target.project] = error
    return results


def _faults(results: Results) -> Results:
    return {name: result for name, result in results.items() if isinstance(result, Exception)}


def _left(targets: Targets, results: Results) -> Targets:
    return [target for target in targets if target.project not in results]


def _fresh(targets: Targets) -> Targets:
    return [target for target in targets if not target.waited]


def _names(targets: Targets) -> list[str]:
    return [target.project for target in targets]
