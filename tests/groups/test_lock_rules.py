"""Who waits for whom in the line for a lock."""

from hypothesis import given
from hypothesis import strategies as st

from pyspider_zk.groups.locks import (
    LockEntry,
    LockKind,
    admission_of,
    entry_before,
    line_of,
    read_line,
)

X, S = LockKind.EXCLUSIVE, LockKind.SHARED


def entries(*kinds: LockKind, first: int = 0) -> list[LockEntry]:
    return [
        LockEntry(kind, f"guid{place}", _signed(first + place)) for place, kind in enumerate(kinds)
    ]


def _signed(number: int) -> int:
    return (number + 2**31) % 2**32 - 2**31


def before(line: list[LockEntry], place: int) -> LockEntry | None:
    return entry_before(line[::-1], line[place])


def test_the_first_in_line_holds_the_lock():
    assert before(entries(X), 0) is None
    assert before(entries(S, X), 0) is None


def test_a_writer_waits_for_the_one_just_before_it():
    line = entries(X, S, S, X)

    assert before(line, 3) == line[2]


def test_a_reader_waits_for_the_last_writer_before_it_and_for_no_reader():
    line = entries(X, X, S, S)

    assert [before(line, 2), before(line, 3)] == [line[1], line[1]]
    assert before(entries(S, S, S), 2) is None


def test_an_entry_is_found_by_its_guid():
    line = entries(X, S)

    assert admission_of(line, "guid1") == line[1]
    assert admission_of(line, "guid2") is None


def test_names_are_read_and_what_is_no_entry_is_told_apart():
    line = [*entries(X, S), LockEntry(X, "guid", -(2**31))]
    junk = ["", "note", "exclusive-a", "other-a-0000000001", "shared-a-1", "shared-a-+000000001"]

    assert read_line([*map(str, line), *junk]) == (line, junk)


def test_a_line_of_nobody_is_empty():
    assert line_of([]) == []


@given(
    st.lists(st.sampled_from([X, S]), min_size=1, max_size=6),
    st.integers(0, 2**32 - 1),
    st.randoms(),
)
def test_the_order_holds_where_numbers_run_over(kinds, first, random):
    line = entries(*kinds, first=first)
    shuffled = list(line)
    random.shuffle(shuffled)

    assert line_of(shuffled) == line


@given(st.lists(st.sampled_from([X, S]), min_size=1, max_size=8))
def test_holders_are_readers_together_or_one_writer_alone(kinds):
    line = entries(*kinds)
    holding = [entry for place, entry in enumerate(line) if before(line, place) is None]

    assert holding
    assert len(holding) == 1 or {entry.kind for entry in holding} == {S}
