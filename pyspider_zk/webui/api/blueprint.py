"""Blueprint of every part of the API: what each says of its operations."""

from collections.abc import Callable
from http import HTTPStatus
from typing import Any, TypeVar

from flask_smorest import Blueprint
from marshmallow import RAISE, Schema

from pyspider_zk.webui.api.bodies import Parser

_JSON = "application/json"
_ALWAYS = (HTTPStatus.UNAUTHORIZED, HTTPStatus.SERVICE_UNAVAILABLE)
_OF_BODIES = (
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.FORBIDDEN,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
)

_NO_CONTROL = r"^[^\x00-\x1f\x7f]+$"

View = TypeVar("View", bound=Callable[..., Any])


def in_path(name: str) -> list[dict[str, Any]]:
    """Document a text in the path; the guard refuses control characters there."""
    schema = {"type": "string", "pattern": _NO_CONTROL}
    return [{"name": name, "in": "path", "required": True, "schema": schema}]


class Part(Blueprint):
    """Some operations that belong together."""

    ARGUMENTS_PARSER = Parser()

    def query(self, schema: type[Schema]) -> Callable[[View], View]:
        """Take parameters; unknown ones are refused, for a filter with a slip would mean all."""
        decorated: Callable[[View], View] = self.arguments(schema, location="query", unknown=RAISE)
        return decorated

    def tells(
        self, schema: type[Schema], status: int = 200, errors: tuple[int, ...] = ()
    ) -> Callable[[View], View]:
        """Document and make the answer of an operation that changes nothing."""

        def decorate(view: View) -> View:
            for code in (*_ALWAYS, *errors):
                view = self.alt_response(code, HTTPStatus(code).name)(view)
            decorated: View = self.response(status, schema, content_type=_JSON)(view)
            return decorated

        return decorate

    def does(
        self, schema: type[Schema], status: int = 200, errors: tuple[int, ...] = ()
    ) -> Callable[[View], View]:
        """Document and make the answer of an operation that changes something."""
        return self.tells(schema, status, (*_OF_BODIES, *errors))
