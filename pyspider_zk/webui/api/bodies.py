"""Bodies of requests: JSON only, and only what is JSON to everybody."""

import json
from typing import Any

from marshmallow import Schema, missing
from webargs.flaskparser import FlaskParser, abort

_MOST_DIGITS = 18  # of a whole number; Python would read, and choke on, thousands


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
