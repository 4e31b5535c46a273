"""Results as CSV: what a spreadsheet would run arrives as text, and numbers as numbers."""

import csv
from io import StringIO
from typing import Any

import pytest

FORMULAS = [
    "=HYPERLINK(1)",
    "+1+1",
    "-1+1",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    "\n=1",
    "-",
    "+a",
    "\uff1d1",
]
TEXTS = ["", "a=1", "'=1", " =1", "1-2", "-1", "+1.5", "-1,000.50", "-1e-07", "1", "Ünï"]


def dumped(*results: Any, url: str = "http://a/") -> list[list[str]]:
    from pyspider.libs.result_dump import dump_as_csv

    rows = [{"url": url, "result": each} for each in results]
    return list(csv.reader(StringIO("".join(dump_as_csv(rows)), newline="")))


@pytest.mark.parametrize("text", FORMULAS)
def test_formulas_are_text_in_cells_headings_addresses_and_whole_results(text: str) -> None:
    shown = f"'{text}"

    assert dumped({"a": text}) == [["url", "a", "..."], ["http://a/", shown, "{}"]]
    assert dumped({text: "a"})[0] == ["url", shown, "..."]
    assert dumped(text) == [["url", "..."], ["http://a/", shown]]
    assert dumped({}, url=text)[1][0] == shown


@pytest.mark.parametrize("text", TEXTS)
def test_what_is_no_formula_is_as_it_was(text: str) -> None:
    assert dumped({"a": text})[1][1] == text


def test_values_that_are_no_text_are_json() -> None:
    found = dumped({"a": -1, "b": -1.5e-7, "c": None, "d": ["=1"], "e": True, "f": b"=1"})

    assert found[1][1:-1] == ["-1", "-1.5e-07", "null", '["=1"]', "true", "'=1"]
