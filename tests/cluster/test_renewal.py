"""When a member renews, without a ZooKeeper."""

import pytest

from pyspider_zk.cluster.coordinator import AFTER, JITTER, Coordinator
from pyspider_zk.cluster.records import Load
from pyspider_zk.cluster.rules import Stamp
from pyspider_zk.config import Settings
from pyspider_zk.groups.ids import MemberId
from tests.support.crew import record

SETTINGS = Settings(renewal=1.0, lease=4.0, hang=6.0)


class RenewalBench:
    """A coordinator that was never started, on a clock that the test sets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, chance: float = 0.0) -> None:
        self.now = 100.0
        self.renewals: list[float] = []
        self.coordinator = Coordinator(
            SETTINGS, record(), dict, Load, clock=lambda: self.now, chance=lambda: chance
        )
        monkeypatch.setattr(
            self.coordinator._membership, "renew", lambda _: self.renewals.append(self.now)
        )

    def at(self, now: float) -> None:
        self.now = now
        self.coordinator._renew_if_due()


@pytest.mark.parametrize(("chance", "pause"), [(0.0, 1.0), (1.0, 1.0 - JITTER)])
def test_renewals_come_up_to_a_tenth_early_by_chance(monkeypatch, chance, pause):
    bench = RenewalBench(monkeypatch, chance)

    for now in (100.0, 100.0 + pause - 0.01, 100.0 + pause):
        bench.at(now)

    assert bench.renewals == [100.0, 100.0 + pause]


@pytest.mark.parametrize(
    ("seen", "pause"),
    [
        ([], 0.5),
        ([99.0], 0.5),  # its lease ends after the next renewal
        ([96.0, 99.0], 0.24 + AFTER),
        ([95.0, 99.0], 0.5),  # found dead already
    ],
)
def test_the_next_look_comes_when_a_silent_member_must_be_dead(monkeypatch, seen, pause):
    bench = RenewalBench(monkeypatch)
    bench.at(99.5)
    bench.now = 100.0
    stamps = {MemberId(number, "x"): Stamp(1, first) for number, first in enumerate(seen)}
    bench.coordinator._leadership._stamps = stamps

    assert bench.coordinator._pause(bench.now) == pytest.approx(pause)


def test_a_loop_that_stands_still_is_renewed_for_no_longer_than_the_hang_limit(monkeypatch):
    bench = RenewalBench(monkeypatch)

    for second in range(10):
        bench.at(100.0 + second)

    assert bench.renewals == [100.0, 101.0, 102.0, 103.0, 104.0, 105.0, 106.0]


def test_a_loop_that_runs_again_is_renewed_again(monkeypatch):
    bench = RenewalBench(monkeypatch)
    bench.at(110.0)

    bench.coordinator.beat()
    bench.at(111.0)

    assert bench.renewals == [111.0]
