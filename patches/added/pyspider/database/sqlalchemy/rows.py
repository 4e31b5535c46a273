"""Columns of JSON in rows, which are stored as bytes.

Added by pyspider-zk.
"""

import json


def stored(row, columns):
    """Return a copy of a row whose columns of JSON are bytes."""
    return {
        name: json.dumps(value).encode() if name in columns else value
        for name, value in row.items()
    }


def loaded(raw):
    """Return what the bytes of a column say; bytes that are no UTF-8 are replaced."""
    return json.loads(raw if isinstance(raw, str) else bytes(raw).decode("utf8", "replace"))
