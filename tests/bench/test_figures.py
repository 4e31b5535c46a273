"""What is made of measured values, and what is compared with what."""

import pytest

from tests.bench.figures import (
    OURS,
    PATCHED,
    STOCK,
    THREADED,
    get,
    in_turn,
    percentile,
    ratio,
    ratios,
    summary,
)


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


def test_contenders_take_turns() -> None:
    order = []

    def measure(name: str) -> dict[str, float]:
        order.append(name)
        return {"at": float(len(order))}

    found = in_turn(3, ["a", "b"], measure)
    assert order == ["a", "b"] * 3
    assert found["a"]["at"] == 3.0
    assert [run["at"] for run in found["b"]["runs"]] == [2.0, 4.0, 6.0]


def test_a_full_cycle_is_compared_with_the_faster_of_pyspiders_schedulers() -> None:
    each = {
        STOCK: {"per_s": 100.0, "cpu_s": 0.004},
        THREADED: {"per_s": 50.0, "cpu_s": 0.002},
        PATCHED: {"per_s": 150.0, "cpu_s": 0.0015},
        OURS: {"per_s": 300.0, "cpu_s": 0.001},
    }
    found = ratios({"full_cycle": {"sqlite": {"10": each, "100": each}}})
    assert found["full_cycle_sqlite"] == 3.0
    assert found["full_cycle_sqlite_100"] == 3.0
    assert found["cpu_per_cycle_sqlite"] == 2.0
    assert found["full_cycle_sqlite_100_patched"] == 2.0
    assert found["cpu_per_cycle_sqlite_patched"] == 1.5


def test_of_what_is_to_be_small_the_other_one_is_divided_by_ours() -> None:
    shares = {STOCK: {"share": 0.01}, OURS: {"share": 0.04}}
    waits = {STOCK: {"p50_s": 0.1, "p99_s": 0.2}, OURS: {"p50_s": 0.05, "p99_s": 0.4}}
    found = ratios({"idle": shares, "link_latency": {"half load": waits}})
    assert found["idle_cpu"] == 0.25
    assert found["link_latency_half_load"] == 2.0
    assert found["link_latency_half_load_p99"] == 0.5


def test_more_schedulers_are_compared_with_one() -> None:
    found = ratios({"schedulers": {"sqlite": {"1": {"per_s": 100.0}, "4": {"per_s": 150.0}}}})
    assert found["four_schedulers_sqlite"] == 1.5
    assert found["two_schedulers_sqlite"] is None


def test_what_was_not_measured_or_failed_has_no_ratio() -> None:
    found = ratios({"full_cycle": {"failed": "TimeoutError"}})
    assert found["full_cycle_postgresql"] is None
    assert found["vs_scrapy_redis"] is None
