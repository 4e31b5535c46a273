"""The catalogue itself, without any service."""

from collections import Counter

import pytest

from tests.poison.__main__ import main
from tests.poison.catalogue import PER_SPOT, everything, groups, order, sample


def test_there_are_many_kinds_on_every_surface():
    kinds = Counter(entry.surface for entry in everything())

    assert sum(kinds.values()) >= 1000
    assert min(kinds.values()) >= 10, kinds


def test_every_entry_says_where_it_must_be_shown():
    assert [str(entry) for entry in everything() if not entry.shown] == []


def test_a_sample_covers_all_that_can_be_put_in_at_once():
    entries = everything()

    chosen = sample(entries, order(1))

    assert {str(one) for one in entries if not one.spot} <= {str(one) for one in chosen}
    assert max(Counter(one.spot for one in chosen if one.spot).values()) == PER_SPOT


def test_a_seed_says_it_all():
    first, second = (sample(everything(), order(7)) for _ in range(2))

    assert list(map(str, first)) == list(map(str, second))


def test_no_group_holds_two_that_cover_each_other():
    entries = everything()

    made = groups(entries, 50)

    assert sum(map(len, made)) == len(entries)
    for group in made:
        assert len(group) <= 50
        spots = [entry.spot for entry in group if entry.spot]
        assert len(spots) == len(set(spots))


def test_a_sample_of_entries_that_all_cover_each_other():
    covering = [entry for entry in everything() if entry.spot]

    assert len(sample(covering, order(1))) > 0


@pytest.mark.parametrize("short", [[], ["--short"]])
def test_a_word_that_no_name_holds_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], short: list[str]
):
    monkeypatch.setattr("sys.argv", ["poison", "--only", "abacus", *short])

    assert main() == 2
    assert "no entry's name holds 'abacus'" in capsys.readouterr().out
