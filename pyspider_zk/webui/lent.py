"""What pyspider's web UI is lent: settings and attributes that are as before once a block ends."""

from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from typing import Any


@contextmanager
def configured(config: MutableMapping[str, Any], values: Mapping[str, Any]) -> Iterator[None]:
    """Have these settings in a config while the block runs."""
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
    """Have another value in an attribute while the block runs."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)
