"""Mirrors of records: schemas that have the fields that a record has, with their types."""

import types
from collections.abc import Callable, Collection, Mapping, Sequence
from enum import Enum
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from marshmallow import Schema, fields

from pyspider_zk.groups.ids import MemberId

T = TypeVar("T", bound=Schema)

_PLAIN: Mapping[object, Callable[..., fields.Field[Any]]] = {
    str: fields.String,
    int: lambda **options: fields.Integer(strict=True, **options),
    float: fields.Float,
    bool: fields.Boolean,
    MemberId: lambda **options: fields.Integer(strict=True, **options),  # only the number is shown
}
_LISTS = (list, tuple, Sequence)


def mirrors(
    *records: type, without: Collection[str] = (), **texts: str
) -> Callable[[type[T]], type[T]]:
    """Give a schema the fields of records, except those that it defines itself.

    So an answer that is made of a record cannot have a field that the API does not know.

    Args:
        records: dataclasses or named tuples.
        without: fields that are left out.
        texts: descriptions of fields in the document.
    """
    hints = {name: hint for record in records for name, hint in _hints_of(record)}
    if strange := {*texts, *without} - hints.keys():
        raise TypeError(f"{records} have no {sorted(strange)}")
    derived = {
        name: field_of(hint, texts.get(name, ""))
        for name, hint in hints.items()
        if name not in without
    }

    def decorate(schema: type[T]) -> type[T]:
        mirror = Schema.from_dict(derived)
        return type(schema.__name__, (schema, mirror), {"__doc__": schema.__doc__})

    return decorate


def about(text: str) -> dict[str, str]:
    """Return the description of a field, in marshmallow's form."""
    return {"description": text} if text else {}


def field_of(hint: Any, text: str = "") -> fields.Field[Any]:
    """Return the field for values of a type.

    Raises:
        TypeError: there is none; an answer cannot have such a value.
    """
    kinds = set(get_args(hint)) if get_origin(hint) in (Union, types.UnionType) else {hint}
    options = {"required": True, "metadata": about(text)}
    if types.NoneType in kinds:
        kinds.remove(types.NoneType)
        options["allow_none"] = True
    (kind,) = kinds
    return _made(kind, options)


def _made(kind: Any, options: dict[str, Any]) -> fields.Field[Any]:
    origin = get_origin(kind) or kind
    if kind in _PLAIN:
        return _PLAIN[kind](**options)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return fields.Enum(kind, by_value=True, **options)
    if issubclass(origin, Mapping):
        keys, values = get_args(kind)
        return fields.Dict(keys=_made(keys, {}), values=_item(values), **options)
    if origin in _LISTS:
        return fields.List(_made(get_args(kind)[0], {}), **options)
    raise TypeError(f"no answer has a {kind}")


def _item(kind: Any) -> fields.Field[Any] | None:
    return None if kind is Any else _made(kind, {})


def _hints_of(record: type) -> list[tuple[str, Any]]:
    names = getattr(record, "_fields", None) or record.__dataclass_fields__  # type: ignore[attr-defined]
    hints = get_type_hints(record)
    return [(name, hints[name]) for name in names]
