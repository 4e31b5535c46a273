"""Print the Debian packages that this machine lacks, or the remedies for other systems.

Usage: ``python3 .ci/missing.py packages|remedies [PURPOSE]``, as named in ``.ci/prepare``. Needs
nothing but Python: it runs before there is a virtual environment, and asks the product's own
search.
"""

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from pyspider_zk.demo import site
from pyspider_zk.errors import MissingService
from pyspider_zk.local import programs
from tests.support import programs as test_programs

VENV_MISSING = "Python's venv is missing; Debian/Ubuntu: apt install python3-venv"


ENGINE_MISSING = (
    "{} is missing; Debian/Ubuntu: apt install docker.io docker-compose debootstrap slirp4netns"
)

ENGINE = {
    "docker.io": "dockerd",
    "docker-compose": "docker-compose",
    "debootstrap": "debootstrap",
    "slirp4netns": "slirp4netns",
}
"""Packages, each with a program that it brings."""


def checks(purpose: str) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield the packages, each with what fails without it."""
    yield "default-jre-headless", lambda: programs.java(os.environ)
    yield "libzookeeper-java", lambda: programs.zookeeper_class_path(os.environ)
    yield "redis-server", lambda: programs.redis_server(os.environ)
    yield "python3-venv", venv
    if purpose in ("demo", "all") and not (os.environ.get("SITE") or os.environ.get("START_URL")):
        yield "python3-doc", site.documentation
    if purpose not in ("demo", "up"):
        yield "curl", lambda: tool("curl", "curl")  # the documentation's commands
    if purpose in ("databases", "all"):
        yield "postgresql", lambda: test_programs.postgresql("postgres")
        yield "mariadb-server", lambda: test_programs.mariadb("mariadbd")
    if purpose in ("browser", "all"):
        yield "chromium-headless-shell", test_programs.chromium
    if purpose in ("deploy", "all"):
        yield "systemd", test_programs.systemd_analyze
        yield "prometheus", test_programs.promtool
    if purpose in ("chaos", "all"):
        yield "iproute2", lambda: tool("ip", "iproute2")
        yield "nftables", lambda: tool("nft", "nftables")
    if purpose == "engine" and os.geteuid() == 0:  # others use an engine that runs, or skip
        for package, program in ENGINE.items():
            yield package, partial(engine, program)


def venv() -> None:
    """Fail if virtual environments cannot be made: Debian ships them apart."""
    if find_spec("ensurepip") is None:
        raise MissingService(VENV_MISSING)


def tool(name: str, package: str) -> None:
    """Fail if a program of the system is missing; root's own may not be on everybody's PATH."""
    if shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") is None:
        raise MissingService(f"{name} is missing; Debian/Ubuntu: apt install {package}")


def engine(name: str) -> None:
    """Fail if a program is missing with which root composes a cluster on an engine of its own."""
    if shutil.which(name) is None:
        raise MissingService(ENGINE_MISSING.format(name))


def main(what: str, purpose: str = "test") -> None:
    """Print one line per missing thing."""
    for package, check in checks(purpose):
        try:
            check()
        except MissingService as missing:
            sys.stdout.write(f"{package if what == 'packages' else missing}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
