"""Connections to pyspider's databases, however long one is unavailable."""

import time
from collections.abc import Callable, MutableMapping
from functools import partial
from typing import Any

from pyspider.libs.utils import Get

from pyspider_zk.databases.breaker import Breaker
from pyspider_zk.databases.guarded import is_certain
from pyspider_zk.errors import Refused

DATABASES = ("taskdb", "projectdb", "resultdb")

AWAY = {"OperationalError", "InterfaceError", "ConnectionError", "OSError"}
"""Error classes that mean, in any library, that nobody answers while connecting."""

REFUSALS = ("authentication failed", "no pg_hba.conf entry", "Access denied for user")
"""What PostgreSQL and MariaDB say to a login that is not right, in the family of those errors."""


def connect_patiently(
    connect: Callable[[], Any], breaker: Breaker, wait: Callable[[float], Any]
) -> Any:
    """Connect; blocks until the database answers. What is no outage is raised.

    Raises:
        Refused: the database refuses the login in its URL.
    """
    while True:
        try:
            database = connect()
        except Exception as error:
            if not _means_away(error):
                raise
            if any(words in str(error) for words in REFUSALS):
                raise Refused(
                    f"{breaker.name} refuses the login: {getattr(error, 'orig', error)}; put the"
                    " right user and password into its URL, special characters %-encoded"
                ) from error
            breaker.failed(error)
            wait(breaker.left)
        else:
            breaker.answered()
            return database


def wait_for_databases(
    options: MutableMapping[str, Any], wait: Callable[[float], Any] = time.sleep
) -> None:
    """Make the lazy databases in pyspider's options wait until they can connect."""
    for kind in DATABASES:
        lazy = options.get(kind)
        if isinstance(lazy, Get):
            options[kind] = Get(partial(connect_patiently, lazy.getter, Breaker(kind), wait))


def _means_away(error: Exception) -> bool:
    return is_certain(error) or bool(AWAY & {kind.__name__ for kind in type(error).__mro__})
