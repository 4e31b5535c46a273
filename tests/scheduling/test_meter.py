"""How fast a member works."""

from pyspider_zk.scheduling.meter import SPAN, Meter


class Clocks:
    now = 100.0
    used = 7.0


def meter() -> tuple[Clocks, Meter]:
    clocks = Clocks()
    return clocks, Meter(lambda: clocks.now, lambda: clocks.used)


def test_before_any_time_has_passed_there_is_no_rate() -> None:
    _, made = meter()
    made.count()
    assert made.rates() == (0.0, 0.0)


def test_rates_are_over_the_time_that_passed() -> None:
    clocks, made = meter()
    made.rates()
    for _ in range(30):
        made.count()
    clocks.now += 4
    clocks.used += 1
    assert made.rates() == (7.5, 0.25)


def test_what_is_long_ago_counts_no_more() -> None:
    clocks, made = meter()
    made.rates()
    made.count()
    for _ in range(int(SPAN) + 2):
        clocks.now += 1
        last = made.rates()
    assert last == (0.0, 0.0)
