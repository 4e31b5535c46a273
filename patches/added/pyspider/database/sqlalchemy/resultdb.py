"""Results in a database that SQLAlchemy speaks to.

Added by pyspider-zk in place of pyspider's, which no SQLAlchemy of today runs; the tables are the
same, and new ones have room for more.
"""

import time

from pyspider.database.base.resultdb import ResultDB as BaseResultDB
from sqlalchemy import false, func, select, true
from sqlalchemy.dialects import mysql, postgresql, sqlite

from .connections import Connections
from .rows import loaded, stored
from .tables import JSON, KEY, NUMBER, TEXT, ProjectTables, chosen

DOCUMENTS = ("result",)
COLUMNS = {"taskid": KEY, "url": TEXT, "result": JSON, "updatetime": NUMBER}


class ResultDB(BaseResultDB):
    """Results, in a table per project. Threads: any. Blocks for the database."""

    ROWS_PER_PAGE = 500
    BYTES_PER_PAGE = 2**20

    def __init__(self, url):
        self._connections = Connections(url)
        self._tables = ProjectTables(self._connections, "taskid", COLUMNS)
        self.close = self._connections.close

    @property
    def projects(self):
        """The projects that have results."""
        return self._tables.projects

    def _list_project(self):
        self._tables.look()

    def save(self, project, taskid, url, result):
        """Keep the result of a task, in place of the one before."""
        results = self._tables.find_or_make(project)
        row = {"taskid": taskid, "url": url, "result": result, "updatetime": time.time()}
        query = upsert(self._connections.dialect, results, stored(row, DOCUMENTS))
        self._connections.change(query)

    def select(self, project, fields=None, offset=0, limit=None):
        """Yield results, the latest first."""
        results = self._tables.find(project)
        if results is None:
            return
        query = select(*chosen(results, fields)).order_by(results.c.updatetime.desc())
        for row in self._connections.stream(query.offset(offset or 0).limit(limit or None)):
            yield parsed(row)

    def scan(self, project):
        """Yield all results once each, by task id, in short reads that leave nothing open.

        Those that are added or deleted meanwhile may be among them.
        """
        results = self._tables.find(project)
        if results is None:
            return
        by_id = select(results).order_by(results.c.taskid)
        size = func.length(results.c.result).label("size")
        sizes = by_id.with_only_columns(results.c.taskid, size).limit(self.ROWS_PER_PAGE)
        after = true()
        while page := self._connections.rows(sizes.where(after)):
            last = self._last_that_fits(page)
            yield from map(
                parsed, self._connections.rows(by_id.where(after, results.c.taskid <= last))
            )
            after = results.c.taskid > last

    def _last_that_fits(self, page):
        left = self.BYTES_PER_PAGE
        for row in page:
            left -= row["size"] or 0
            if left <= 0:
                break
        return row["taskid"]

    def count(self, project):
        """Return how many results a project has."""
        results = self._tables.find(project)
        if results is None:
            return 0
        query = select(func.count().label("results")).select_from(results)
        return self._connections.rows(query)[0]["results"]

    def get(self, project, taskid, fields=None):
        """Return the result of a task, None if there is none."""
        results = self._tables.find(project)
        if results is None:
            return None
        query = select(*chosen(results, fields)).where(results.c.taskid == taskid)
        return next(map(parsed, self._connections.rows(query)), None)

    def drop(self, project):
        """Drop all results of a project."""
        self._tables.drop(project)

    def write_nothing(self, project):
        """Raise what a write would raise, and change nothing; the project has results."""
        results = self._tables.find_or_make(project)
        self._connections.change(results.delete().where(false()))


def upsert(dialect, into, row):
    """Return the statement that adds a row, or changes the one of the same id."""
    changes = {name: value for name, value in row.items() if name != "taskid"}
    if dialect == "mysql":
        return mysql.insert(into).values(**row).on_duplicate_key_update(**changes)
    insert = {"postgresql": postgresql.insert, "sqlite": sqlite.insert}[dialect]
    return insert(into).values(**row).on_conflict_do_update(index_elements=["taskid"], set_=changes)


def parsed(row):
    """Return a row as pyspider knows it."""
    return {**row, "result": loaded(row["result"])} if "result" in row else row
