"""The demo's last line."""

import io
import json
from dataclasses import replace

import pytest
from rich.console import Console

from pyspider_zk.demo.outcome import DemoOutcome

OUTCOME = DemoOutcome(
    expected=2,
    crawled=2,
    missing=0,
    schedulers=3,
    killed=1,
    moved_slots=90,
    takeover_s=5.2,
    duplicate_fetches=1,
    seconds=20.1,
)


def test_the_outcome_is_one_line_of_json_in_a_fixed_order():
    assert json.loads(OUTCOME.as_json()) == {
        "expected": 2,
        "crawled": 2,
        "missing": 0,
        "schedulers": 3,
        "killed": 1,
        "moved_slots": 90,
        "takeover_s": 5.2,
        "duplicate_fetches": 1,
        "seconds": 20.1,
    }
    assert "\n" not in OUTCOME.as_json()


def test_the_table_says_in_words_what_each_value_of_the_line_is() -> None:
    out = io.StringIO()
    Console(file=out, width=80).print(OUTCOME.as_table())

    rows = [line.split(maxsplit=2) for line in out.getvalue().splitlines()]
    told = json.loads(OUTCOME.as_json())
    assert {name: value for name, value, _ in rows} == {key: str(told[key]) for key in told}
    assert all(len(words.split()) > 3 for _, _, words in rows)


@pytest.mark.parametrize(
    ("change", "complete"),
    [
        ({}, True),
        ({"missing": 1}, False),
        ({"expected": None, "missing": None}, True),
        ({"expected": None, "missing": None, "crawled": 0}, False),
    ],
)
def test_a_crawl_is_complete_when_pages_were_crawled_and_none_is_missing(change, complete):
    assert replace(OUTCOME, **change).complete is complete
