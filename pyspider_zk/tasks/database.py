"""The bulk interface of pyspider's task databases.

Rows are the same as pyspider's own, to the byte of their JSON, so its components read and write
them as before.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from typing import Any, Protocol, TypeVar

from pyspider.database import servers
from pyspider.database.sqlite import taskdb as sqlite

from pyspider_zk.errors import ConfigError, Unavailable, brief
from pyspider_zk.tasks.failure_table import AboutFailures
from pyspider_zk.tasks.filters import TaskFilter
from pyspider_zk.tasks.pages import ActivePage, FoundPage
from pyspider_zk.tasks.seals import UNSEALED, Seals
from pyspider_zk.tasks.sqlite import SqliteTasks
from pyspider_zk.tasks.writes import TaskWrite

__all__ = ["ActivePage", "Seals", "TaskDatabase", "TaskWrite", "answered", "task_database"]

T = TypeVar("T")

BY_SQLALCHEMY = "pyspider.database.sqlalchemy.taskdb"


class TaskDatabase(Protocol):
    """Many rows of tasks at once.

    Errors of the database are its driver's or SQLAlchemy's, as with pyspider's own methods; its
    connection is usable again after any error. Nothing is tried again.

    Threads and blocking: as the database itself.
    """

    def encoded(self, columns: Mapping[str, Any]) -> dict[str, Any]:
        """Return columns as the database stores them, to give to a ``TaskWrite``.

        Task id, project and time of update, which a write sets, are checked and left out.

        Raises:
            TypeError, ValueError: a column cannot be stored; the message names the column and the
                reason, but no content. It may be unknown, no JSON, too long for a new table, half
                of a character, or beyond the column's type. What else the database refuses, such
                as what an old table has no room for, it refuses in ``write_many``.
        """
        ...

    def look_again(self) -> None:
        """List the projects that have tables with the next request; others may have made some."""
        ...

    def projects(self) -> Set[str]:
        """Return the projects that have tables; they are listed with the first request alone."""
        ...

    def get_many(
        self, project: str, taskids: Collection[str], fields: Sequence[str]
    ) -> dict[str, dict[str, Any] | None]:
        """Return rows by task id, each as ``get_task(project, taskid, fields)`` returns it.

        An id without a row is absent; so are all of a project that has no table. None stands for a
        row that cannot be read: ``get_task`` raises why. There may be any number of ids.
        """
        ...

    def active_page(self, project: str, after: Any, limit: int) -> ActivePage:
        """Return the next ACTIVE rows of a project, in the order in which the database finds them.

        A page is read completely, so nothing stays open or locked between two pages. Meanwhile rows
        change: one that becomes ACTIVE behind the position is simply not seen. Nor are those that
        got there because the table was made anew or, in sqlite, packed by ``VACUUM``. The last page
        may be empty; a project without table has no other.

        A schedule is what is stored, decoded; where nothing is stored, or what cannot be decoded,
        it is empty. Rows without a task id, which must be text or a whole number, are passed over.
        Both are logged, with their number.

        Args:
            after: the position at which the page before ended; None begins.
            limit: of rows, at least 1.
        """
        ...

    def state_page(
        self, project: str, status: int, after: Any, limit: int, fields: Sequence[str]
    ) -> tuple[Sequence[dict[str, Any] | None], Any]:
        """Return these columns of the next rows in a state, and the position then.

        None stands for a row that cannot be read.

        Args:
            after, limit: as in ``active_page``; the position is None at the end.
        """
        ...

    def spellings(self, taskid: Any) -> Iterable[Any]:
        """Return the ids that a task may have been given whose row has this one.

        A number that is given is text in a server's table; MySQL ignores spaces at the end.
        """
        ...

    def count_page(self, project: str, after: Any, limit: int) -> tuple[Mapping[int, int], Any]:
        """Return how many of the next rows are in each state, and the position then.

        So a table of millions is counted in short steps. Rows without a task id count.

        Args:
            after, limit: as in ``active_page``; the position is None at the end.
        """
        ...

    def search_page(
        self, project: str, wanted: TaskFilter, after: Any, size: int, limit: int
    ) -> FoundPage:
        """Return those of the next rows of a project that a filter means by their URL.

        Args:
            after: as in ``active_page``.
            size: how many rows are looked at.
            limit: how many are found; the page ends with the last of them.
        """
        ...

    def last_ended(self, project: str, limit: int) -> Sequence[Any]:
        """Return the ids of tasks that have ended, the last ones first.

        No index leads to them, so of many rows only some thousands are looked at: in sqlite the
        newest, on a server any.
        """
        ...

    def write_many(
        self,
        writes: Sequence[TaskWrite],
        before_commit: Callable[[], None],
        seals: Seals = UNSEALED,
    ) -> None:
        """Carry out all writes, in their order, in one transaction; or none of them.

        An insert makes its project's table if there is none, and overwrites the columns of a row
        that is there already. In MySQL, where making a table commits, tables are made before the
        transaction, and stay; that of failures in each database. An update of a row that is missing
        does nothing.

        Args:
            before_commit: called last in the transaction. What it raises rolls everything back and
                is passed on.
            seals: checked in the transaction, and held until it ends: whoever seals one of these
                slots waits for it.

        Raises:
            SealBroken: a slot is sealed at another epoch; nothing was written.
            SealsUnreadable: they cannot be read; nothing was written.
            LookupError: an update comes before any insert in a project without table.
            Exception: what the database raises; after an error while it commits, the writes may
                have been carried out nevertheless.
        """
        ...

    def drop(
        self,
        projects: Collection[str],
        before_commit: Callable[[], None],
        seals: Seals = UNSEALED,
        *,
        is_for_good: bool = True,
    ) -> None:
        """Drop the rows of projects, with tables and failures, in one transaction; or none of them.

        In MySQL, where dropping a table commits, everything is checked just before.

        Args:
            before_commit, seals: as in ``write_many``.
            is_for_good: if not, there will be new rows at once, so tables may stay.

        Raises:
            SealBroken, SealsUnreadable: nothing was dropped, as in ``write_many``.
        """
        ...

    def ask_failures(self, question: AboutFailures[T]) -> T | None:
        """Return what a question about failures answers; None: none was ever written.

        The question gets the table, and what asks the database.
        """
        ...

    def seal(self, seals: Seals) -> Mapping[int, Any]:
        """Seal slots in one transaction, each unless it is sealed at a higher epoch.

        It waits for the writes in flight of those who sealed these slots before. Afterwards none of
        theirs can be committed. The table of seals is made if there is none.

        Returns:
            What the database holds for the slots that are sealed at a higher epoch.

        Raises:
            SealsUnreadable: the table is damaged; nothing was sealed.
        """
        ...


def answered(question: Callable[[], T]) -> T:
    """Return what a database answers.

    Raises:
        Unavailable: it does not.
    """
    try:
        return question()
    except Exception as error:  # each database has its own errors
        raise Unavailable(f"the database does not answer: {brief(error)}") from error


def task_database(taskdb: Any) -> TaskDatabase:
    """Return the bulk interface of one of pyspider's task databases; does no I/O.

    Raises:
        ConfigError: it is of another class, maybe one that inherits from pyspider's and changes
            what they do: its writes could not be fenced.
    """
    if type(taskdb) is sqlite.TaskDB:
        return SqliteTasks(taskdb)
    if type(taskdb).__module__ == BY_SQLALCHEMY:
        from pyspider_zk.tasks.shared import SharedTasks  # it loads SQLAlchemy

        return SharedTasks(taskdb)
    raise ConfigError([f"taskdb: a {type(taskdb).__name__} cannot be used: {servers.REMEDY}"])
