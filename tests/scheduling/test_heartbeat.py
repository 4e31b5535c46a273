"""How fast a member works."""

from hypothesis import given
from hypothesis import strategies as st

from pyspider_zk.scheduling.heartbeat import LOOK, MEMORY, MOST, SPAN, Meter, SlotMeter
from tests.support.clock import Clock


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


TEN_MINUTES = int(600 / LOOK)
HELD = range(200)


class Measured:
    """A meter, and the time that passes for it."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.meter = SlotMeter(self.clock)

    def pass_by(self, tasks: dict[int, int], held=HELD, *, looks: int = 1, may_work=True) -> None:
        """Let looks go by, with so many tasks of each slot before each."""
        for _ in range(looks):
            for slot, count in tasks.items():
                for _ in range(count):
                    self.meter.count(slot)
            self.clock.now += LOOK
            self.meter.follow(held, may_work=may_work)


def test_a_steady_slot_is_measured_right_from_the_first_look() -> None:
    measured = Measured()

    measured.pass_by({3: 50, 4: 500})

    assert measured.meter.busiest == {4: 500 / LOOK, 3: 50 / LOOK}


def test_between_two_looks_nothing_changes() -> None:
    measured = Measured()
    measured.pass_by({3: 50})
    before = measured.meter.busiest
    measured.meter.count(3)
    measured.clock.now += LOOK / 2

    measured.meter.follow(HELD, may_work=True)

    assert measured.meter.busiest is before


def test_a_burst_fades_over_minutes() -> None:
    measured = Measured()
    measured.pass_by({3: 300}, looks=60)
    steady = measured.meter.busiest[3]

    measured.pass_by({}, looks=round(MEMORY / LOOK))
    assert 0.3 * steady < measured.meter.busiest[3] < 0.45 * steady

    measured.pass_by({}, looks=2 * TEN_MINUTES)
    assert measured.meter.busiest == {}
    assert measured.meter._averages == {}


def test_time_in_which_nothing_could_be_done_does_not_count() -> None:
    measured = Measured()
    measured.pass_by({3: 300}, looks=10)
    before = measured.meter.busiest

    measured.pass_by({}, looks=TEN_MINUTES, may_work=False)

    assert measured.meter.busiest == before


def test_a_slot_that_was_given_up_is_forgotten() -> None:
    measured = Measured()
    measured.pass_by({3: 300, 4: 300})

    measured.pass_by({4: 300}, held={4})

    assert set(measured.meter.busiest) == {4}
    assert set(measured.meter._averages) == {4}


def test_only_the_busiest_are_reported() -> None:
    measured = Measured()

    measured.pass_by({slot: 10 * (slot + 1) for slot in range(MOST + 20)})

    assert set(measured.meter.busiest) == set(range(20, MOST + 20))


@given(st.lists(st.dictionaries(st.integers(0, 5), st.integers(0, 30)), max_size=20))
def test_all_tasks_are_counted_once(rounds) -> None:
    measured = Measured()

    for tasks in rounds:
        measured.pass_by(tasks)

    assert measured.meter.done == sum(sum(tasks.values()) for tasks in rounds)
