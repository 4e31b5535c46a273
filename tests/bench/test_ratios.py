"""What is compared with what."""

from tests.bench.ratios import OURS, PATCHED, STOCK, THREADED, ratios


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
