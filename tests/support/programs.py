"""Programs that only tests start: database servers, a browser, tools; and what to install for them.

Needs nothing but Python: `.ci/missing.py` asks before there is a virtual environment.
"""

import shutil
from pathlib import Path

from pyspider_zk.errors import MissingService

POSTGRESQL_MISSING = "PostgreSQL is missing; Debian/Ubuntu: apt install postgresql"
MARIADB_MISSING = "MariaDB is missing; Debian/Ubuntu: apt install mariadb-server"
CHROMIUM_MISSING = "Chromium is missing; Debian: apt install chromium-headless-shell"
SYSTEMD_MISSING = "systemd-analyze is missing; Debian/Ubuntu: apt install systemd"
PROMTOOL_MISSING = "promtool is missing; Debian/Ubuntu: apt install prometheus"
CHROMIUM = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
"""Its names, the one first that starts soonest and needs least: it has no window."""

DEBIAN_POSTGRESQL = Path("/usr/lib/postgresql")


def postgresql(name: str, system: Path = DEBIAN_POSTGRESQL) -> str:
    """Return a program of the newest PostgreSQL here; Debian keeps them off PATH.

    Raises:
        MissingService: there is none.
    """
    versions = sorted(system.glob("*/bin"), key=lambda folder: float(folder.parent.name))
    found = [shutil.which(name, path=str(folder)) for folder in reversed(versions)]
    program = next(filter(None, [*found, shutil.which(name)]), None)
    if program is None:
        raise MissingService(POSTGRESQL_MISSING)
    return program


def mariadb(name: str) -> str:
    """Return a program of MariaDB; the server's own may not be on everybody's PATH.

    Raises:
        MissingService: there is none.
    """
    program = shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")
    if program is None:
        raise MissingService(MARIADB_MISSING)
    return program


def chromium() -> str:
    """Return a program of Chromium.

    Raises:
        MissingService: there is none.
    """
    program = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if program is None:
        raise MissingService(CHROMIUM_MISSING)
    return program


def systemd_analyze() -> str:
    """Return the program that checks units of systemd.

    Raises:
        MissingService: there is none.
    """
    return _found("systemd-analyze", SYSTEMD_MISSING)


def promtool() -> str:
    """Return Prometheus' program that checks rules.

    Raises:
        MissingService: there is none.
    """
    return _found("promtool", PROMTOOL_MISSING)


def _found(name: str, missing: str) -> str:
    program = shutil.which(name)
    if program is None:
        raise MissingService(missing)
    return program
