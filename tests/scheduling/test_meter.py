"""How fast a member works."""

from pyspider_zk.scheduling.meter import SPAN, Meter


class Clocks:
    now = 100.0
    used = 7.0
    done = 40


def meter() -> tuple[Clocks, Meter]:
    clocks = Clocks()
    return clocks, Meter(lambda: clocks.done, lambda: clocks.now, lambda: clocks.used)


def test_before_any_time_has_passed_there_is_no_rate() -> None:
    clocks, made = meter()
    clocks.done += 1
    assert made.rates() == (0.0, 0.0)


def test_rates_are_over_the_time_that_passed() -> None:
    clocks, made = meter()
    made.rates()
    clocks.done += 30
    clocks.now += 4
    clocks.used += 1
    assert made.rates() == (7.5, 0.25)


def test_what_is_long_ago_counts_no_more() -> None:
    clocks, made = meter()
    made.rates()
    clocks.done += 1
    for _ in range(int(SPAN) + 2):
        clocks.now += 1
        last = made.rates()
    assert last == (0.0, 0.0)
