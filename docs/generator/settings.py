"""The cluster's settings, from the docstring and the defaults of ``Settings``."""

import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields

from pyspider_zk.config import Settings

_ENTRY = re.compile(r"^    (\w+): (.+?)(?=^    \w|\Z)", re.MULTILINE | re.DOTALL)


def lines() -> Iterator[str]:
    """Yield a table in Markdown, in the order of the code."""
    described = meanings()
    yield "| setting | default | meaning |"
    yield "|---|---|---|"
    for field in fields(Settings):
        yield f"| `{field.name}` | {_shown(field.default)} | {described[field.name]} |"


def meanings() -> Mapping[str, str]:
    """Return what the docstring says of each setting."""
    _, _, attributes = inspect.cleandoc(Settings.__doc__ or "").partition("\nAttributes:\n")
    return {name: " ".join(text.split()) for name, text in _ENTRY.findall(attributes)}


def _shown(default: object) -> str:
    if default in ("", ()):
        return "none"
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    return f"`{default:g}`" if isinstance(default, float) else f"`{default}`"
