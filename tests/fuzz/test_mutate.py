"""Mutations, without any service."""

import json
import zlib
from random import Random

import msgpack
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.mutate import ODD, mutate_bytes, mutate_message, mutate_record, mutate_value
from tests.fuzz.rpc import _call

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(data=st.binary(max_size=300), seed=st.integers())
def test_bytes_depend_on_the_seed_alone(data: bytes, seed: int) -> None:
    first, second = (mutate_bytes(data, _chance(seed)) for _ in range(2))

    assert first == second


@given(value=PLAIN, seed=st.integers())
def test_any_plain_value_can_be_mutated(value: object, seed: int) -> None:
    before = repr(value)

    first, second = (mutate_value(value, _chance(seed)) for _ in range(2))

    assert repr(first) == repr(second)
    assert repr(value) == before


def test_no_number_of_mutations_makes_a_value_too_deep_for_json() -> None:
    value: object = {"a": [1]}

    for seed in range(3000):
        value = mutate_value(value, _chance(seed))
        json.dumps(value, default=repr)


def test_records_and_messages_are_mutated_as_what_they_are() -> None:
    record = json.dumps({"address": "127.0.0.1:1", "pid": 7}).encode()
    made = [mutate_record(record, _chance(seed)) for seed in range(200)]
    packed = [mutate_record(zlib.compress(record), _chance(seed)) for seed in range(200)]
    messages = [
        mutate_message(msgpack.packb({"taskid": "t"}), _chance(seed)) for seed in range(200)
    ]

    assert 50 < sum(map(_is_json, made)) < 200
    assert sum(each[:1] == b"\x78" for each in packed) > 50
    assert 50 < sum(map(_is_msgpack, messages)) <= 200
    assert len(set(made)) > 150


def _is_json(data: bytes) -> bool:
    try:
        json.loads(data)
    except ValueError:
        return False
    return True


def _is_msgpack(data: bytes) -> bool:
    try:
        msgpack.unpackb(data, strict_map_key=False, unicode_errors="surrogatepass")
    except ValueError:
        return False
    return True


def _chance(seed: int) -> Random:
    return Random(seed)  # noqa: S311 - no secret


def test_what_inputs_are_made_of_stays_as_it_is() -> None:
    before = repr(ODD)
    chance = _chance(7)

    for _ in range(3000):
        _call(chance, ["send_task"])

    assert repr(ODD) == before
