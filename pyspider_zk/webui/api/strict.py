"""Strict JSON: answers that are JSON to everybody."""

import math
from typing import Any

from flask.json.provider import DefaultJSONProvider


class StrictJSON(DefaultJSONProvider):
    """JSON with null for NaN and the infinities, because browsers refuse Python's form."""

    def dumps(self, obj: Any, **kwargs: Any) -> str:
        """Return the text."""
        try:
            return super().dumps(obj, allow_nan=False, **kwargs)
        except ValueError:
            return super().dumps(_finite(obj), allow_nan=False, **kwargs)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
