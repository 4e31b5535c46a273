"""URLs of pyspider's databases: what is wrong with them, before anything is connected.

No fault repeats a URL, for it may hold a password.
"""

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any
from urllib.parse import urlsplit

from pyspider.database import servers

OTHERS = ("sqlite", "local")
"""Engines whose URLs pyspider reads itself."""

HOLDS = {"local": "projectdb"}
"""Engines that pyspider has for one kind of database only."""

ENGINES = (*OTHERS, "mysql", "sqlalchemy")

UNFENCED = (
    "Redis is not supported: it has no transactions, by which a task database refuses what a"
    f" scheduler writes whose slot has another owner by now; {servers.REMEDY}"
)


def faults(urls: Mapping[str, str]) -> list[str]:
    """Return a sentence for each thing that is wrong, which names the database and the remedy.

    Args:
        urls: by the kind of the database: ``taskdb``, ``projectdb``, ``resultdb``.
    """
    found: list[str] = []
    places: dict[str, Any] = {}
    for kind, url in urls.items():
        try:
            places[kind] = _place(kind, url)
        except (ImportError, LookupError, ValueError) as error:
            found.append(f"{kind}: {error}")
    return [*found, *_shared(places)]


def sqlite_path(kind: str, url: str) -> str | None:
    """Return the path of an sqlite file as pyspider reads its URL; None of other databases."""
    engine = url.partition("://")[0].lower().partition("+")[0]
    if engine == "sqlite":
        path = urlsplit(url).path
        return f"/{path.strip('/')}" if path.startswith("//") else path.strip("/")
    address = server_address(kind, url)
    if address is None or address.get_backend_name() != "sqlite":
        return None
    return address.database or ""


def server_address(kind: str, url: str) -> Any | None:
    """Return SQLAlchemy's URL of a database; None if SQLAlchemy does not connect to it.

    Raises:
        LookupError, ValueError, ImportError: the URL is none that can work.
    """
    engine, *driver, _ = url.partition("://")[0].lower().split("+")
    if engine not in ("mysql", "sqlalchemy"):
        return None
    return servers.address(engine, "+".join(driver), kind, url)


def _place(kind: str, url: str) -> Any:
    """Return where a database is, if it is on a server, else None."""
    scheme, colon, _ = url.partition("://")
    engine, *driver, named = scheme.lower().split("+") if "+" in scheme else ("", "")
    if not colon or named != kind:
        raise ValueError(f"its URL must begin as ENGINE+{kind}://, such as sqlite+{kind}://")
    if engine in servers.UNSUPPORTED:
        raise servers.unsupported(engine)
    if engine == "redis":
        raise ValueError(UNFENCED)
    if engine not in ENGINES:
        raise ValueError(f"there is no engine {engine!r}; known are {', '.join(ENGINES)}")
    if HOLDS.get(engine, kind) != kind:
        raise ValueError(f"{engine} holds no {kind}, only {HOLDS[engine]}: {servers.REMEDY}")
    if engine in OTHERS:
        return None
    found = servers.address(engine, "+".join(driver), kind, url)
    return found.get_backend_name(), found.host, found.port, found.database


def _shared(places: Mapping[str, Any]) -> Iterator[str]:
    for (first, place), (second, other) in combinations(places.items(), 2):
        if place is not None and place == other:
            yield (
                f"{first}, {second}: give each a database of its own, such as .../{first} and"
                f" .../{second}; their tables have the same names"
            )
