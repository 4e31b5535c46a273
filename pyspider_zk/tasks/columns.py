"""Columns of tasks as databases store them, and what they have no room for."""

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from pyspider_zk.tasks.documents import DOCUMENTS, to_json

TaskKey = tuple[str, Any]
"""A project and the id of a task in it."""

COLUMNS = ("taskid", "project", "url", "status", *DOCUMENTS, "lastcrawltime", "updatetime")
"""The columns of pyspider's task databases. Their SQL is built from the names of a task's keys, so
any other key would allow SQL injection."""

Encoder = Callable[[Any], Any]
"""Returns a value as it is stored; raises TypeError, ValueError or OverflowError."""

LIMIT = 2**63
"""Of whole numbers: one more than the greatest of 64 bits."""

SET_BY_WRITES = frozenset(("taskid", "project", "updatetime"))
"""Columns that the database itself sets when it writes."""


def encode(columns: Mapping[str, Any], encoders: Mapping[str, Encoder]) -> dict[str, Any]:
    """Return columns as they are stored, without those that a write sets.

    Raises:
        TypeError, ValueError: a column cannot be stored; the message names it, and no content.
    """
    try:
        stored = {name: encoders[name](value) for name, value in columns.items()}
    except Exception:  # once more, to name the column
        stored = {name: _encoded(name, value, encoders) for name, value in columns.items()}
    for name in SET_BY_WRITES:
        stored.pop(name, None)
    return stored


def _encoded(name: str, value: Any, encoders: Mapping[str, Encoder]) -> Any:
    if name not in encoders:
        raise ValueError(f"tasks have no column {name!r}")
    try:
        return encoders[name](value)
    except TypeError as error:
        raise TypeError(f"{name} cannot be stored: {error}") from None
    except RecursionError:
        raise ValueError(f"{name} cannot be stored: it is nested too deeply") from None
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{name} cannot be stored: {error}") from None


def untyped() -> dict[str, Encoder]:
    """Return the encoders of pyspider's sqlite tables, whose columns have no types."""
    names = ("taskid", "project", "url", "status", "lastcrawltime")
    documents = dict.fromkeys(DOCUMENTS, to_json)
    return {**dict.fromkeys(names, _scalar), **documents, "updatetime": _same}


def typed(whole_bits: int, id_length: int | None, nul: bool, endless: bool) -> dict[str, Encoder]:
    """Return the encoders of tables whose columns have types.

    What the database would convert, such as a number in place of a text, is refused.

    Args:
        whole_bits: of an integer, with its sign.
        id_length: characters of a task id, at most; None: no limit.
        nul: texts may hold the character NUL.
        endless: numbers may be infinite, or no number (NaN).
    """
    text = partial(_text, nul)
    return {
        "taskid": partial(_key, nul, id_length),
        "project": text,
        "url": text,
        "status": partial(_whole, 2 ** (whole_bits - 1)),
        **dict.fromkeys(DOCUMENTS, _document),
        "lastcrawltime": partial(_number, endless),
        "updatetime": _same,
    }


def _scalar(value: Any) -> Any:
    kind = type(value)
    if kind is str and value.isascii():
        return value
    if kind is float or (kind is int and -LIMIT <= value < LIMIT):
        return value
    if isinstance(value, str):
        value.encode()
    elif isinstance(value, int):
        _check_limit(LIMIT, value)
    elif not (value is None or isinstance(value, float | bytes)):
        raise TypeError(f"a {type(value).__name__} is neither text nor number")
    return value


def _same(value: Any) -> Any:
    return value


def _document(value: Any) -> bytes:
    return to_json(value).encode()


def _key(nul: bool, length: int | None, value: Any) -> Any:
    if value is None:
        raise TypeError("there is none")
    text = str(value) if isinstance(value, int) else value
    if _text(nul, text) and length is not None and len(text) > length:
        raise ValueError(f"it has {len(text)} characters, the limit is {length}")
    return text


def _text(nul: bool, value: Any) -> Any:
    if type(value) is str and value.isascii() and (nul or "\0" not in value):
        return value
    if value is not None:
        if not isinstance(value, str):
            raise TypeError(f"a {type(value).__name__} is no text")
        value.encode()
        if not nul and "\0" in value:
            raise ValueError("it holds the character NUL")
    return value


def _whole(limit: int, value: Any) -> Any:
    if type(value) is int and -limit <= value < limit:
        return value
    if value is not None:
        if not isinstance(value, int):
            raise TypeError(f"a {type(value).__name__} is no whole number")
        _check_limit(limit, value)
    return None if value is None else int(value)


def _check_limit(limit: int, value: int) -> None:
    if not -limit <= value < limit:
        raise ValueError(f"the number has more than {limit.bit_length()} bits")


def _number(endless: bool, value: Any) -> Any:
    if value is None:
        return None
    if not isinstance(value, int | float):
        raise TypeError(f"a {type(value).__name__} is no number")
    if not (endless or math.isfinite(value)):
        raise ValueError("the number is not finite")
    return float(value)
