"""The wire format, both ways with u-msgpack."""

from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspider_zk.errors import BadMessage
from pyspider_zk.queues.codec import decode, encode, size_of

KEYS = st.text() | st.binary() | st.integers(-(2**63), 2**64 - 1) | st.booleans()
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner),
    max_leaves=20,
)


@given(VALUES)
def test_what_is_encoded_is_decoded_the_same(value: Any) -> None:
    assert decode(encode(value)) == value


@given(VALUES)
def test_the_size_is_that_of_what_is_encoded(value: Any) -> None:
    assert size_of(value) == len(encode(value))


def test_a_text_of_a_type_of_its_own_has_the_size_of_a_text() -> None:
    own_text = type("OwnText", (str,), {})
    assert size_of({"save": own_text("x")}) == len(encode({"save": "x"}))


@pytest.mark.parametrize("bad", [2**70, "half \ud83d", object()], ids=["int", "text", "object"])
def test_what_cannot_be_encoded_has_no_size(bad: object) -> None:
    assert size_of({"save": bad}) == 0


@given(VALUES)
def test_u_msgpack_writes_the_same_bytes_and_reads_them(value: Any) -> None:
    umsgpack = pytest.importorskip("umsgpack")
    assert umsgpack.unpackb(encode(value)) == value
    assert decode(umsgpack.packb(value)) == value


@given(st.binary(max_size=200))
def test_any_bytes_are_either_a_value_or_a_bad_message(raw: bytes) -> None:
    with suppress(BadMessage):
        encode(decode(raw))


def test_text_and_bytes_stay_apart() -> None:
    assert encode("é") == b"\xa2\xc3\xa9"
    assert encode(b"\xff") == b"\xc4\x01\xff"
    assert decode(b"\xc4\x01\xff") == b"\xff"


def test_numbers_may_be_keys() -> None:
    assert decode(encode({1: "a", "1": "b"})) == {1: "a", "1": "b"}


def test_a_tuple_becomes_a_list() -> None:
    assert decode(encode((1, (2,)))) == [1, [2]]


def test_a_time_with_a_zone_stays_a_time() -> None:
    now = datetime(2024, 2, 29, 12, 30, 1, 5, tzinfo=UTC)
    assert decode(encode(now)) == now


def test_the_largest_integers_pass() -> None:
    assert decode(encode([2**64 - 1, -(2**63)])) == [2**64 - 1, -(2**63)]


@pytest.mark.parametrize(
    "value",
    [2**64, -(2**63) - 1, "\ud800", {1, 2}, object(), datetime(2024, 1, 1), 1j],
)
def test_what_u_msgpack_could_not_read_names_its_task(value: object) -> None:
    task = {"project": "shop", "taskid": "abc", "process": {"save": value}}
    with pytest.raises(BadMessage, match="task 'abc' of project 'shop' cannot be encoded"):
        encode(task)


def test_nesting_without_end_is_a_bad_message() -> None:
    value: list[Any] = []
    value.append(value)
    with pytest.raises(BadMessage):
        encode(value)
    with pytest.raises(BadMessage):
        decode(b"\x91" * 100_000 + b"\x00")


def test_a_bad_message_does_not_quote_the_body() -> None:
    with pytest.raises(BadMessage) as caught:
        encode({"project": "p", "taskid": "t", "cookie": "secret", "bad": object()})
    assert "secret" not in str(caught.value)
