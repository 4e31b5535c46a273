"""Page data: what pyspider's pages are given in place of one scheduler and its database.

And how its application is given them: settings and attributes, until a block ends.
"""

import functools
import logging
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any
from xmlrpc.client import Fault

from werkzeug.exceptions import Forbidden

from pyspider_zk.projects.rows import shown
from pyspider_zk.rpc.router import Router

logger = logging.getLogger(__name__)


class Answering:
    """The cluster with the methods that pyspider's views call, and the errors that they handle.

    Threads: any.
    """

    def __init__(self, router: Router) -> None:
        self._router = router

    def __getattr__(self, name: str) -> Callable[..., Any]:
        ask: Callable[..., Any] = getattr(self._router, name)

        @functools.wraps(ask)
        def answer(*args: Any) -> Any:
            try:
                return ask(*args)
            except Fault as fault:
                if fault.faultCode == HTTPStatus.FORBIDDEN:
                    raise Forbidden(fault.faultString) from fault
                raise

        return answer


class ShownProjects:
    """A project database whose answers have the types that pages and API expect.

    One row that was not written by pyspider's editor would fail every page that lists projects.

    Threads: any.

    Attributes:
        original: the database itself.
    """

    def __init__(self, projectdb: Any) -> None:
        self.original = projectdb
        self._said = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.original, name)

    def get_all(self, fields: Any = None) -> Iterator[dict[str, Any]]:
        """Yield all projects; rows without a name are left out, which is logged once."""
        for row in self.original.get_all(fields=fields):
            found = shown(row)
            if found is not None:
                yield found
            elif not self._said:
                self._said = True
                logger.warning("a row of the project database has no name: delete it")

    def get(self, name: str, fields: Any = None) -> dict[str, Any] | None:
        """Return a project, None if there is none of that name."""
        row = self.original.get(name, fields=fields)
        return shown(row) if row else None

    def copy(self) -> "ShownProjects":
        """Return one with connections of its own."""
        return ShownProjects(self.original.copy())


@contextmanager
def configured(config: MutableMapping[str, Any], values: Mapping[str, Any]) -> Iterator[None]:
    """Set these settings in a config while the block runs."""
    before = {name: config[name] for name in values if name in config}
    config.update(values)
    try:
        yield
    finally:
        config.update(before)
        for name in values.keys() - before.keys():
            del config[name]


@contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Replace an attribute's value while the block runs."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)
