"""Values that leave a script: how they are stored, or what is wrong with them.

Added by pyspider-zk: what JSON does not know was lost after its task had succeeded, or became the
text of a Python object.
"""

import base64
import datetime
import decimal
import enum
import math
import pathlib
import uuid
from collections.abc import Mapping, Sequence, Set

PACKED = "[BASE64-DATA]"  # begins what pyspider unpacks as bytes
DEEPEST = 190  # levels; a message takes some more
NUMBER_LIMIT = 2**63
NUMBERS = ("priority", "retries", "exetime", "age")
TEXTS = (decimal.Decimal, uuid.UUID, pathlib.PurePath)
TIMES = (datetime.date, datetime.time)  # and datetime.datetime


class Unstorable(TypeError):
    """A value cannot be stored.

    Attributes:
        path: the keys that lead to it, the innermost first.
    """

    def __init__(self, why):
        super().__init__(why)
        self.path = []


def stored(name, value):
    """Return a value as it is stored; raise TypeError that names the field which cannot be.

    Texts, numbers, None, lists and mappings stay as they are. Dates and times become text in ISO
    8601, a time span its seconds, decimals, UUIDs and paths their text, enumerations their value,
    tuples lists, sets sorted lists, bytes their text in UTF-8 or, if they are none, base64 between
    pyspider's marks.
    """
    try:
        return _stored(value, DEEPEST)
    except Unstorable as error:
        field = name + "".join(f"[{key!r:.60}]" for key in reversed(error.path))
        raise TypeError(f"{field} cannot be stored: {error}") from None


def stored_task(task):
    """Return a new task as it is stored; raise TypeError that names the field which cannot be.

    What `itag` is compares as the text that it always was.
    """
    for key in NUMBERS:
        value = task["schedule"].get(key)
        if value is not None and not (isinstance(value, (int, float)) and value == value):
            raise TypeError(
                f"{key} must be a number, not {value!r:.60}; seconds of a datetime are"
                " its timestamp()"
            )
    return {
        part: {key: each if key == "itag" else stored(key, each) for key, each in value.items()}
        if isinstance(value, dict)
        else value
        for part, value in task.items()
    }


def stored_or(value, otherwise):
    """Return a value as it is stored, or another if it cannot be."""
    try:
        return stored("", value)
    except TypeError:
        return otherwise


def stored_part(save):
    """Return of what a failed script saved the entries that can be stored."""
    entries = save.items() if isinstance(save, Mapping) else ()
    parts = (stored_or({key: each}, {}) for key, each in entries)
    return {key: each for part in parts for key, each in part.items()}


def _stored(value, levels):
    if value is None or isinstance(value, (bool, float)):
        return value
    if isinstance(value, str):
        return _whole_text(value)
    if isinstance(value, int):
        return _whole_number(value)
    if levels == 0:
        raise Unstorable(f"it is nested deeper than {DEEPEST} levels")
    if isinstance(value, Mapping):
        return _mapping(value, levels)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return _text_of_bytes(bytes(value))
    if isinstance(value, (Sequence, Set)):
        return _list(value, levels)
    return _scalar(value, levels)


def _scalar(value, levels):
    if isinstance(value, TIMES):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, TEXTS):
        return str(value)
    if isinstance(value, enum.Enum):
        return _stored(value.value, levels - 1)
    raise Unstorable(f"it is a {type(value).__name__}, {_brief(value)}")


def _mapping(value, levels):
    made = {}
    for key, each in value.items():
        try:
            name = _key(key)
            if name in made:
                raise Unstorable("another key is stored as the same text")
            made[name] = _stored(each, levels - 1)
        except Unstorable as error:
            error.path.append(key)
            raise
    return made


def _key(key):
    if isinstance(key, (Mapping, Sequence, Set)) and not isinstance(key, (str, bytes)):
        raise Unstorable(f"its key is a {type(key).__name__}, and keys are texts or numbers")
    return _stored(key, 1)


def _list(value, levels):
    made = []
    for number, each in enumerate(value):
        try:
            made.append(_stored(each, levels - 1))
        except Unstorable as error:
            error.path.append(number)
            raise
    return sorted(made, key=_order) if isinstance(value, Set) else made


def _order(value):
    """Numbers come first by size, then texts, then all else by its text."""
    if isinstance(value, (int, float)) and not math.isnan(value):
        return 0, value, ""
    return (1, 0, value) if isinstance(value, str) else (2, 0, repr(value))


def _text_of_bytes(value):
    try:
        text = value.decode("utf8")
    except UnicodeDecodeError:
        text = PACKED
    if text.startswith(PACKED):
        return f"{PACKED}{base64.b64encode(value).decode()}[/BASE64-DATA]"
    return text


def _whole_text(value):
    try:
        value.encode("utf8")
    except UnicodeEncodeError:
        raise Unstorable(f"it has half of a character, {_brief(value)}") from None
    return value


def _whole_number(value):
    if not -NUMBER_LIMIT <= value < NUMBER_LIMIT:
        raise Unstorable("the number has more than 64 bits; make it a text")
    return value


def _brief(value):
    try:
        return f"{value!r:.60}"
    except Exception:
        return "which cannot be shown"
