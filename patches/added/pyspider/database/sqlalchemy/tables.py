"""Tables of a database that has one for each project.

Added by pyspider-zk. Their names are the projects', as ever.
"""

import hashlib
import re
import time

from sqlalchemy import (
    Column,
    Double,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    column,
    table,
)
from sqlalchemy.dialects.mysql import LONGBLOB, LONGTEXT
from sqlalchemy.sql import quoted_name

KEY = String(255)
TEXT = Text().with_variant(LONGTEXT(), "mysql")
JSON = LargeBinary().with_variant(LONGBLOB(), "mysql")
NUMBER = Double()
WHOLE = Integer()

LONGEST = {"postgresql": 63, "mysql": 64, "sqlite": 255}
"""Of a table's name: bytes of UTF-8 in PostgreSQL, which cuts longer ones, else characters."""

MYSQL = {
    "mysql_engine": "InnoDB",
    "mysql_charset": "utf8mb4",
    "mysql_collate": "utf8mb4_bin",  # ids that differ in case only are two
}


class ProjectTables:
    """One table per project, and which there are; that is looked at again every ten minutes.

    Threads: any.

    Args:
        connections: to the database.
        key: the column that is the primary key.
        columns: the type of each column, by name.
        indexed: the columns of an index; empty: there is none.
    """

    UPDATE_PROJECTS_TIME = 10 * 60

    def __init__(self, connections, key, columns, indexed=()):
        self._connections = connections
        self._key = key
        self._columns = columns
        self._indexed = indexed
        self.look()

    @property
    def projects(self):
        """The projects that have a table."""
        if time.time() - self._looked > self.UPDATE_PROJECTS_TIME:
            self.look()
        return self._projects

    def look(self):
        """Look which tables there are; one that no project can have is not ours to list."""
        self._looked = time.time()
        names = self._connections.table_names()
        self._projects = {name for name in names if re.fullmatch(r"\w+", name)}

    def find(self, project):
        """Return a project's table for queries, None if it has none."""
        if project not in self.projects:
            self.look()
        return self._table(project) if project in self._projects else None

    def find_or_make(self, project):
        """Return a project's table for queries, which is made if it has none."""
        found = self.find(project)
        if found is None:
            check_name(project, self._connections.dialect)
            self._connections.create(self._definition(project))
            self.look()
            found = self._table(project)
        return found

    def drop(self, project):
        """Drop a project's table, if it has one."""
        if self.find(project) is not None:
            self._definition(project).drop(self._connections.engine, checkfirst=True)
            self.look()

    def _table(self, project):
        # Not a Table: that is costly to make, and SQLAlchemy would keep a statement for each.
        columns = [column(name, kind) for name, kind in self._columns.items()]
        return table(quoted_name(project, quote=True), *columns)

    def _definition(self, project):
        columns = [
            Column(name, kind, primary_key=name == self._key)
            for name, kind in self._columns.items()
        ]
        index = [Index(index_name(project), *self._indexed)] if self._indexed else []
        name = quoted_name(project, quote=True)
        return Table(name, MetaData(), *columns, *index, **MYSQL)


def chosen(of, fields):
    """Return the columns that are asked for; all if none is named."""
    return [of.c[name] for name in fields] if fields else list(of.c)


def fits(project, dialect):
    """Tell whether a project's name can be a table's."""
    length = len(project.encode("utf8", "replace") if dialect == "postgresql" else project)
    return re.fullmatch(r"\w+", project) is not None and length <= LONGEST[dialect]


def check_name(project, dialect):
    """Raise ValueError for a project's name that cannot be a table's."""
    if not fits(project, dialect):
        raise ValueError(
            f"project {project!r} cannot have a table: in {dialect} a name has letters, digits and"
            f" _ only, and at most {LONGEST[dialect]} of them (of its bytes in PostgreSQL);"
            " give the project another name"
        )


def index_name(project):
    """Return the name of a table's index: no two are alike in a database, and none is too long."""
    plain = f"status_{project}_index"
    short = hashlib.sha256(project.encode()).hexdigest()[:32]
    return plain if len(plain.encode()) <= LONGEST["postgresql"] else f"status_{short}_index"
