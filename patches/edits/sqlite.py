"""The sqlite layer."""

from edits.edit import Edit, Span

_RESULTDB = "pyspider/database/sqlite/resultdb.py"
_WHOLE = "another thread found some of the projects missing while the list was made"

EDITS = (
    Edit(
        "pyspider/database/sqlite/sqlitebase.py",
        "class SQLiteMixin(object):\n",
        "def as_text(raw):\n"
        "    try:\n"
        "        return raw.decode()\n"
        "    except UnicodeDecodeError:\n"
        "        return raw.decode('utf8', 'replace')\n"
        "\n\n"
        "class Connection(sqlite3.Connection):\n"
        "    def __del__(self):\n"
        "        try:\n"
        "            self.close()  # in whichever thread the last reference goes\n"
        "        except sqlite3.ProgrammingError:\n"
        "            pass  # it could not be opened\n"
        "\n\n"
        "class SQLiteMixin(object):\n"
        "    JOURNAL_SIZE = 16 * 2 ** 20  # bytes that are kept of it between two transactions\n"
        "    STATEMENTS = 2000  # that each thread keeps parsed: some for each project's table\n"
        "    CACHE = 16 * 2 ** 20  # bytes of the file that each thread keeps at most\n"
        "    patience = 5.0  # seconds that a statement waits for the lock of another process\n"
        "\n",
        "databases have no close(), and Python 3.13 warns of a connection which nobody closes; one"
        " row with bytes that are no text made all rows unreadable",
    ),
    Edit(
        "pyspider/database/sqlite/sqlitebase.py",
        "        self.projects = set()\n        if self.__tablename__:\n",
        "        projects = set()\n        if self.__tablename__:\n",
        _WHOLE,
    ),
    Edit(
        "pyspider/database/sqlite/sqlitebase.py",
        "                self.projects.add(project)\n",
        "                projects.add(project)\n        self.projects = projects\n",
        _WHOLE,
    ),
    Span(
        "pyspider/database/sqlite/sqlitebase.py",
        "        pid = (os.getpid(), threading.current_thread().ident)\n",
        "\n\nclass SplitTableMixin",
        "        local = self._of_thread\n"
        "        if getattr(local, 'pid', None) != os.getpid():\n"
        "            local.file = self._file()\n"
        "            local.conn = self._connect()\n"
        "            local.pid = os.getpid()\n"
        "            local.patience, local.has_journal = None, False\n"
        "        if local.patience != self.patience:\n"
        "            local.conn.execute('PRAGMA busy_timeout=%d' % (self.patience * 1000))\n"
        "            local.patience = self.patience\n"
        "        if not local.has_journal:\n"
        "            self._keep_journal(local.conn)\n"
        "            local.has_journal = True\n"
        "        return local.conn.cursor()\n"
        "\n"
        "    @property\n"
        "    def _of_thread(self):\n"
        "        return self.__dict__.setdefault('_local', threading.local())\n"
        "\n"
        "    def _keep_journal(self, conn):\n"
        "        # to make and delete its file with each commit takes longer than to write it\n"
        "        (mode,), = conn.execute('PRAGMA journal_mode')\n"
        "        if mode == 'delete' and self._is_of_one_user():  # no write-ahead log\n"
        "            conn.execute('PRAGMA journal_mode=PERSIST')\n"
        "            conn.execute('PRAGMA journal_size_limit=%d' % self.JOURNAL_SIZE)\n"
        "\n"
        "    def _is_of_one_user(self):\n"
        "        # who writes first owns the journal, and might lock out the others\n"
        "        try:\n"
        "            file = os.stat(self.path)\n"
        "            me = os.geteuid(), os.getegid()\n"
        "        except (OSError, AttributeError):  # it was moved away; there are no users\n"
        "            return False\n"
        "        return (file.st_uid, file.st_gid) == me and not file.st_mode & 0o022\n"
        "\n"
        "    def _connect(self):\n"
        "        path, is_uri = self.path, False\n"
        "        if path != ':memory:' and self.__dict__.get('_was_open'):\n"
        "            path, is_uri = Path(path).absolute().as_uri() + '?mode=rw', True\n"
        "        conn = sqlite3.connect(\n"
        "            path, isolation_level=None, check_same_thread=False,\n"
        "            factory=Connection, uri=is_uri, cached_statements=self.STATEMENTS)\n"
        "        conn.text_factory = as_text\n"
        "        conn.execute('PRAGMA cache_size=-%d' % (self.CACHE // 1024))\n"
        "        self._was_open = True\n"
        "        return conn\n"
        "\n"
        "    def reconnect(self):\n"
        "        # the next statement of this thread opens the file that is at the path then\n"
        "        if self.path != ':memory:':\n"
        "            self._of_thread.pid = None\n"
        "\n"
        "    def file_version(self):\n"
        "        # another one if anybody has changed the file, or put another in its place\n"
        "        if self._file() != getattr(self._of_thread, 'file', None):\n"
        "            self.reconnect()\n"
        "        conn = self.dbcur.connection\n"
        "        (of_others,), = conn.execute('PRAGMA data_version')\n"
        "        return conn, of_others, conn.total_changes\n"
        "\n"
        "    def _file(self):\n"
        "        try:\n"
        "            file = os.stat(self.path)\n"
        "        except OSError:  # it is not there yet, or no more\n"
        "            return None\n"
        "        return file.st_dev, file.st_ino\n",
        "two threads raced for the one connection; each process and thread now has its own, which"
        " can be opened anew and then makes no new file in place of one that was moved away, and"
        " tells whether it was changed; the journal stays between transactions, which is as durable"
        " and costs a fraction; Python kept 128 statements parsed and sqlite 2 MB of a file, and"
        " each project has a table and statements of its own",
    ),
    Edit(
        "pyspider/database/sqlite/sqlitebase.py",
        "import threading\n",
        "import threading\nfrom pathlib import Path\n",
        "a connection is opened by URI",
    ),
    Edit(
        "pyspider/database/sqlite/taskdb.py",
        "            for each in self._select2dic(tablename, what=fields, where=where):\n"
        "                yield self._parse(each)\n",
        "            what = ','.join(self.escape(f) for f in fields) if fields else '*'\n"
        "            page, last = [None], -1\n"
        "            while page:\n"
        "                page = list(self._select2dic(\n"
        "                    tablename, what=what + ',rowid AS `rowid `',\n"
        "                    where=where + ' AND rowid > %d' % last, order='rowid',\n"
        "                    limit=self.ROWS_PER_PAGE))\n"
        "                for each in page:\n"
        "                    last = each.pop('rowid ')\n"
        "                    yield self._parse(each)\n",
        "a cursor that is open while its reader works keeps all other processes from writing",
    ),
    Edit(
        "pyspider/database/sqlite/taskdb.py",
        "    __tablename__ = 'taskdb'\n",
        "    __tablename__ = 'taskdb'\n    ROWS_PER_PAGE = 2000\n",
        "how many rows are read at once",
    ),
    Edit(
        "pyspider/database/sqlite/sqlitebase.py",
        "where='type = \"table\"'",
        "where=\"type = 'table'\"",
        "a string in double quotes is a column's name in sqlite builds without the old misfeature",
    ),
    Span(
        "pyspider/database/sqlite/projectdb.py",
        '        where = "`updatetime` >= %f" % timestamp\n',
        "\n\n    def drop",
        "        where = '`updatetime` >= %s' % self.placeholder\n"
        "        return self._select2dic(what=fields, where=where, where_values=(timestamp, ))",
        "a project that changed in the last half microsecond before the time was left out",
    ),
    Edit(
        _RESULTDB,
        "        return self._replace(tablename, **self._stringify(obj))\n",
        "        row = self._stringify(obj)\n"
        "        self._execute(self.UPSERT % self.escape(tablename), list(row.values()))\n",
        "a row that is replaced gets another number, and one who reads by these would miss it",
    ),
    Edit(
        _RESULTDB,
        "    placeholder = '?'\n",
        "    placeholder = '?'\n"
        "    ROWS_PER_PAGE = 500\n"
        "    BYTES_PER_PAGE = 2 ** 20\n"
        "    UPSERT = (\n"
        "        'INSERT INTO %s (`taskid`, `url`, `result`, `updatetime`) VALUES (?, ?, ?, ?)'\n"
        "        ' ON CONFLICT (`taskid`) DO UPDATE SET `url` = excluded.`url`,'\n"
        "        ' `result` = excluded.`result`, `updatetime` = excluded.`updatetime`')\n",
        "how much is read at once, and how a row is written",
    ),
    Edit(
        _RESULTDB,
        "    def count(self, project):\n",
        "    def scan(self, project):\n"
        "        # all results once each, the latest first; nothing is open between two of them\n"
        "        if project not in self.projects:\n"
        "            self._list_project()\n"
        "        if project not in self.projects:\n"
        "            return\n"
        "        where = ''\n"
        "        while page := self._page(project, where):\n"
        "            for row in page:\n"
        "                where = 'rowid < %d' % row.pop('rowid ')\n"
        "                yield self._parse(row)\n"
        "\n"
        "    def _page(self, project, where):\n"
        "        rows = self._select2dic(\n"
        "            self._tablename(project), what='*,rowid AS `rowid `', where=where,\n"
        "            order='rowid DESC', limit=self.ROWS_PER_PAGE)\n"
        "        page, size = [], 0\n"
        "        with closing(rows):\n"
        "            for row in rows:\n"
        "                page.append(row)\n"
        "                size += len(row['result'] or '')\n"
        "                if size >= self.BYTES_PER_PAGE:\n"
        "                    break\n"
        "        return page\n"
        "\n"
        "    def count(self, project):\n",
        "an open cursor keeps all others from writing; pages by number find the next one at once",
    ),
    Edit(
        _RESULTDB,
        "import json\n",
        "import json\nfrom contextlib import closing\n",
        "a page may end before its statement",
    ),
    *(
        Edit(
            f"pyspider/database/sqlite/{name}.py",
            "re.match(r'^\\w+$', project)",
            "re.fullmatch(r'\\w+', project)",
            "a project whose name ends with a line break got a table",
        )
        for name in ("taskdb", "resultdb")
    ),
)
