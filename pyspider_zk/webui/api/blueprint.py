"""Blueprint of every part of the API: bodies that it takes, and what it says of its operations."""

import json
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, TypeVar

from flask_smorest import Blueprint
from marshmallow import RAISE, Schema, missing
from webargs.flaskparser import FlaskParser, abort

_JSON = "application/json"
_ALWAYS = (HTTPStatus.UNAUTHORIZED, HTTPStatus.SERVICE_UNAVAILABLE)
_OF_BODIES = (
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.FORBIDDEN,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
)
_NO_CONTROL = r"^[^\x00-\x1f\x7f]+$"
_MOST_DIGITS = 18  # of a whole number; Python would read, and choke on, thousands

View = TypeVar("View", bound=Callable[..., Any])


class Parser(FlaskParser):
    """Request that is answered 400 if its body is not JSON, or only Python accepts it."""

    def load_json(self, req: Any, schema: Schema) -> Any:  # noqa: ARG002 - the base's signature
        """Return what the body says, `missing` if there is none."""
        body = req.get_data()
        if not body or req.mimetype != "application/json":
            return missing
        try:
            return json.loads(body.decode(), parse_int=_whole, parse_constant=_refused)
        except RecursionError as error:
            return _abort(error, "it is nested too deeply")
        except ValueError as error:
            return _abort(error, str(error))


def _abort(error: Exception, why: str) -> None:
    abort(400, exc=error, messages={"json": [f"the body is not valid JSON: {why}"]})


def _whole(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise ValueError(f"a number has {len(digits)} digits")
    return int(digits)


def _refused(constant: str) -> Any:
    raise ValueError(f"{constant} is no number")


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
        self,
        schema: type[Schema] | Mapping[str, str],
        status: int = 200,
        errors: tuple[int, ...] = (),
        content_type: str = _JSON,
    ) -> Callable[[View], View]:
        """Document and make the answer of an operation that changes nothing.

        Args:
            schema: one of OpenAPI's documents what the view answers itself.
        """

        def decorate(view: View) -> View:
            for code in (*_ALWAYS, *errors):
                view = self.alt_response(code, HTTPStatus(code).name)(view)
            decorated: View = self.response(status, schema, content_type=content_type)(view)
            return decorated

        return decorate

    def does(
        self, schema: type[Schema], status: int = 200, errors: tuple[int, ...] = ()
    ) -> Callable[[View], View]:
        """Document and make the answer of an operation that changes something."""
        return self.tells(schema, status, (*_OF_BODIES, *errors))
