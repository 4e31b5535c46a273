"""Results as CSV: what a spreadsheet would run arrives as text, and numbers as numbers."""

import csv
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from pyspider.database import connect_database

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
    return list(csv.reader(StringIO("".join(lines(*results, url=url)), newline="")))


def lines(*results: Any, url: str = "http://a/", **options: Any) -> list[str]:
    from pyspider.libs.result_dump import dump_as_csv

    return list(dump_as_csv(({"url": url, "result": each} for each in results), **options))


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


def test_the_columns_are_what_the_first_thirty_have_in_common() -> None:
    results = [{"a": n, "b": n, f"c{n}": n} for n in range(30)]

    found = dumped(*results, {"b": 1, "d": 2}, "plain", {})

    assert found[0] == ["url", "a", "b", "..."]
    assert found[1] == ["http://a/", "0", "0", '{"c0": 0}']
    assert [row[1:] for row in found[31:]] == [
        ["", "1", '{"d": 2}'],
        ["", "", "plain"],
        ["", "", "{}"],
    ]


def test_without_a_common_field_results_are_in_one_column() -> None:
    assert dumped({"a": 1}, {"b": 2}, None)[1:] == [
        ["http://a/", '{"a": 1}'],
        ["http://a/", '{"b": 2}'],
        ["http://a/", "null"],
    ]


def test_lines_end_and_are_quoted_as_in_rfc_4180() -> None:
    text = 'a "quoted", text\r\nof\nlines\rand, commas'

    assert lines({"a": text}) == [
        "url,a,...\r\n",
        f'http://a/,"{text.replace(chr(34), 2 * chr(34))}",{{}}\r\n',
    ]
    assert dumped({"a": text})[1][1] == text


def test_a_spreadsheet_is_told_that_it_is_utf_8() -> None:
    assert (
        "".join(lines({"a": "é"}, for_spreadsheet=True)) == "\ufeffurl,a,...\r\nhttp://a/,é,{}\r\n"
    )
    assert lines(for_spreadsheet=True) == lines() == []


def test_a_line_is_written_when_its_result_was_read() -> None:
    from pyspider.libs.result_dump import dump_as_csv, dump_as_json, dump_as_txt

    def results() -> Iterator[dict[str, Any]]:
        for number in range(31):
            yield {"url": "u", "result": number}
        pytest.fail("nobody has asked for more")

    for dump in (dump_as_csv, dump_as_json, dump_as_txt):
        assert next(dump(results()))


def test_the_latest_results_are_as_they_were_when_asked_for(tmp_path: Path) -> None:
    from pyspider.libs.result_dump import exported

    resultdb = connect_database(f"sqlite+resultdb:///{tmp_path}/result.db")
    for number in range(6):
        resultdb.save("p1", f"t{number}", "u", number)

    rows = exported(resultdb, "p1", offset=1, limit=3)
    found = [next(rows)["result"]]
    resultdb.save("p1", "t6", "u", 6)
    resultdb._delete("resultdb_p1", where="taskid = 't3'")

    assert [*found, *(row["result"] for row in rows)] == [4, 2]
    assert [row["result"] for row in exported(resultdb, "p1", offset=4)] == [1, 0]
    assert {row["result"] for row in exported(resultdb, "p1", -1, -1)} == {0, 1, 2, 4, 5, 6}
