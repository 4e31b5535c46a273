"""Tables of pyspider's task and result databases: one per project, and which exist.

They read the list every ten minutes. If one process deletes a project and it is created again,
another may still assume that it has a table.
"""

from collections.abc import Callable, Collection
from functools import partial
from typing import Any, TypeVar

from pyspider_zk.databases.sqlite import quoted_table
from pyspider_zk.errors import ClusterError

T = TypeVar("T")


def with_fresh_tables(database: Any, access: Callable[[], T]) -> T:
    """Access a database; if that fails, once more after reading the list of tables."""
    try:
        return access()
    except ClusterError:
        raise
    except Exception:  # each database has errors of its own
        look = getattr(database, "_list_project", None)
        if look is None:
            raise
        look()
        return access()


def drop_table(database: Any, project: str) -> None:
    """Drop a project's rows, if it has any; does nothing without a database."""
    if database is not None:
        with_fresh_tables(database, lambda: database.drop(project))


def drop_tables(
    database: Any, projects: Collection[str], before_commit: Callable[[], None]
) -> None:
    """Drop the rows of many projects; tables are listed once, and go together in sqlite.

    Does nothing without a database.

    Args:
        before_commit: see ``Guarded.together``.
    """
    if database is None:
        return
    if len(projects) == 1 or not hasattr(database, "_list_project"):
        for project in projects:
            before_commit()
            drop_table(database, project)
        return
    database._list_project()  # other processes make tables, too
    there = [project for project in projects if project in database.projects]
    if there:
        database.together(partial(_drop_all, database, there), before_commit)
        database.projects.difference_update(there)


def _drop_all(database: Any, projects: Collection[str]) -> None:
    """Drop tables that are there; pyspider would list all tables after each."""
    for project in projects:
        if hasattr(database, "dbcur"):
            database._execute(f"DROP TABLE {quoted_table(database, project)}")
        else:
            database.drop(project)


class Tables:
    """Projects that have tasks, as far as their owner knows without listing all tables.

    pyspider's databases list all tables at every request for a project that has none, which takes
    ten milliseconds if there are ten thousand. But only the owner of a slot creates tables of its
    projects; listing them once after the slot was taken is enough.

    Threads: one.
    """

    def __init__(self, database: Any) -> None:
        self._database = database
        self._is_old = True

    def look_again(self) -> None:
        """List all tables at the next request for an unknown one."""
        self._is_old = True

    def may_have(self, project: str) -> bool:
        """Return whether a project may have a table; False is certain."""
        return bool(self.which_may_have([project]))

    def which_may_have(self, projects: Collection[str]) -> Collection[str]:
        """Return those of the projects that may have a table; the others have none."""
        look = getattr(self._database, "_list_project", None)
        if look is None:
            return projects
        known: Collection[str] = self._database.projects
        if self._is_old and not all(project in known for project in projects):
            look()
            self._is_old = False
            known = self._database.projects
        return [project for project in projects if project in known]
