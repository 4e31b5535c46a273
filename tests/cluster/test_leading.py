"""What nobody foresaw while a member leads: it stays a member, and leads on once it can."""

import logging

import pytest

from pyspider_zk.cluster.event_log import EventLog, EventRecorder
from pyspider_zk.cluster.leader import Leadership
from tests.support.crew import Crew
from tests.support.waiting import eventually

pytestmark = pytest.mark.zk

DUTIES = [(Leadership, "_look"), (EventRecorder, "record"), (EventLog, "trim")]


class FailingDuty:
    """A duty that fails for every leader; counts how often."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, *_args: object, **_named: object) -> object:
        self.count += 1
        raise ValueError("nobody foresaw this")


@pytest.mark.parametrize(("where", "duty"), DUTIES)
def test_a_duty_that_fails_ends_nobody_and_is_told_once(
    crew: Crew, monkeypatch, caplog: pytest.LogCaptureFixture, where: type, duty: str
):
    caplog.set_level(logging.INFO, "pyspider_zk.cluster.coordinator")
    fault = FailingDuty()
    with monkeypatch.context() as patched:
        patched.setattr(where, duty, fault)
        alone = crew.start()
        eventually(lambda: fault.count >= 3, "leading fails again and again")
        renewals = crew.cluster().renewals[alone.member]
        eventually(lambda: crew.cluster().renewals[alone.member] > renewals, "the lease goes on")

    crew.shared_by(alone)
    eventually(lambda: "leading works again" in caplog.messages, "it is told that it works again")

    assert alone.failure is None
    told = [one for one in caplog.records if one.levelno == logging.ERROR]
    assert len(told) == 1
    assert "nobody foresaw this" in told[0].getMessage()
    assert told[0].exc_info


@pytest.mark.parametrize(("where", "duty"), [(EventRecorder, "record"), (Leadership, "_sweep")])
def test_the_slots_of_the_dead_move_though_another_duty_fails_each_time(
    crew: Crew, monkeypatch, where: type, duty: str
):
    first, second, third = crew.start_and_share(3, mortal=[2])
    monkeypatch.setattr(where, duty, FailingDuty())

    third.die()
    crew.shared_by(first, second)

    assert [first.failure, second.failure] == [None, None]
