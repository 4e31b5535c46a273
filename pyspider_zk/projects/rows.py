"""Rows of projects, which other programs may have written: checks, and displayable values."""

import math
import re
from collections.abc import Mapping
from typing import Any, TypeGuard

STATUSES = ("TODO", "STOP", "CHECKING", "DEBUG", "RUNNING")
ACTIVE = ("RUNNING", "DEBUG")
"""The statuses in which a project's tasks are scheduled."""

TEXTS = ("name", "group", "status", "script", "comments")
NUMBERS = ("rate", "burst", "updatetime")

_HALF = re.compile("[\ud800-\udfff]")  # of a surrogate pair; it has no UTF-8
_QUOTED = 40  # characters of a wrong value that are quoted


def is_name(name: object) -> bool:
    """Return whether a row's name can be one: it must be text with a slot."""
    return isinstance(name, str) and bool(name) and name.isprintable() and "\ufffd" not in name


def row_faults(row: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with a row, a phrase for each column; databases check no types.

    ``rate`` and ``burst`` are of no importance while a project is off.
    """
    faults = [
        *_unless(row, "status", isinstance(row.get("status"), str), "text"),
        *_unless(row, "group", isinstance(row.get("group"), str | None), "text"),
        *_unless(row, "script", isinstance(row.get("script"), str | bytes), "text"),
        *_unless(row, "updatetime", is_number(row.get("updatetime")), "a number"),
    ]
    if row.get("status") in ACTIVE:
        for column in ("rate", "burst"):
            faults += _unless(row, column, is_number(row.get(column)), "a number")
    return faults


def is_number(value: object) -> TypeGuard[float]:
    """Return whether a value can be counted with: NaN and infinity cannot."""
    if isinstance(value, int):
        return abs(value) < 2**63
    return isinstance(value, float) and math.isfinite(value)


def is_text(value: object) -> TypeGuard[str]:
    """Return whether a value is text that can be stored: half of a surrogate pair cannot."""
    return isinstance(value, str) and _HALF.search(value) is None


def comparable(value: object) -> object:
    """Return what a value is compared by: itself, or its text if it may differ from itself."""
    if value is None or isinstance(value, str | bytes | int):
        return value
    return repr(value)


def _unless(row: Mapping[str, Any], column: str, fits: bool, what: str) -> list[str]:
    return [] if fits else [f"{column} must be {what}, not {repr(row.get(column))[:_QUOTED]}"]


def shown(row: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a row with text where pyspider has text, and numbers or None where it has numbers.

    pyspider's columns have no types: a row that was written past its editor may hold anything.
    Missing columns stay missing.

    Returns:
        None if the row has no name: then it is not a project.
    """
    if "name" in row and not row["name"]:
        return None
    return {key: _shown(key, value) for key, value in row.items()}


def _shown(key: str, value: Any) -> Any:
    if key in TEXTS:
        return _text(value)
    return _number(value) if key in NUMBERS else value


def _text(value: Any) -> str | None:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).decode(errors="backslashreplace")
    return value if value is None or isinstance(value, str) else str(value)


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return None if math.isnan(value) else value


def split_group(group: str | None) -> set[str]:
    """Return a project's groups as pyspider splits them, in lower case."""
    return set(filter(None, re.split(r"\W+", (group or "").lower())))
