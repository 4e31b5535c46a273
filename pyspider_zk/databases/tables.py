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


def drop_tables(
    database: Any, projects: Collection[str], before_commit: Callable[[], None]
) -> None:
    """Drop the rows of projects; tables are listed once, and go together in sqlite.

    Does nothing without a database.

    Args:
        before_commit: see ``Guarded.together``.
    """
    if database is None:
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
