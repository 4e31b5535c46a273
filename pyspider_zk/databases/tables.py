"""Tables of pyspider's task and result databases: one per project, and which there are.

They look again every ten minutes. A project that was deleted by one process and made again is then
taken, by another, to have a table still.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from pyspider_zk.errors import ClusterError

T = TypeVar("T")


def with_fresh_tables(database: Any, access: Callable[[], T]) -> T:
    """Access a database; if it fails, once more after a look at the tables that there are."""
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
    """Drop a project's rows, if it has any; None for a database is none."""
    if database is not None:
        with_fresh_tables(database, lambda: database.drop(project))


class Tables:
    """Which projects have tasks, as far as their owner can know without a look at all tables.

    pyspider's databases look at them all whenever they are requested a project that has none,
    which takes ten milliseconds if there are ten thousand. But only the owner of a slot makes
    tables of its projects; one look after it was taken is enough.

    Threads: one.
    """

    def __init__(self, database: Any) -> None:
        self._database = database
        self._is_old = True

    def look_again(self) -> None:
        """Look at all tables when one is requested next that is not known."""
        self._is_old = True

    def may_have(self, project: str) -> bool:
        """Return whether a project may have a table; False is certain."""
        look = getattr(self._database, "_list_project", None)
        if look is None or project in self._database.projects:
            return True
        if self._is_old:
            look()
            self._is_old = False
        return project in self._database.projects
