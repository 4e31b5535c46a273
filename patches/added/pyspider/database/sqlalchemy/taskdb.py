"""Tasks in a database that SQLAlchemy speaks to.

Added by pyspider-zk in place of pyspider's, which no SQLAlchemy of today runs; the tables are the
same, and new ones have room for more.
"""

import time

from pyspider.database.base.taskdb import TaskDB as BaseTaskDB
from sqlalchemy import func, select

from .connections import Connections
from .rows import loaded, stored
from .tables import JSON, KEY, NUMBER, TEXT, WHOLE, ProjectTables, chosen

DOCUMENTS = ("schedule", "fetch", "process", "track")
COLUMNS = {
    "taskid": KEY,
    "project": TEXT,
    "url": TEXT,
    "status": WHOLE,
    **dict.fromkeys(DOCUMENTS, JSON),
    "lastcrawltime": NUMBER,
    "updatetime": NUMBER,
}


class TaskDB(BaseTaskDB):
    """Tasks, in a table per project. Threads: any. Blocks for the database."""

    ROWS_PER_PAGE = 2000

    def __init__(self, url):
        self._connections = Connections(url)
        self._tables = ProjectTables(self._connections, "taskid", COLUMNS, ("status", "taskid"))
        self.close = self._connections.close

    @property
    def projects(self):
        """The projects that have tasks."""
        return self._tables.projects

    def _list_project(self):
        self._tables.look()

    def load_tasks(self, status, project=None, fields=None):
        """Yield the tasks in a state, of one project or of all.

        They are read in pages, so that a reader who takes its time keeps nothing open.
        """
        for each in [project] if project else sorted(self.projects):
            tasks = self._tables.find(each)
            if tasks is not None:
                yield from self._load(tasks, status, fields)

    def _load(self, tasks, status, fields):
        query = select(*chosen(tasks, fields), tasks.c.taskid.label("taskid "))
        query = query.where(tasks.c.status == status)
        query = query.order_by(tasks.c.taskid).limit(self.ROWS_PER_PAGE)
        page = self._connections.rows(query)
        while page:
            for row in page:
                last = row.pop("taskid ")
                yield parsed(row)
            page = self._connections.rows(query.where(tasks.c.taskid > last))

    def get_task(self, project, taskid, fields=None):
        """Return a task, None if there is none."""
        tasks = self._tables.find(project)
        if tasks is None:
            return None
        query = select(*chosen(tasks, fields)).where(tasks.c.taskid == taskid)
        return next(map(parsed, self._connections.rows(query)), None)

    def status_count(self, project):
        """Return how many tasks are in each state: ``{status: count}``."""
        tasks = self._tables.find(project)
        if tasks is None:
            return {}
        query = select(tasks.c.status, func.count().label("tasks")).group_by(tasks.c.status)
        return {row["status"]: row["tasks"] for row in self._connections.rows(query)}

    def insert(self, project, taskid, obj={}):  # noqa: B006 - pyspider's signature
        """Add a task; raises IntegrityError if there is one of this id."""
        tasks = self._tables.find_or_make(project)
        task = {**obj, "taskid": taskid, "project": project, "updatetime": time.time()}
        self._connections.change(tasks.insert().values(**stored(task, DOCUMENTS)))

    def update(self, project, taskid, obj={}, **kwargs):  # noqa: B006 - pyspider's signature
        """Change columns of a task; return whether there is one. Raises LookupError."""
        tasks = self._tables.find(project)
        if tasks is None:
            raise LookupError(f"project {project!r} has no tasks")
        changes = stored({**obj, **kwargs, "updatetime": time.time()}, DOCUMENTS)
        query = tasks.update().where(tasks.c.taskid == taskid).values(**changes)
        return self._connections.change(query)

    def drop(self, project):
        """Drop all tasks of a project."""
        self._tables.drop(project)

    def write_nothing(self, project):
        """Raise what a write would raise, and change nothing; the project has tasks."""
        self.update(project, "")


def parsed(row):
    """Return a row as pyspider knows it: what is empty of its documents is ``{}``."""
    documents = {name: loaded(row[name]) if row[name] else {} for name in DOCUMENTS if name in row}
    return {**row, **documents}
