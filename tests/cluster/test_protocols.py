"""Which protocol a cluster may go by, and what who does not speak it is told."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspider_zk.cluster.protocols import highest_common, holding_back, is_spoken, refusal, text_of

ranges = st.tuples(st.integers(1, 5), st.integers(0, 5)).map(lambda two: (two[0], sum(two)))
crowds = st.dictionaries(st.sampled_from("abcdef"), ranges)


@pytest.mark.parametrize("in_use", [1, 2, 3])
def test_a_protocol_of_the_range_is_accepted(in_use: int) -> None:
    assert refusal(in_use, "/r", (1, 3)) is None


@pytest.mark.parametrize(
    ("in_use", "words"),
    [
        (4, "goes by protocol 4, this version speaks protocols 2 to 3: it is too old, start the"),
        (1, "goes by protocol 1, this version speaks protocols 2 to 3: it is too new, first bring"),
    ],
)
def test_another_is_refused_with_the_remedy(in_use: int, words: str) -> None:
    assert words in str(refusal(in_use, "/r", (2, 3)))


def test_a_range_of_one_is_told_as_one() -> None:
    assert (text_of((2, 2)), text_of((1, 2))) == ("protocol 2", "protocols 1 to 2")


@given(st.integers(1, 5), crowds)
def test_what_is_raised_to_is_spoken_by_all_who_speak_what_is_in_use(in_use, crowd) -> None:
    together = {who: its for who, its in crowd.items() if is_spoken(in_use, its)}

    after = highest_common(in_use, together)

    assert after >= in_use
    assert holding_back(after, together) == []
    assert not together or holding_back(after + 1, together)


@given(st.integers(1, 5), crowds)
def test_it_is_never_lowered(in_use, crowd) -> None:
    assert highest_common(in_use, crowd) >= in_use
