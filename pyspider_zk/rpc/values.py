"""Values as XML-RPC carries them.

Values that scripts save, and URLs that they crawl, may contain anything. A number beyond 32 bits,
a control character or half a surrogate pair in one task would break the response about all of
them.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

_INTEGERS = range(-(2**31), 2**31)
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_REPLACEMENT = "\ufffd"


def xmlrpc_value(value: Any) -> Any:
    """Return a copy of a value, with replacements for what XML-RPC cannot carry.

    Keys become text, large numbers floats, other objects their text.
    """
    if value is None or isinstance(value, bool | float):
        return value
    if isinstance(value, int):
        return value if value in _INTEGERS else _as_float(value)
    if isinstance(value, Mapping):
        return {_text(key): xmlrpc_value(item) for key, item in dict(value).items()}
    if isinstance(value, list | tuple):
        return [xmlrpc_value(item) for item in list(value)]
    return _text(value)


def foreign_texts(value: object, name: str) -> Iterator[str]:
    """Yield name and beginning of each text in a value that XML-RPC cannot carry.

    Args:
        name: what the value is called, where it has no key.
    """
    if isinstance(value, str) and _NOT_IN_XML.search(value):
        yield f"{name}: {value!r:.80}"
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from foreign_texts(key, name)
            yield from foreign_texts(item, key)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from foreign_texts(item, name)


def _as_float(value: int) -> float | str:
    try:
        return float(value)
    except OverflowError:
        return str(value)


def _text(value: object) -> str:
    return _NOT_IN_XML.sub(_REPLACEMENT, str(value))
