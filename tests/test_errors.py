"""What is told of an error."""

import pytest

from pyspider_zk.errors import CUT, REASON_LIMIT, BadMessage, brief


def test_a_reason_is_one_short_line_and_says_if_it_was_cut() -> None:
    assert brief(" a\n b ") == "a b"
    assert brief("x" * REASON_LIMIT) == "x" * REASON_LIMIT
    assert brief("x" * 999) == "x" * (REASON_LIMIT - 1) + CUT


def test_what_is_no_text_can_be_told() -> None:
    assert brief("a\ud800b") == "a?b"


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (KeyError("url"), "KeyError: 'url'"),
        (TimeoutError(), "TimeoutError:"),
        (BadMessage("no"), "no"),
    ],
)
def test_an_exception_that_is_none_of_ours_is_told_with_its_type(
    error: Exception, told: str
) -> None:
    assert brief(error) == told
