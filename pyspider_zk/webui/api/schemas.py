"""Schemas: fields of what the API takes and answers, and schemas that mirror records."""

import types
from collections.abc import Callable, Collection, Mapping, Sequence
from enum import Enum
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from marshmallow import Schema, fields, validate

from pyspider_zk.asked import MOST_PART
from pyspider_zk.groups.ids import MemberId
from pyspider_zk.projects.rows import STATUSES

MOST_ITEMS = 1000
MOST_NAMES = 100_000
SINCE_EPOCH = "seconds since the epoch"

STORABLE = validate.Regexp(r"^[^\x00]*\Z", error="has the character NUL")
"""Text that every database takes in a question."""

PART = validate.Regexp(
    rf"^[^\x00]{{1,{MOST_PART}}}\Z",
    error=f"has 1 to {MOST_PART} characters, NUL not among them",
)
"""Text that is looked for in a longer one."""

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
        return fields.Dict(
            keys=_made(keys, {}),
            values=None if values is Any else _made(values, {}),
            **options,
        )
    if origin in _LISTS:
        return fields.List(_made(get_args(kind)[0], {}), **options)
    raise TypeError(f"no answer has a {kind}")


def _hints_of(record: type) -> list[tuple[str, Any]]:
    names = getattr(record, "_fields", None) or record.__dataclass_fields__  # type: ignore[attr-defined]
    hints = get_type_hints(record)
    return [(name, hints[name]) for name in names]


class Switch(fields.Boolean):
    """True or false in a body. Not 1 nor 0, which Python takes for the same."""

    def _deserialize(self, value: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(value, bool):
            raise self.make_error("invalid", input=value)
        return super()._deserialize(value, *args, **kwargs)


def text_field(text: str = "", **more: Any) -> fields.String:
    """Return the field of a text in an answer, with its description."""
    return fields.String(required=True, metadata=about(text), **more)


def number_field(text: str = "", **more: Any) -> fields.Integer:
    """Return the field of a whole number."""
    return fields.Integer(required=True, strict=True, metadata=about(text), **more)


def time_field(text: str = SINCE_EPOCH) -> fields.Float:
    """Return the field of a time."""
    return fields.Float(required=True, metadata=about(text))


def measure_field(text: str, **more: Any) -> fields.Float:
    """Return the field of a measure."""
    return fields.Float(required=True, metadata=about(text), **more)


def limit_field(
    usual: int, most: int = MOST_ITEMS, text: str = "how many at most"
) -> fields.Integer:
    """Return the field of a query that says how many to answer."""
    return fields.Integer(
        load_default=usual, validate=validate.Range(1, most), metadata=about(text)
    )


def owner_field(
    text: str = "number of the member that schedules it", null: str = ""
) -> fields.Integer:
    """Return the field of a member's number; null: nobody."""
    return number_field(f"{text}; null: nobody just now{null}", allow_none=True)


class ProblemSchema(Schema):
    """What went wrong, as problem details (RFC 9457)."""

    type = fields.String(required=True)
    title = text_field("the status in words")
    status = number_field("the HTTP status")
    detail = text_field("what is wrong with which part, and the remedy")
    errors = fields.Dict(
        keys=fields.String(), metadata=about("what is wrong, by part and field of the request")
    )
    projects = fields.List(fields.String(), metadata=about("the projects that it is about"))


class PageQuerySchema(Schema):
    """Some of many."""

    offset = fields.Integer(
        load_default=0,
        validate=validate.Range(0, 2**31 - 1),
        metadata=about("how many to leave out"),
    )
    limit = limit_field(100)


class PageOfSchema(Schema):
    """What all pages have beside their items."""

    total = number_field("how many there are in all")
    offset = number_field("how many were left out")


class WhichSchema(Schema):
    """Projects by what their rows say."""

    pattern = fields.String(metadata=about("a shell pattern for the whole name, such as news_*"))
    group = fields.String(metadata=about("one of the project's groups"))
    status = fields.String(validate=validate.OneOf(STATUSES))
