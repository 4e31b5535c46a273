"""Whatever a task holds, XML-RPC can tell of it."""

import xmlrpc.client
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspider_zk.rpc.values import xmlrpc_value

ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters(codec=None))
    | st.binary(),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner) | st.tuples(inner)
    ),
    max_leaves=8,
)


def carried(value: Any) -> Any:
    text = xmlrpc.client.dumps((value,), methodresponse=True, allow_none=True)
    return xmlrpc.client.loads(text.encode())[0][0]


@given(ANYTHING)
def test_anything_can_be_carried(value: Any) -> None:
    carried(xmlrpc_value(value))


@pytest.mark.parametrize(
    "value",
    [None, True, 0, -(2**31), 2**31 - 1, 0.5, "", "ä\n\t<&>", [], [1, ["x"]], {"a": {"b": None}}],
)
def test_what_can_be_carried_stays_the_same(value: Any) -> None:
    assert xmlrpc_value(value) == value
    assert carried(xmlrpc_value(value)) == value


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (1_700_000_000_000, 1.7e12),
        (10**400, "1" + "0" * 400),
        ("a\x00b\ud800", "a\ufffdb\ufffd"),
        ({1: {None: "x"}}, {"1": {"None": "x"}}),
        ((1, 2), [1, 2]),
        ({1}, "{1}"),
    ],
)
def test_the_rest_is_put_into_other_words(value: Any, told: Any) -> None:
    assert xmlrpc_value(value) == told
    assert carried(told) == told
