"""A PostgreSQL of our own, on a loopback port."""

import os
import shutil
import subprocess
from pathlib import Path

from pyspider_zk.errors import MissingService
from pyspider_zk.listening import LOOPBACK
from pyspider_zk.local.services import Server

USER = "postgres"
_DEBIAN = Path("/usr/lib/postgresql")


class PostgreSQLServer(Server):
    """A PostgreSQL with its defaults: what it committed survives a power cut.

    It does not run as root, so root starts it as the user ``postgres``, to whom the folder is given
    then; all folders above it must let that user through.
    """

    name = "PostgreSQL"
    start_patience = 60.0
    stop_patience = 20.0

    def _command(self, port: int) -> list[str]:
        data = self.folder / "data"
        if not data.exists():
            self._initialise(data)
        options = {"listen_addresses": LOOPBACK, "unix_socket_directories": "", "port": str(port)}
        settings = [word for pair in options.items() for word in ("-c", "=".join(pair))]
        return [*_as_user(), _program("postgres"), "-D", str(data), *settings]

    def _initialise(self, data: Path) -> None:
        if os.geteuid() == 0:
            shutil.chown(self.folder, USER, USER)
        subprocess.run(
            [*_as_user(), _program("initdb"), "-D", str(data), "-U", USER, "-A", "trust"],
            check=True,
            capture_output=True,
            cwd=self.folder,
        )

    def _answers(self, port: int, pid: int) -> bool:
        """Return whether it lets clients in; only ours has its process id in our folder."""
        note = self.folder / "data" / "postmaster.pid"
        if not note.exists() or note.read_text(encoding="ascii").split("\n")[0] != str(pid):
            return False
        asked = [_program("pg_isready"), "-q", "-h", LOOPBACK, "-p", str(port)]
        return subprocess.run(asked, check=False).returncode == 0


def _as_user() -> list[str]:
    if os.geteuid() != 0:
        return []
    who = ["--reuid", USER, "--regid", USER, "--clear-groups"]
    return ["setpriv", *who, "--pdeathsig", "KILL", "--"]


def _program(name: str) -> str:
    """Return a program of PostgreSQL; Debian has the server's where no PATH leads to."""
    newest = sorted(_DEBIAN.glob(f"*/bin/{name}"), key=lambda path: int(path.parts[-3]))
    found = shutil.which(name) or (str(newest[-1]) if newest else None)
    if found is None:
        raise MissingService(f"{name} is not there: apt-get install postgresql")
    return found
