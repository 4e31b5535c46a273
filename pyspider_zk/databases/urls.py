"""URLs of pyspider's databases: what is wrong with them, before anything is connected.

No fault repeats a URL, for it may hold a password.
"""

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any

from pyspider.database import servers

OTHERS = ("sqlite", "redis", "local")
"""Engines whose URLs pyspider reads itself."""

ENGINES = (*OTHERS, "mysql", "sqlalchemy")


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


def _place(kind: str, url: str) -> Any:
    """Return where a database is, if it is on a server, else None."""
    scheme, colon, _ = url.partition("://")
    engine, *driver, named = scheme.lower().split("+") if "+" in scheme else ("", "")
    if not colon or named != kind:
        raise ValueError(f"its URL must begin as ENGINE+{kind}://, such as sqlite+{kind}://")
    if engine in servers.UNSUPPORTED:
        raise servers.unsupported(engine)
    if engine not in ENGINES:
        raise ValueError(f"there is no engine {engine!r}; known are {', '.join(ENGINES)}")
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
