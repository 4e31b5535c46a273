"""Documents are written to the byte as ``json`` does, and read as it reads them."""

import json
import math
from collections import OrderedDict
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyspider.database.sqlalchemy.rows import loaded

from pyspider_zk.tasks.documents import Read, from_json, readable, to_json
from tests.tasks.test_columns import CIRCULAR, DEEP

KEYS = st.text() | st.integers() | st.floats() | st.booleans() | st.none()
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
DOCUMENTS = st.recursive(
    SCALARS | st.text(st.characters(categories=["Cs", "Cc", "L"])),
    lambda some: st.lists(some) | st.lists(some).map(tuple) | st.dictionaries(KEYS, some),
    max_leaves=8,
)
NUMBERS = st.from_regex(r"-?[0-9]{1,40}(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,4})?", fullmatch=True)

ODD = r"""
NaN [Infinity] {"a":-Infinity} 1e999 -1e999 1e-999 -0 -0.0 1e3 0.1 1.7976931348623159e308
9223372036854775808 18446744073709551616 -9223372036854775809 2.2250738585072011e-308
{"a":1,"b":2,"a":3} {"":{}} [1,] {"a":1,} 01 1. .5 +1 1_0 {}x {1:2} {'a':1} /**/1 null tru
"\ud800" "\ude00\ud83d" "\ud83d\ude00" "\u+123" "\/" "\x" "é"
"""
MORE = [
    *("", " ", "9" * 4300, "9" * 4301, "-" + "9" * 4300, "[" * 500 + "]" * 500, "[" * 100_000),
    *('"\ud800"', '"a\tb"', '"\0"', '"\x7f"', "\ufeff{}", "\x0b1", "\xa01", "1\0", "1 2", "- 1"),
]
ODD_BYTES = [
    *(b"\xef\xbb\xbf{}", b'"\xc3\xa9"', b'"\xe9"', b'"\xed\xa0\x80"', b'"\xc0\x80"', b"\0", b"1\0"),
    *(b'"\xf4\x90\x80\x80"', "{}".encode("utf-16"), "{}".encode("utf-32-be"), bytearray(b"{}")),
]


class Text(str):
    """A text of a type of its own."""


def outcome(does: Callable[[Any], Any], given_: Any) -> tuple[str, str]:
    """Return what comes of it: repr tells 1, 1.0 and True apart, and 0.0 and -0.0."""
    try:
        return "returns", repr(does(given_))
    except (ValueError, TypeError, RecursionError) as error:
        return type(error).__name__, str(error)


# --- written ------------------------------------------------------------------------------------


@given(DOCUMENTS)
@example({1: math.nan, False: math.inf, None: -0.0, 2.5: 2**100})
@example([Text("a"), HTTPStatus.OK, OrderedDict(b=1, a=2), {Text("é"): "\u2028</"}])
def test_a_document_is_written_as_json_writes_it(document: Any) -> None:
    assert to_json(document) == json.dumps(document)


@pytest.mark.parametrize(
    "document",
    [object(), {"a": b"b"}, {(1, 2): 3}, {1, 2}, CIRCULAR, {"a": [1, object()]}, 1j, DEEP],
    ids=lambda document: type(document).__name__,
)
def test_what_json_refuses_is_refused_for_the_same_reason(document: Any) -> None:
    kind, reason = outcome(json.dumps, document)
    assert kind != "returns"
    assert outcome(to_json, document) == (kind, reason)


# --- read ---------------------------------------------------------------------------------------


@given(DOCUMENTS)
def test_a_document_is_read_as_json_reads_it(document: Any) -> None:
    text = json.dumps(document)
    for stored in (text, text.encode(), json.dumps(document, ensure_ascii=False)):
        assert outcome(from_json, stored) == outcome(json.loads, stored)


@given(NUMBERS)
def test_a_number_is_read_as_json_reads_it(text: str) -> None:
    assert outcome(from_json, text) == outcome(json.loads, text)


@given(st.text(' 01.-eE{}[]",:\\untrfalsNI\ufeff\ud800', max_size=8))
def test_any_text_is_read_or_refused_as_json_does(text: str) -> None:
    assert outcome(from_json, text) == outcome(json.loads, text)


@given(st.binary(max_size=8) | st.binary(max_size=6).map(lambda inner: b'"' + inner + b'"'))
def test_any_bytes_are_read_or_refused_as_before(raw: bytes) -> None:
    assert outcome(from_json, raw) == outcome(json.loads, raw)
    assert outcome(lambda stored: from_json(stored, loaded), raw) == outcome(loaded, raw)


@pytest.mark.parametrize("read", [json.loads, loaded], ids=["pyspider", "SQLAlchemy"])
def test_odd_json_is_read_or_refused_as_before(read: Read) -> None:
    for stored in (*ODD.split(), *MORE, *ODD_BYTES):
        assert outcome(lambda it: from_json(it, read), stored) == outcome(read, stored), stored


def test_what_is_no_text_is_refused() -> None:
    for stored in (7, 1.5, True, {}):
        with pytest.raises(TypeError):
            from_json(stored)


def test_a_row_keeps_its_order_and_what_is_stored_is_not_changed() -> None:
    stored = {"track": b"", "url": '{"a": 1}', "fetch": None, "process": '{"callback": "page"}'}
    before = dict(stored)
    row = readable(stored)
    assert [*row.items()] == [
        ("track", {}),
        ("url", '{"a": 1}'),
        ("fetch", {}),
        ("process", {"callback": "page"}),
    ]
    assert stored == before
