"""What is made of measured values."""

import pytest

from tests.bench.figures import get, percentile, ratio, summary


def test_a_percentile_is_a_value_that_was_measured() -> None:
    values = [float(number) for number in range(1, 101)]
    assert percentile(values, 0.5) == 50
    assert percentile(values, 0.99) == 99
    assert percentile([7.0], 0.99) == 7


def test_there_is_no_percentile_of_nothing() -> None:
    with pytest.raises(ValueError, match="nothing"):
        percentile([], 0.5)


def test_a_summary_has_the_medians_and_all_values() -> None:
    found = summary([{"per_s": 3.0}, {"per_s": 1.0}, {"per_s": 2.0}])
    assert found["per_s"] == 2.0
    assert [run["per_s"] for run in found["runs"]] == [3.0, 1.0, 2.0]


def test_a_summary_takes_no_truth_for_a_figure() -> None:
    assert summary([{"saturated": True}, {"saturated": False}])["saturated"] is False


def test_a_summary_bears_figures_that_a_run_has_not() -> None:
    assert summary([{"a": 1.0}, {"a": 3.0, "b": 5.0}])["b"] == 5.0


def test_a_ratio_of_what_is_missing_is_missing() -> None:
    assert ratio(3.0, 2.0) == 1.5
    assert ratio(None, 2.0) is None
    assert ratio(3.0, 0.0) is None


def test_a_path_that_leads_nowhere_leads_to_nothing() -> None:
    assert get({"a": {"b": 1}}, "a", "b") == 1
    assert get({"a": {"b": 1}}, "a", "c", "d") is None
