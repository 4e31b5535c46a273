"""Temporary settings and attributes of pyspider's web UI, restored when a block ends."""

from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from typing import Any


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
