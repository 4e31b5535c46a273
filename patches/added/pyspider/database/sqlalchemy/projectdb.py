"""Projects in a database that SQLAlchemy speaks to.

Added by pyspider-zk in place of pyspider's, which no SQLAlchemy of today runs; the table is the
same, and a new one has room for more.
"""

import time

from pyspider.database.base.projectdb import ProjectDB as BaseProjectDB
from sqlalchemy import Column, MetaData, Table, select

from .connections import Connections
from .tables import KEY, MYSQL, NUMBER, TEXT, chosen, fits


def definition():
    """Return the table, for a database of its own."""
    return Table(
        "projectdb",
        MetaData(),
        Column("name", KEY, primary_key=True),
        Column("group", TEXT),
        Column("status", TEXT),
        Column("script", TEXT),
        Column("comments", TEXT),
        Column("rate", NUMBER),
        Column("burst", NUMBER),
        Column("updatetime", NUMBER),
        **MYSQL,
    )


class ProjectDB(BaseProjectDB):
    """Projects, in one table. Threads: any. Blocks for the database."""

    def __init__(self, url):
        self._connections = Connections(url)
        self._projects = definition()
        self._connections.create(self._projects)
        self.close = self._connections.close

    def insert(self, name, obj={}):  # noqa: B006 - pyspider's signature
        """Add a project; raises IntegrityError if there is one of this name."""
        project = {**obj, "name": name, "updatetime": time.time()}
        self._connections.change(self._projects.insert().values(**project))

    def update(self, name, obj={}, **kwargs):  # noqa: B006 - pyspider's signature
        """Change columns of a project; return how many projects that were: 0 or 1."""
        changes = {**obj, **kwargs, "updatetime": time.time()}
        query = self._projects.update().where(self._projects.c.name == name)
        return self._connections.change(query.values(**changes))

    def get_all(self, fields=None):
        """Yield all projects."""
        yield from self._connections.rows(select(*chosen(self._projects, fields)))

    def get(self, name, fields=None):
        """Return a project, None if there is none."""
        query = select(*chosen(self._projects, fields)).where(self._projects.c.name == name)
        return next(iter(self._connections.rows(query)), None)

    def check_update(self, timestamp, fields=None):
        """Yield the projects that were changed at a time or later, in seconds since the epoch."""
        query = select(*chosen(self._projects, fields))
        query = query.where(self._projects.c.updatetime >= timestamp)
        yield from self._connections.rows(query)

    def drop(self, name):
        """Delete a project; return how many that were: 0 or 1."""
        query = self._projects.delete().where(self._projects.c.name == name)
        return self._connections.change(query)

    def verify_project_name(self, name):
        """Tell whether a project may be called so; its tables will be."""
        return super().verify_project_name(name) and fits(name, self._connections.dialect)
