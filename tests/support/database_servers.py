"""Real PostgreSQL and MariaDB servers of the tests, and connections to databases.

The servers are on loopback ports, in folders of their own.
"""

import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote

import psycopg
import pymysql
from psycopg.conninfo import make_conninfo
from pymysql.cursors import Cursor
from pyspider.database import connect_database

from pyspider_zk.listening import LOOPBACK
from pyspider_zk.local.services import Server
from tests.support.ports import own_port
from tests.support.programs import mariadb, postgresql

USER = "crawl"
PASSWORD = "p@ss:w/o?r#d%41 é"  # noqa: S105 - of no server but the tests'
NOBODY = "nobody"

_numbers = itertools.count()


class DatabaseServer(Server):
    """A server of databases, in a folder of its own outside of pytest's, which is for us alone.

    What it holds need not outlive the machine, so it never waits for the disk.

    Args:
        pem: file of a certificate and its key, to speak TLS with as well; None: it speaks none.
        host: the address to listen on.
    """

    start_patience = 60.0
    stop_patience = 10.0
    scheme: ClassVar[str]  # of SQLAlchemy's URLs

    def __init__(self, pem: Path | None = None, host: str = LOOPBACK) -> None:
        self._pem = pem
        self._host = host
        super().__init__(Path(tempfile.mkdtemp(prefix=f"test-{self.name.lower()}-")), own_port())

    @property
    def address(self) -> str:
        """Where clients reach it: ``host:port``."""
        return f"{self._host}:{self.port}"

    def remove(self) -> None:
        """Delete all that it holds; it does not run any more."""
        shutil.rmtree(self.folder)

    @abstractmethod
    def execute(self, statement: str) -> list[tuple[object, ...]]:
        """Carry out a statement as the administrator, and return its rows."""

    def new_name(self) -> str:
        """Return the name of a database that no other test uses."""
        return f"test_{next(_numbers)}"

    def url(self, kind: str, database: str, scheme: str = "") -> str:
        """Return pyspider's URL for a database of a kind: ``task``, ``project`` or ``result``."""
        login = f"{USER}:{quote(PASSWORD, safe='')}@{self.address}"
        return f"{scheme or f'sqlalchemy+{self.scheme}'}+{kind}db://{login}/{database}"

    def _own_pem(self) -> Path:
        """Return a copy of the certificate that the server can read, and nobody else."""
        assert self._pem
        own = self.folder / "server.pem"
        own.write_bytes(self._pem.read_bytes())
        own.chmod(0o600)
        return own

    def end_connections(self) -> None:
        """End all connections but the one that asks."""
        for (number,) in self.execute(self._others):
            self.execute(self._end.format(number))

    _others: ClassVar[str]
    _end: ClassVar[str]


class PostgresServer(DatabaseServer):
    """A PostgreSQL, which refuses to run as root: then it runs as ``nobody``.

    Args:
        lasting: whether what it committed survives a power cut, as by default.
    """

    name = "PostgreSQL"
    scheme = "postgresql"
    _others = (
        "SELECT pid FROM pg_stat_activity WHERE usename IS NOT NULL AND pid <> pg_backend_pid()"
    )
    _end = "SELECT pg_terminate_backend({})"

    def __init__(
        self, pem: Path | None = None, host: str = LOOPBACK, *, lasting: bool = False
    ) -> None:
        self._lasting = lasting
        super().__init__(pem, host)

    def execute(self, statement: str) -> list[tuple[object, ...]]:
        """Carry out a statement as the administrator, and return its rows."""
        with psycopg.connect(self.login("postgres"), autocommit=True) as link:
            cursor = link.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def login(self, database: str) -> str:
        """Return how the administrator connects to a database, in libpq's words."""
        where = {"host": self._host, "port": self.port, "dbname": database}
        return make_conninfo(**where, user=USER, password=PASSWORD)

    def stop(self) -> None:
        """End the server and its connections; SIGTERM alone would wait for its clients."""
        if self.running:
            os.kill(self.pid, signal.SIGINT)
        super().stop()

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    def _command(self, port: int) -> list[str]:
        if not self._data.exists():
            self._make()
        options = {
            "listen_addresses": self._host,
            "unix_socket_directories": "",
            "fsync": "on" if self._lasting else "off",
            "max_connections": "200",
        }
        if self._pem:
            own = str(_for_nobody(self._own_pem()))
            options |= {"ssl": "on", "ssl_cert_file": own, "ssl_key_file": own}
        settings = [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
        server = [postgresql("postgres"), "-D", str(self._data), "-p", str(port)]
        return [*_unprivileged("--pdeathsig", "KILL"), *server, *settings]

    def _make(self) -> None:
        initdb = postgresql("initdb")
        password = self.folder / "password"
        password.write_text(PASSWORD, encoding="utf-8")
        for path in (self.folder, password):
            _for_nobody(path)
        options = ["-U", USER, f"--pwfile={password}", "-A", "scram-sha-256", "-E", "UTF8"]
        command = [*_unprivileged(), initdb, *options, "--locale=C.UTF-8", "--no-sync"]
        subprocess.run([*command, "-D", self._data], check=True, stdout=subprocess.DEVNULL)
        with (self._data / "pg_hba.conf").open("a", encoding="ascii") as who_may:
            who_may.write("host all all samenet scram-sha-256\n")

    def _answers(self, port: int, pid: int) -> bool:  # noqa: ARG002 - its note has both
        note = self._data / "postmaster.pid"
        lines = note.read_text(encoding="ascii").splitlines() if note.exists() else []
        return len(lines) > 7 and (lines[0], lines[7].strip()) == (str(pid), "ready")


class MariaServer(DatabaseServer):
    """A MariaDB."""

    name = "MariaDB"
    scheme = "mysql+pymysql"
    _others = "SELECT id FROM information_schema.processlist WHERE id <> CONNECTION_ID()"
    _end = (  # one may have ended by itself since it was listed
        "BEGIN NOT ATOMIC DECLARE CONTINUE HANDLER FOR 1094 BEGIN END; KILL {}; END"
    )

    def execute(self, statement: str) -> list[tuple[object, ...]]:
        """Carry out a statement as the administrator, and return its rows."""
        with self._connect(self.port) as link, link.cursor() as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall())

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    def _connect(self, port: int) -> "pymysql.Connection[Cursor]":
        # As text the password would be sent as Latin-1.
        return pymysql.connect(host=self._host, port=port, user=USER, password=PASSWORD.encode())

    @property
    def _process_file(self) -> Path:
        return self.folder / "pid"

    def _command(self, port: int) -> list[str]:
        as_root = ["--user=root"] if os.geteuid() == 0 else []
        if not self._data.exists():
            self._make(as_root)
        options = {
            "datadir": self._data,
            "tmpdir": self._own_tmp(),
            "port": port,
            "bind-address": self._host,
            "socket": self.folder / "socket",
            "pid-file": self._process_file,
            "init-file": self.folder / "users.sql",
            "innodb-flush-log-at-trx-commit": 0,
            "skip-name-resolve": 1,
        }
        if self._pem:
            own = self._own_pem()
            options |= {"ssl-cert": own, "ssl-key": own}
        settings = [f"--{name}={value}" for name, value in options.items()]
        return [mariadb("mariadbd"), "--no-defaults", *as_root, *settings]

    def _make(self, as_root: list[str]) -> None:
        user = f"'{USER}'@'%'"
        (self.folder / "users.sql").write_text(
            "SET NAMES utf8mb4;\n"
            f"CREATE USER IF NOT EXISTS {user} IDENTIFIED BY '{PASSWORD}';\n"
            f"GRANT ALL ON *.* TO {user};\n",
            encoding="utf-8",
        )
        command = [mariadb("mariadb-install-db"), "--no-defaults", *as_root, "--skip-test-db"]
        subprocess.run(
            [*command, f"--datadir={self._data}"],
            check=True,
            stdout=subprocess.DEVNULL,
            env={**os.environ, "TMPDIR": str(self._own_tmp())},
        )

    def _own_tmp(self) -> Path:
        """Return a folder for temporary tables: a server that starts deletes those of others."""
        own = self.folder / "tmp"
        own.mkdir(exist_ok=True)
        return own

    def _answers(self, port: int, pid: int) -> bool:
        note = self._process_file
        if not note.exists() or note.read_text(encoding="ascii").strip() != str(pid):
            return False
        try:
            self._connect(port).close()
        except pymysql.OperationalError:
            return False
        return True


def _for_nobody(path: Path) -> Path:
    """Give a file to who runs what must not run as root."""
    if os.geteuid() == 0:
        nobody = pwd.getpwnam(NOBODY)
        os.chown(path, nobody.pw_uid, nobody.pw_gid)
    return path


def _unprivileged(*options: str) -> list[str]:
    """Return what a command begins with that must not run as root."""
    if os.geteuid() != 0:
        return []
    nobody = pwd.getpwnam(NOBODY)
    user = [f"--reuid={nobody.pw_uid}", f"--regid={nobody.pw_gid}", "--clear-groups"]
    return ["setpriv", *user, *options]


@contextmanager
def lent(url: str) -> Iterator[Any]:
    """Lend a connection to a database, and close it afterwards."""
    database = connect_database(url)
    try:
        yield database
    finally:
        if hasattr(database, "close"):
            database.close()
        elif database.conn is not None:  # sqlite's, which connects when it is first asked
            database.conn.close()
