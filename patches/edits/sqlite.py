"""The sqlite layer."""

from edits.edit import Edit, Span

EDITS = (
    Edit(
        "pyspider/database/sqlite/sqlitebase.py",
        "class SQLiteMixin(object):\n",
        "class Connection(sqlite3.Connection):\n"
        "    def __del__(self):\n"
        "        self.close()  # in whichever thread the last reference goes\n"
        "\n\n"
        "class SQLiteMixin(object):\n",
        "databases have no close(), and Python 3.13 warns of a connection which nobody closes",
    ),
    Span(
        "pyspider/database/sqlite/sqlitebase.py",
        "        pid = (os.getpid(), threading.current_thread().ident)\n",
        "\n\nclass SplitTableMixin",
        "        local = self.__dict__.setdefault('_local', threading.local())\n"
        "        if getattr(local, 'pid', None) != os.getpid():\n"
        "            local.pid = os.getpid()\n"
        "            local.conn = sqlite3.connect(\n"
        "                self.path, isolation_level=None, check_same_thread=False,\n"
        "                factory=Connection)\n"
        "        return local.conn.cursor()\n",
        "two threads raced for the one connection; each process and thread now has its own",
    ),
    Edit(
        "pyspider/database/sqlite/sqlitebase.py",
        "where='type = \"table\"'",
        "where=\"type = 'table'\"",
        "a string in double quotes is a column's name in sqlite builds without the old misfeature",
    ),
)
