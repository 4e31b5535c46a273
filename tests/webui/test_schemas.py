"""Schemas have the fields of the records that answers are made of."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, NamedTuple

import pytest
from marshmallow import Schema

from pyspider_zk.projects.selection import Selection
from pyspider_zk.webui.api.batches import FilterSchema
from pyspider_zk.webui.api.schemas import mirrors


class Colour(StrEnum):
    RED = "red"


@dataclass(frozen=True)
class Fruit:
    name: str
    colour: Colour
    weight: float | None
    seeds: Mapping[str, int]
    notes: Mapping[str, Any]
    secret: bytes = b""


class Spot(NamedTuple):
    row: int
    names: list[str]


@mirrors(Fruit, Spot, without=("secret",), row="from the left")
class FruitSchema(Schema):
    """A fruit."""


FRUIT = {
    "name": "apple",
    "colour": "red",
    "weight": None,
    "seeds": {"left": 2},
    "notes": {"taste": ["sweet"]},
    "row": 3,
    "names": ["a"],
}


def test_a_schema_takes_what_its_records_hold_and_nothing_else() -> None:
    assert FruitSchema().validate(FRUIT) == {}
    assert FruitSchema().fields["row"].metadata == {"description": "from the left"}
    assert FruitSchema().validate({**FRUIT, "secret": "x"}).keys() == {"secret"}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", 7),
        ("name", None),
        ("colour", "blue"),
        ("weight", "much"),
        ("seeds", {"left": "two"}),
        ("notes", 1),
        ("row", 1.5),
        ("names", [1]),
    ],
)
def test_a_value_of_another_type_is_none(field: str, value: object) -> None:
    assert FruitSchema().validate({**FRUIT, field: value}).keys() == {field}


def test_what_the_records_do_not_have_cannot_be_described() -> None:
    with pytest.raises(TypeError, match="colour_"):
        mirrors(Fruit, without=("secret",), colour_="a slip")


def test_a_type_that_no_answer_has_is_refused() -> None:
    with pytest.raises(TypeError, match="bytes"):
        mirrors(Fruit)


def test_a_filter_has_all_of_a_selection_but_its_names() -> None:
    assert FilterSchema().fields.keys() == {each.name for each in fields(Selection)} - {"names"}
