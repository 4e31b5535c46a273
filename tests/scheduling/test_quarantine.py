"""Quarantine: one project's fault is nobody else's."""

from pyspider_zk.scheduling.quarantine import PAUSES, Quarantine
from tests.support.clock import Clock


def test_a_project_waits_longer_after_each_failure():
    clock = Clock(100.0)
    quarantine = Quarantine(clock)
    waited = []

    for _ in range(len(PAUSES) + 1):
        quarantine.put("a", ValueError("rate is no number"))
        waited.append(quarantine.told()["a"]["next_look"])

    assert waited == [*PAUSES, PAUSES[-1]]


def test_it_is_due_when_its_pause_is_over_and_not_before():
    clock = Clock(100.0)
    quarantine = Quarantine(clock)
    quarantine.put("a", "its row is broken")

    clock.now += PAUSES[0] - 0.01
    assert quarantine.due() == []
    clock.now += 0.01
    assert quarantine.due() == ["a"]


def test_a_released_project_begins_anew():
    quarantine = Quarantine(Clock(100.0))
    quarantine.put("a", "once")
    quarantine.put("a", "twice")

    quarantine.release("a")

    assert "a" not in quarantine
    quarantine.put("a", "again")
    assert quarantine.told()["a"]["failures"] == 1


def test_the_reason_is_told_and_said_once(caplog):
    quarantine = Quarantine(Clock(100.0))

    quarantine.put("a", ValueError("rate is no number"))
    quarantine.put("a", ValueError("rate is no number"))

    assert "rate is no number" in quarantine.told()["a"]["reason"]
    assert caplog.text.count("rate is no number") == 1
