"""Project set: loads the projects of the held slots into memory and removes them."""

import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from pyspider_zk.errors import BadMessage, ClusterError, DatabaseAway
from pyspider_zk.projects.rows import row_faults
from pyspider_zk.scheduling.counters import drop_counters, dump_windows, load_windows
from pyspider_zk.scheduling.cron import Cron
from pyspider_zk.scheduling.engine import ON_FINISHED, TaskEngine
from pyspider_zk.scheduling.loading import TaskLoading
from pyspider_zk.scheduling.project import LoadedProject
from pyspider_zk.scheduling.project_rows import ProjectRows
from pyspider_zk.scheduling.quarantine import AtFault, Quarantine
from pyspider_zk.scheduling.slot_record import (
    Part,
    is_finish_due,
    kept,
    last_tick,
    project_part,
    restore_script_info,
    restore_state,
)

logger = logging.getLogger("scheduler")

MOST_PREVENTED = 20
"""Looks that a database or the fence prevents, in one call: in an outage all of them may be."""


class ProjectSet:
    """The projects in memory, kept in step with their rows and with the held slots.

    Threads: the scheduler loop only.

    Args:
        scheduler: holds the projects in memory, and their tasks to be sent.
        rows: which rows changed.
        loading: fills the queues of projects.
        cron: continues counting ticks where the former owner stopped.
        beat: shows that the loop runs.

    Attributes:
        quarantine: faulty projects of held slots, which are therefore not in memory.
        news: slots with a change that the next owner needs and that is not saved yet.
    """

    def __init__(
        self,
        engine: TaskEngine,
        rows: ProjectRows,
        loading: TaskLoading,
        cron: Cron,
        beat: Callable[[], None],
    ) -> None:
        self.quarantine = Quarantine()
        self.news: set[int] = set()
        self._engine = engine
        self._fence = engine.fence
        self._rows = rows
        self._loading = loading
        self._cron = cron
        self._beat = beat
        self._parts: dict[str, Part] = {}
        self._looks: dict[str, None] = {}  # projects to be looked at, in the order of their turns
        self._nameless: set[str] = set()

    # -- slots ------------------------------------------------------------------------------------

    def has_any(self, slot: int) -> bool:
        """Return whether a slot has projects, as far as their rows were read."""
        return bool(self._rows.index.names(slot))

    def expect(self, tasks: Iterable[Mapping[str, Any]], slots: Collection[int]) -> None:
        """Let these tasks of slots count as in flight when their projects are loaded next."""
        self._loading.expect(tasks, slots)

    def load_slot(self, slot: int, parts: Mapping[str, Part]) -> None:
        """Load a slot's projects into memory, with the state that their former owner left.

        The former owner may know projects that are newer than our last read; those that only a
        dead owner knew are found by another read, in the next round.
        """
        self._engine.taskdb.look_again()
        self._rows.look_soon()
        names = sorted({*self._rows.index.names(slot), *parts})
        for name in names:
            self._parts[name] = parts.get(name, {})
            self._looks.setdefault(name)
        with suppress(DatabaseAway):
            self._look_at_all(names)

    def forget_slots(self, slots: Collection[int]) -> None:
        """Drop the projects of slots from memory, with tasks that were selected and not sent."""
        self._engine.dispatch.drop(lambda project: self._fence.slot(project) in slots)
        self._engine.taskdb.discard(lambda project: self._fence.slot(project) in slots)
        for name in {
            *self._engine.projects,
            *self._parts,
            *self._looks,
            *self.quarantine.names(),
        }:
            if self._fence.slot(name) in slots:
                self._forget(name)

    def parts(self, slots: Collection[int], *, whole: bool) -> dict[str, Part]:
        """Return the state of the projects of slots that no database holds.

        The state of a project that could not be loaded yet is passed on unchanged.

        Args:
            whole: for the next owner in a planned move; otherwise for the next one after a death.
        """
        found = {name: part for name, part in self._parts.items() if part}
        unsent = _by_project(reversed(self._engine.dispatch.waiting))
        for name, project in list(self._engine.projects.items()):
            if self._fence.slot(name) in slots:
                with self.isolating(name):
                    found[name] = self._part(project, unsent.get(name, ()), whole)
        return {name: part for name, part in found.items() if self._fence.slot(name) in slots}

    def _part(self, project: LoadedProject, unsent: Iterable[dict[str, Any]], whole: bool) -> Part:
        return {
            **project_part(project, unsent, whole=whole),
            "counters": dump_windows(self._engine.counters, project.name),
            "tick": self._cron.last(project.name),
            "running": self._ran_until(project),
        }

    def _ran_until(self, project: LoadedProject) -> float | None:
        """Return when a project still ran; None if a row of ``on_finished`` tells the rest."""
        if project.has_sent:
            return time.time()
        is_to_come = self._engine.taskdb.has_written(project.name, ON_FINISHED)
        return project.ran_until if is_to_come else None

    # -- rows -------------------------------------------------------------------------------------

    def follow_rows(self) -> None:
        """Apply the changes of the project database.

        While it is away, the last known rows count.
        """
        with suppress(DatabaseAway):  # its breaker logs it
            self._follow_changes()
            for name in self.quarantine.due():
                if self._fence.holds(name) and name in self._rows.index:
                    self._looks.setdefault(name)
            self._look_at_all([*self._looks])

    def _follow_changes(self) -> None:
        changes = self._rows.changes()
        if changes.changed:
            self._engine.taskdb.look_again()  # one that was restored may have tasks already
        for name in changes.gone:
            if name in self._engine.projects or name in self.quarantine:
                logger.warning("project %s is gone from the database", name)
                self._forget(name)
        for name in filter(self._fence.holds, changes.changed):
            self.quarantine.renew(name)
            self._looks.setdefault(name)
        self._report_nameless()

    def _report_nameless(self) -> None:
        """Report rows without a usable name, which have no slot: the first slot's owner does."""
        nameless = set(self._rows.index.nameless) if 0 in self._fence.held else set()
        for row in self._nameless - nameless:
            self.quarantine.drop(row)
        for row in nameless - self._nameless:
            self.quarantine.put(row, "its name is not allowed: correct the row or delete it")
        self._nameless = nameless

    def _look_at_all(self, names: Iterable[str]) -> None:
        """Look at these projects, as far as they are to be; one that cannot be stays, as the last.

        Once ``MOST_PREVENTED`` were prevented the others keep their turns for the next call.

        Raises:
            ClusterError: the first that prevented a look.
        """
        prevented: list[ClusterError] = []
        for name in names:
            if name not in self._looks:
                continue  # dropped meanwhile
            del self._looks[name]  # before the look: what asks for another one meanwhile gets it
            try:
                self._look(name)
            except Exception as error:
                self._looks.setdefault(name)
                if not isinstance(error, ClusterError):
                    raise
                prevented.append(error)
                if len(prevented) == MOST_PREVENTED:
                    break
        if prevented:
            raise prevented[0]

    def _look(self, name: str) -> None:
        self._beat()
        with self.isolating(name):
            if self.look_at(name):
                self.quarantine.pardon(name)
            else:
                self._engine.taskdb.discard(name.__eq__)
                self._take_left(name)
                self.quarantine.drop(name)

    def look_at(self, name: str) -> bool:
        """Read a project's row and update the memory; return whether there is such a row.

        Raises:
            AtFault: its row cannot be used.
        """
        info = self._engine.projectdb.get(name)
        if info:
            faults = row_faults(info)
            if faults:
                raise AtFault(", ".join(faults))
            self._update(info)
        return bool(info)

    def refresh(self, name: str) -> None:
        """Update the memory from a project's row; a project that is off sends nothing more.

        Raises:
            AtFault: its row cannot be used; it is in quarantine.
        """
        try:
            is_there = self.look_at(name)
        except AtFault as error:
            self.put_aside(name, error)
            raise
        if not is_there:
            self.forget(name)
        elif not self._engine.projects[name].active:
            self._engine.dispatch.drop(name.__eq__)

    # -- one project ------------------------------------------------------------------------------

    def _update(self, info: dict[str, Any]) -> None:
        """Create or update one project of a slot that is held."""
        name = info["name"]
        project = self._engine.projects.get(name)
        if project is not None:
            project.update(info)
            self._follow_status(project)
        else:
            project = self._revive(info)
            with self._engine.lock:
                self._engine.projects[name] = project
            try:
                self._follow_status(project)
            except Exception:  # half-loaded, it would not recognize messages for the other half
                self._unload(name)
                raise
        part = self._take_left(name)
        self._looks.pop(name, None)
        self._engine.attention.on_project(name)
        if part.get("clean"):
            self._engine.dispatch.go_first(part["unsent"])
            for task in part["postponed"]:  # by an older member
                self._engine.request(task)

    def _revive(self, info: dict[str, Any]) -> LoadedProject:
        """Create a project from its row and the state that the former owner left.

        A state that fails, whatever is broken in it, is left out: it would fail every owner.
        """
        is_due = self._is_finish_due(info["name"])
        project = self._created(info)
        try:
            self._restore(project, self._parts.get(project.name, {}))
        except Exception:
            logger.exception("project %s: goes on without its former state", project.name)
            self._parts[project.name] = {}
            drop_counters(self._engine.counters, project.name)
            project = self._created(info)
            self._restore(project, {})
        project.has_sent |= is_due
        return project

    def _is_finish_due(self, name: str) -> bool:
        """Return whether an owner that died left it to this one to call ``on_finished``.

        Raises:
            DatabaseAway: it cannot be told now.
        """
        part = self._parts.get(name, {})
        if part.get("running") is None or part.get("clean"):
            return False
        row = self._engine.taskdb.get_task(name, ON_FINISHED, ["updatetime"]) or {}
        return is_finish_due(part["running"], row.get("updatetime"))

    def _created(self, info: dict[str, Any]) -> LoadedProject:
        queue = self._engine.attention.new_queue(info["name"])
        return LoadedProject(info, queue, self._engine.ACTIVE_TASKS)

    def _restore(self, project: LoadedProject, part: Part) -> None:
        restore_script_info(project, part)
        load_windows(self._engine.counters, project.name, part.get("counters", {}))
        self._cron.start(project.name, last_tick(part) or int(time.time()))
        if part.get("clean"):
            restore_state(project, part)

    def _follow_status(self, project: LoadedProject) -> None:
        """Load the tasks of an active project, then request the settings of a new script."""
        if project.active and not project.task_loaded:
            self._loading.load(project, self._parts.get(project.name, {}))
            project.task_loaded = True
        elif not project.active:
            if project.task_loaded:
                project.task_queue = self._engine.attention.new_queue(project.name)
                project.task_loaded = False
            self._loading.count(project.name)
        if project.is_info_due:
            project.is_info_due = False
            self._engine.request_info(project.name)

    @contextmanager
    def isolating(self, name: str) -> Iterator[None]:
        """Put a project into quarantine if the block fails.

        A message that is too large for its queue is the project's fault: its settings are.

        Raises:
            ClusterError: any other, from the block; it is not the project's fault.
        """
        try:
            yield
        except Exception as error:
            if isinstance(error, ClusterError) and not isinstance(error, BadMessage):
                raise
            if not isinstance(error, AtFault):
                logger.debug("project %s is at fault", name, exc_info=True)
            self.put_aside(name, error)

    def put_aside(self, name: str, error: Exception) -> None:
        """Put a project into quarantine, out of memory; keep its state that no database holds."""
        self.quarantine.put(name, error)
        project = self._engine.projects.get(name)
        if project is None:
            return
        unsent = _by_project(reversed(self._engine.dispatch.waiting)).get(name, ())
        try:
            part = self._part(project, unsent, whole=True)
            self._parts[name], faults = kept(name, part)
            if faults:
                logger.error("state of a project that is put aside: lost: %s", "; ".join(faults))
        except Exception:  # anything may be broken in it
            logger.exception("project %s: its state could not be kept", name)
        self._engine.dispatch.drop(name.__eq__)
        self._unload(name)
        self._engine.attention.unsaved.add(name)

    def forget(self, name: str) -> None:
        """Drop a project from memory, with tasks that were selected and not sent."""
        self._engine.dispatch.drop(name.__eq__)
        self._forget(name)

    def look_soon(self, names: Iterable[str]) -> None:
        """Load projects in the next round, which may have been forgotten."""
        for name in names:
            self._looks.setdefault(name)

    def is_look_due(self, name: str) -> bool:
        """Return whether a project's row is still to be read, because a database was away."""
        return name in self._looks

    def _forget(self, name: str) -> None:
        self._engine.taskdb.discard(name.__eq__)
        self._unload(name)
        self._take_left(name)
        self._looks.pop(name, None)
        self.quarantine.drop(name)

    def _take_left(self, name: str) -> Part:
        """Return the state that a former owner left of a project, and forget all that it left."""
        self._loading.expect_no_more(name)
        return self._parts.pop(name, {})

    def _unload(self, name: str) -> None:
        with self._engine.lock:
            self._engine.projects.pop(name, None)
            drop_counters(self._engine.counters, name)
        self._loading.forget(name)
        self._cron.drop(name)
        self._engine.attention.forget(name)


def _by_project(tasks: Iterable[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for task in tasks:
        found.setdefault(task["project"], []).append(task)
    return found
